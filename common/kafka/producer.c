#include "kafka/producer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/topic.h"
#include "kafka/error.h"
#include "kafka/topic.h"
#include "stream/record.h"

/* A question to the brokers is asked anew after this time, at first; between
 * two, errors are looked at that no waiting can mend. */
#define ASK_MS_FIRST 250
#define ASK_MS_MOST 4000
#define ASK_PAUSE_MS 100

/* The broker refuses all records of a request for the size of the whole. */
#define TOO_LARGE \
	"larger than the topic's max.message.bytes, alone or with the " \
	"records sent with it (batch.size)"

/* Purged records are reported within this time, or not at all. */
#define ABANDON_MS 1000

int
producer_open(struct producer *producer, rd_kafka_conf_t *conf,
    bool needs_offset, uint64_t connect_ms, struct err *err)
{
	static const uint64_t one = 1;
	char why[256];

	*producer = (struct producer){
	    .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	    .needs_offset = needs_offset,
	    .connect_ms = connect_ms,
	};
	if (producer->event_fd < 0) {
		rd_kafka_conf_destroy(conf);
		return err_set(err, EX_OSERR, "eventfd: %s", strerror(errno));
	}
	rd_kafka_conf_set_events(
	    conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
	producer->client =
	    rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (producer->client == NULL) {
		rd_kafka_conf_destroy(conf);
		producer_close(producer);
		return err_set(err, EX_CONFIG, "kafka: %s", why);
	}
	producer->queue = rd_kafka_queue_get_main(producer->client);
	rd_kafka_queue_io_event_enable(
	    producer->queue, producer->event_fd, &one, sizeof(one));
	return 0;
}

static void
free_topic(struct producer_topic *topic)
{
	rd_kafka_topic_destroy(topic->handle);
	free((char *)(uintptr_t)topic->name.data);
	free(topic);
}

static void
free_topics(struct producer *producer)
{
	struct producer_topic *topic = producer->topics;

	while (topic != NULL) {
		struct producer_topic *next = topic->next;

		free_topic(topic);
		topic = next;
	}
	producer->topics = NULL;
}

static void
purge(struct producer *producer)
{
	rd_kafka_purge(producer->client,
	    RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
		RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void
producer_abandon(struct producer *producer)
{
	uint64_t deadline_us = clock_us() + ABANDON_MS * 1000;
	struct err ignored;
	int left_ms;

	purge(producer);
	while (rd_kafka_outq_len(producer->client) > 0 &&
	    (left_ms = clock_left_ms(deadline_us, ABANDON_MS)) > 0)
		producer_serve(producer, left_ms, &ignored);
}

void
producer_close(struct producer *producer)
{
	if (producer->client != NULL) {
		purge(producer);
		rd_kafka_queue_destroy(producer->queue);
		free_topics(producer);
		rd_kafka_destroy(producer->client);
	}
	close(producer->event_fd);
	*producer = (struct producer){.event_fd = -1};
}

int
producer_fd(const struct producer *producer)
{
	return producer->event_fd;
}

static void
take_report(struct producer *producer, const rd_kafka_message_t *message)
{
	struct producer_report report = {
	    .record = message->_private,
	    .topic = rd_kafka_topic_name(message->rkt),
	    .partition = message->partition,
	};

	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
		report.code = kafka_error_code(message->err);
		report.why =
		    message->err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE
		    ? TOO_LARGE
		    : rd_kafka_err2str(message->err);
	} else if (producer->needs_offset && message->offset < 0) {
		report.code = EX_TEMPFAIL;
		report.why = "unproven: reported without an offset";
	}
	producer->report(&report, producer->context);
}

static void
take_error(struct producer *producer, rd_kafka_event_t *event)
{
	const char *reason = rd_kafka_event_error_string(event);

	kafka_error_keep(producer->client, rd_kafka_event_error(event), reason,
	    &producer->broken);
	snprintf(producer->last_error, sizeof(producer->last_error), "%s",
	    reason == NULL ? "" : reason);
}

int
producer_serve(struct producer *producer, int timeout_ms, struct err *err)
{
	const rd_kafka_message_t *message;
	rd_kafka_event_t *event;
	uint64_t count;
	ssize_t ignored;

	/* Emptied first: what comes from here on makes it readable again. */
	ignored = read(producer->event_fd, &count, sizeof(count));
	(void)ignored;
	while ((event = rd_kafka_queue_poll(producer->queue, timeout_ms)) !=
	    NULL) {
		timeout_ms = 0;
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			take_error(producer, event);
		while ((message = rd_kafka_event_message_next(event)) != NULL)
			take_report(producer, message);
		rd_kafka_event_destroy(event);
	}
	if (producer->broken.code == 0)
		return 0;
	*err = producer->broken;
	return -1;
}

/* Asks once: 1 known, 0 not yet (why in *error), -1 for good. */
static int
ask_partitions(struct producer *producer, struct producer_topic *topic,
    int timeout_ms, rd_kafka_resp_err_t *error, struct err *err)
{
	int code;

	*error = kafka_topic_ask(
	    producer->client, topic->handle, timeout_ms, &topic->partitions);
	if (*error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 1;
	code = kafka_error_code(*error);
	if (code != EX_UNAVAILABLE && code != EX_TEMPFAIL)
		return err_set(err, code, "topic %s: %s",
		    (const char *)topic->name.data, rd_kafka_err2str(*error));
	return producer_serve(producer, ASK_PAUSE_MS, err);
}

static int
refuse_topic(struct producer *producer, const struct producer_topic *topic,
    rd_kafka_resp_err_t error, struct err *err)
{
	bool no_topic = error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	const char *why = no_topic || producer->last_error[0] == '\0'
	    ? rd_kafka_err2str(error)
	    : producer->last_error;

	return err_set(err, EX_UNAVAILABLE, "topic %s: not within %llu ms: %s",
	    (const char *)topic->name.data,
	    (unsigned long long)producer->connect_ms, why);
}

static int
look_up(
    struct producer *producer, struct producer_topic *topic, struct err *err)
{
	uint64_t deadline_us = clock_us() + producer->connect_ms * 1000;
	rd_kafka_resp_err_t error, answer = RD_KAFKA_RESP_ERR__TIMED_OUT;
	int ask_ms = ASK_MS_FIRST;

	for (;;) {
		int left_ms = clock_left_ms(deadline_us, ask_ms);
		int known;

		known = ask_partitions(
		    producer, topic, left_ms > 0 ? left_ms : 1, &error, err);
		if (known != 0)
			return known < 0 ? -1 : 0;
		if (producer->give_up != NULL && producer->give_up())
			return err_set(err, EX_TEMPFAIL,
			    "topic %s: told to stop before an answer",
			    (const char *)topic->name.data);
		/* What a broker said tells more than that the last try was
		 * too short. */
		if (error != RD_KAFKA_RESP_ERR__TIMED_OUT)
			answer = error;
		if (left_ms == 0)
			return refuse_topic(producer, topic, answer, err);
		ask_ms = ask_ms < ASK_MS_MOST ? ask_ms * 2 : ask_ms;
	}
}

static struct producer_topic *
make_topic(struct producer *producer, struct slice name, struct err *err)
{
	struct producer_topic *topic = calloc(1, sizeof(*topic));
	char *copy = slice_dup(name);

	if (topic != NULL && copy != NULL)
		topic->handle =
		    rd_kafka_topic_new(producer->client, copy, NULL);
	if (topic == NULL || topic->handle == NULL) {
		free(topic);
		free(copy);
		err_memory(err, "topic");
		return NULL;
	}
	topic->name = slice_of(copy);
	return topic;
}

int
producer_find_topic(struct producer *producer, struct slice name,
    struct producer_topic **topic, struct err *err)
{
	struct producer_topic *made;

	for (*topic = producer->topics; *topic != NULL; *topic = (*topic)->next)
		if (slice_equal((*topic)->name, name))
			return 0;
	if (!topic_is_name(name))
		return err_set(
		    err, EX_DATAERR, "its topic isn't " TOPIC_WANTED);
	made = make_topic(producer, name, err);
	if (made == NULL)
		return -1;
	if (look_up(producer, made, err) < 0) {
		free_topic(made);
		return -1;
	}
	made->next = producer->topics;
	*topic = producer->topics = made;
	return 0;
}

static rd_kafka_headers_t *
make_headers(struct slice raw, struct err *err)
{
	struct cursor cursor;
	struct header header;
	rd_kafka_headers_t *headers;
	uint32_t left;
	int more = headers_open(raw, &cursor, &left, err);

	if (more < 0)
		return NULL;
	headers = rd_kafka_headers_new(left);
	while ((more = headers_next(&cursor, &left, &header, err)) == 1)
		rd_kafka_header_add(headers, (const char *)header.name.data,
		    (ssize_t)header.name.bytes, header.value.data,
		    (ssize_t)header.value.bytes);
	if (more < 0) {
		rd_kafka_headers_destroy(headers);
		return NULL;
	}
	return headers;
}

/* librdkafka takes pointers to what it never changes as void *. */
static void *mutable(const void *data)
{
	return (void *)(uintptr_t)data;
}

static rd_kafka_resp_err_t
send_one(struct producer *producer, const struct producer_record *record,
    rd_kafka_headers_t *headers)
{
	if (headers == NULL)
		return rd_kafka_produce(record->topic->handle,
			   record->partition, 0, mutable(record->value.data),
			   record->value.bytes, record->key.data,
			   record->key.bytes, record->record) == 0
		    ? RD_KAFKA_RESP_ERR_NO_ERROR
		    : rd_kafka_last_error();
	return rd_kafka_producev(producer->client,
	    RD_KAFKA_V_RKT(record->topic->handle),
	    RD_KAFKA_V_PARTITION(record->partition), RD_KAFKA_V_MSGFLAGS(0),
	    RD_KAFKA_V_VALUE(mutable(record->value.data), record->value.bytes),
	    RD_KAFKA_V_KEY(mutable(record->key.data), record->key.bytes),
	    RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(record->record),
	    RD_KAFKA_V_END);
}

int
producer_send(struct producer *producer, const struct producer_record *record,
    struct err *err)
{
	rd_kafka_headers_t *headers = NULL;
	rd_kafka_resp_err_t error;

	if (record->headers.data != NULL) {
		headers = make_headers(record->headers, err);
		if (headers == NULL)
			return -1;
	}
	error = send_one(producer, record, headers);
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return PRODUCER_SENT;
	if (headers != NULL)
		rd_kafka_headers_destroy(headers);
	if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		return PRODUCER_FULL;
	if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
		return err_set(err, EX_DATAERR,
		    "%zu bytes: larger than message.max.bytes allows",
		    record->key.bytes + record->value.bytes);
	return err_set(
	    err, kafka_error_code(error), "%s", rd_kafka_err2str(error));
}
