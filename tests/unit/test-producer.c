/*
 * test-producer - what counts as delivered, against a mock broker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kafka/mock.h"
#include "kafka/producer-inner.h"
#include "kafka/stats.h"

#define CONNECT_MS 10000
#define SERVE_MS 100

static struct mock *mock;

/* What the reports said. */
static struct seen {
	uint32_t count;
	struct producer_report last;
	char why[256];
} seen;

static void
on_report(const struct producer_report *report, void *context)
{
	struct seen *to = context;

	to->count++;
	to->last = *report;
	/* They don't outlive the report. */
	to->last.topic = to->last.why = NULL;
	snprintf(to->why, sizeof(to->why), "%s",
	    report->why == NULL ? "" : report->why);
}

static int
start(void **state)
{
	struct err err;

	(void)state;
	mock = mock_start(1, &err);
	if (mock == NULL || mock_add_topic(mock, 1, "t:2", &err) < 0)
		return -1;
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	mock_stop(mock);
	return 0;
}

static void
open_with(struct producer *producer, const struct kafka_options *options,
    bool needs_offset, struct producer_topic **topic)
{
	struct err err;
	rd_kafka_conf_t *conf;

	assert_int_equal(
	    kafka_conf_build(options, KAFKA_PRODUCER, &conf, &err), 0);
	assert_int_equal(
	    producer_open(producer, conf, 1, needs_offset, CONNECT_MS, &err),
	    0);
	assert_int_equal(
	    producer_find_topic(producer, slice_of("t"), topic, &err), 0);
	assert_int_equal((*topic)->partitions, 2);
	seen = (struct seen){0};
	producer->report = on_report;
	producer->context = &seen;
}

static void
open_producer(struct producer *producer, const char *acks, bool needs_offset,
    struct producer_topic **topic)
{
	struct kafka_options options = {
	    .brokers = mock_brokers(mock), .not_durable = true};

	options.properties.text[0] = acks;
	options.properties.count = 1;
	open_with(producer, &options, needs_offset, topic);
}

/* Sends a record and waits for its report. */
static void
send_and_wait(struct producer *producer, struct producer_topic *topic)
{
	struct producer_record record = {
	    .topic = topic,
	    .partition = 1,
	    .key = slice_of("key"),
	    .value = slice_of("value"),
	    .record = &record,
	};
	struct err err;

	assert_int_equal(producer_send(producer, &record, &err), PRODUCER_SENT);
	for (int i = 0; i < CONNECT_MS / SERVE_MS && seen.count == 0; i++)
		assert_int_equal(producer_serve(producer, SERVE_MS, &err), 0);
	assert_int_equal(seen.count, 1);
	assert_ptr_equal(seen.last.record, &record);
	assert_int_equal(seen.last.partition, 1);
}

static void
test_report_with_an_offset_is_a_delivery(void **state)
{
	struct producer producer;
	struct producer_topic *topic;

	(void)state;
	open_producer(&producer, "acks=all", true, &topic);
	send_and_wait(&producer, topic);
	assert_int_equal(seen.last.code, 0);
	assert_int_equal(seen.last.state, PRODUCER_DELIVERED);
	assert_string_equal(seen.why, "");
	producer_close(&producer);
}

/* With acks=0 librdkafka reports without error and without an offset, as it
 * does for a retried request that it never saw acknowledged. */
static void
test_report_without_an_offset_is_unproven(void **state)
{
	struct producer producer;
	struct producer_topic *topic;

	(void)state;
	open_producer(&producer, "acks=0", true, &topic);
	send_and_wait(&producer, topic);
	assert_int_equal(seen.last.code, EX_TEMPFAIL);
	assert_int_equal(seen.last.state, PRODUCER_UNPROVEN);
	assert_string_equal(seen.why, "reported without an offset (unproven)");
	producer_close(&producer);

	open_producer(&producer, "acks=0", false, &topic);
	send_and_wait(&producer, topic);
	assert_int_equal(seen.last.code, 0);
	producer_close(&producer);
}

static void
test_abandoned_records_are_reported(void **state)
{
	struct producer producer;
	struct producer_topic *topic;
	struct producer_record record = {.partition = 0};
	struct err err;

	(void)state;
	assert_int_equal(
	    mock_add_error(mock, "produce=NOT_ENOUGH_REPLICAS:1000", &err), 0);
	open_producer(&producer, "acks=all", true, &topic);
	record.topic = topic;
	assert_int_equal(
	    producer_send(&producer, &record, &err), PRODUCER_SENT);
	producer_abandon(&producer);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last.code, EX_TEMPFAIL);
	producer_close(&producer);
}

static void
test_refused_with_others_is_sent_alone(void **state)
{
	struct producer producer;
	struct producer_topic *topic;
	struct err err;

	(void)state;
	assert_int_equal(
	    mock_add_error(mock, "produce=INVALID_RECORD:1", &err), 0);
	open_producer(&producer, "acks=all", true, &topic);
	assert_int_equal(producer.made_count, 1);
	send_and_wait(&producer, topic);
	assert_int_equal(seen.last.state, PRODUCER_DELIVERED);
	assert_int_equal(producer.made_count, 2);
	producer_close(&producer);
}

/* One report, of the second refusal. */
static void
test_refused_alone_is_at_fault(void **state)
{
	struct producer producer;
	struct producer_topic *topic;
	struct err err;

	(void)state;
	assert_int_equal(
	    mock_add_error(mock, "produce=INVALID_RECORD:2", &err), 0);
	open_producer(&producer, "acks=all", true, &topic);
	send_and_wait(&producer, topic);
	assert_int_equal(seen.last.state, PRODUCER_NOT_PERSISTED);
	assert_int_equal(seen.last.code, EX_DATAERR);
	assert_string_equal(seen.why,
	    "8 bytes: Broker: Broker failed to validate record (not "
	    "persisted)");
	producer_close(&producer);
}

/* What was sent alone from the start isn't sent once more. */
static void
test_alone_is_judged_at_once(void **state)
{
	struct producer producer;
	struct producer_topic *topic;
	struct producer_record record = {.partition = -1, .alone = true};
	struct err err;

	(void)state;
	assert_int_equal(
	    mock_add_error(mock, "produce=INVALID_RECORD:1", &err), 0);
	open_producer(&producer, "acks=all", true, &topic);
	record.topic = topic;
	assert_int_equal(
	    producer_send(&producer, &record, &err), PRODUCER_SENT);
	for (int i = 0; i < CONNECT_MS / SERVE_MS && seen.count == 0; i++)
		assert_int_equal(producer_serve(&producer, SERVE_MS, &err), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last.code, EX_DATAERR);
	producer_close(&producer);
}

/* What a call says before the error event has come. */
static void
test_client_that_failed_for_good(void **state)
{
	struct producer producer;
	struct producer_topic *topic;
	struct producer_record record = {.partition = 0};
	struct kafka_options options = {
	    .brokers = mock_brokers(mock), .idempotent = true};
	struct err err;

	(void)state;
	open_with(&producer, &options, true, &topic);
	record.topic = topic;
	assert_int_equal(
	    rd_kafka_test_fatal_error(producer.clients[0].handle,
		RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, "no ACL"),
	    0);
	assert_int_equal(producer_send(&producer, &record, &err), -1);
	assert_int_equal(err.code, EX_NOPERM);
	assert_non_null(strstr(err.text, "kafka: fatal: "));
	assert_non_null(strstr(err.text, "no ACL"));
	producer_close(&producer);
}

static void
test_names_that_no_topic_has(void **state)
{
	static const char *const names[] = {
	    "t\0x", ".", "..", "a/b", "\303\266"};
	static const size_t bytes[] = {3, 1, 2, 3, 2};
	struct producer producer;
	struct producer_topic *topic;
	struct err err;

	(void)state;
	open_producer(&producer, "acks=all", true, &topic);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct slice name = {(const uint8_t *)names[i], bytes[i]};

		assert_int_equal(
		    producer_find_topic(&producer, name, &topic, &err), -1);
		assert_int_equal(err.code, EX_DATAERR);
		assert_null(topic);
	}
	producer_close(&producer);
}

/* A look-up that failed leaves nothing behind that the next one finds, and
 * one that no waiting can mend doesn't wait. */
static void
test_topic_that_the_brokers_refuse(void **state)
{
	struct producer producer;
	struct producer_topic *topic;
	struct err err;
	uint64_t start_us;

	(void)state;
	assert_int_equal(
	    mock_add_topic_error(mock, "bad=TOPIC_EXCEPTION", &err), 0);
	open_producer(&producer, "acks=all", true, &topic);
	for (int i = 0; i < 2; i++) {
		start_us = clock_us();
		assert_int_equal(producer_find_topic(
				     &producer, slice_of("bad"), &topic, &err),
		    -1);
		assert_int_equal(err.code, EX_CONFIG);
		assert_string_equal(
		    err.text, "topic bad: Broker: Invalid topic");
		assert_null(topic);
		assert_true(clock_us() - start_us < CONNECT_MS * 1000 / 2);
	}
	producer_close(&producer);
}

static void
set_interval(rd_kafka_conf_t *conf, const char *ms)
{
	assert_int_equal(
	    rd_kafka_conf_set(conf, "statistics.interval.ms", ms, NULL, 0),
	    RD_KAFKA_CONF_OK);
}

/* Of two clients the one that says more often is no stand-in for the other. */
static void
test_last_stats_are_of_each_client(void **state)
{
	struct kafka_options options = {.brokers = mock_brokers(mock)};
	struct stats stats = {.fd = -1};
	struct producer producer;
	struct err err;
	rd_kafka_conf_t *conf;

	(void)state;
	assert_int_equal(
	    kafka_conf_build(&options, KAFKA_PRODUCER, &conf, &err), 0);
	set_interval(conf, "50");
	assert_int_equal(
	    producer_open(&producer, conf, 1, true, CONNECT_MS, &err), 0);
	set_interval(producer.lone_conf, "1000");
	assert_int_equal(
	    producer_make_client(&producer, producer.lone_conf, &err), 0);
	assert_int_equal(stats_open(&stats, "/dev/null", &err), 0);
	producer.stats = &stats;
	producer_last_stats(&producer);
	assert_true(producer.clients[0].stats_count > 0);
	assert_true(producer.clients[1].stats_count > 0);
	stats_close(&stats);
	producer_close(&producer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_report_with_an_offset_is_a_delivery),
	    cmocka_unit_test(test_report_without_an_offset_is_unproven),
	    cmocka_unit_test(test_refused_with_others_is_sent_alone),
	    cmocka_unit_test(test_refused_alone_is_at_fault),
	    cmocka_unit_test(test_alone_is_judged_at_once),
	    cmocka_unit_test(test_client_that_failed_for_good),
	    cmocka_unit_test(test_names_that_no_topic_has),
	    cmocka_unit_test(test_topic_that_the_brokers_refuse),
	    cmocka_unit_test(test_abandoned_records_are_reported),
	    cmocka_unit_test(test_last_stats_are_of_each_client),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, start, stop);
}
