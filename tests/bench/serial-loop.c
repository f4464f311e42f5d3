/*
 * serial-loop - the fan-out as one program writes it by hand: the peer that
 * the chain is compared with.
 *
 * Read up to a batch of records of the Outbox, plan them, produce their
 * dispatches with acks=all, wait for every report, commit, and only then the
 * next.  Planning is the chain's own, so that the work is the same.
 * Everything of the producer that -X doesn't set is as librdkafka has it.
 *
 * Prints a line of tab-separated numbers a batch: records, dispatches, and
 * the microseconds it took to read, plan, enqueue, wait for the
 * acknowledgements and commit.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "message/plan.h"

static const char synopsis[] =
    "usage: serial-loop -b brokers -t outbox -d dispatch -g group -c count\n"
    "                   [-X name=value] ... [-n partitions] [--seconds s]\n"
    "                   [--flush] [--connections count] [--stats file]\n";

#define BATCH_RECORDS 512
#define BATCH_WAIT_MS 5 /* for more, when something has come */
#define RECORD_BYTES_MAX 1000000
#define RECORD_AROUND_BYTES 512
#define CONNECTIONS_MAX 64

static struct options {
	struct opt_common common;
	const char *brokers, *outbox, *dispatch, *group;
	struct opt_list properties; /* of the producer */
	uint64_t count; /* records to read before it ends, or */
	uint64_t seconds; /* how long to go on, whatever comes first */
	uint64_t partitions;
	uint64_t connections; /* producers; partitions are dealt out */
	bool flush; /* wait by rd_kafka_flush(), which cuts linger.ms short */
	const char *stats; /* librdkafka's statistics go there */
} options = {.seconds = 3600, .partitions = 64, .connections = 1};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.brokers},
    {'t', NULL, OPT_TEXT, &options.outbox},
    {'d', NULL, OPT_TEXT, &options.dispatch},
    {'g', NULL, OPT_TEXT, &options.group},
    {'X', NULL, OPT_LIST, &options.properties},
    {'c', NULL, OPT_NUMBER, &options.count, 1, UINT32_MAX, "records"},
    {0, "seconds", OPT_NUMBER, &options.seconds, 1, 3600, "seconds"},
    {'n', NULL, OPT_NUMBER, &options.partitions, 1, 1000, "partitions"},
    {0, "connections", OPT_NUMBER, &options.connections, 1, CONNECTIONS_MAX,
	"connections"},
    {0, "flush", OPT_FLAG, &options.flush},
    {0, "stats", OPT_TEXT, &options.stats},
    {0},
};

static rd_kafka_t *consumer;
static rd_kafka_topic_partition_list_t *offsets; /* to be committed */
static struct connection {
	rd_kafka_t *handle;
	rd_kafka_topic_t *topic;
	size_t unreported;
} connections[CONNECTIONS_MAX];
static FILE *stats;

static struct outbox outbox;
static struct plan plan;

static struct item {
	uint32_t partition;
	size_t at, key_bytes, value_bytes; /* in content, the key first */
} * items;
static size_t item_count, item_room;
static struct buf content;

static void
die(const char *what, const char *why)
{
	msg_write(MSG_ERROR, "%s: %s", what, why);
	exit(EX_TEMPFAIL);
}

static void
check(const char *what, rd_kafka_resp_err_t error)
{
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		die(what, rd_kafka_err2str(error));
}

static void
on_report(rd_kafka_t *handle, const rd_kafka_message_t *message, void *context)
{
	struct connection *connection = context;

	(void)handle;
	check("report", message->err);
	if (message->offset < 0)
		die("report", "without an offset");
	connection->unreported--;
}

static int
on_stats(rd_kafka_t *handle, char *json, size_t bytes, void *context)
{
	(void)handle, (void)context;
	fwrite(json, 1, bytes, stats);
	fputc('\n', stats);
	return 0;
}

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) !=
	    RD_KAFKA_CONF_OK)
		die(name, why);
}

static rd_kafka_t *
open_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
	char why[256];
	rd_kafka_t *handle;

	set(conf, "bootstrap.servers", options.brokers);
	handle = rd_kafka_new(type, conf, why, sizeof(why));
	if (handle == NULL)
		die("librdkafka", why);
	return handle;
}

static rd_kafka_conf_t *
producer_conf(struct connection *connection)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char pair[256];

	set(conf, "acks", "all");
	for (size_t i = 0; i < options.properties.count; i++) {
		snprintf(pair, sizeof(pair), "%s", options.properties.text[i]);
		if (strchr(pair, '=') == NULL)
			die("-X wants name=value", pair);
		*strchr(pair, '=') = '\0';
		set(conf, pair, pair + strlen(pair) + 1);
	}
	rd_kafka_conf_set_opaque(conf, connection);
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);
	if (stats != NULL)
		rd_kafka_conf_set_stats_cb(conf, on_stats);
	return conf;
}

static void
open_producers(void)
{
	if (options.stats != NULL &&
	    (stats = fopen(options.stats, "w")) == NULL)
		die(options.stats, "can't be written");
	for (uint64_t i = 0; i < options.connections; i++) {
		struct connection *connection = &connections[i];

		connection->handle =
		    open_handle(RD_KAFKA_PRODUCER, producer_conf(connection));
		connection->topic = rd_kafka_topic_new(
		    connection->handle, options.dispatch, NULL);
	}
}

/* Assigns all partitions of the Outbox, from what the group has committed. */
static void
open_consumer(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	const struct rd_kafka_metadata *metadata;
	rd_kafka_topic_t *topic;

	set(conf, "group.id", options.group);
	set(conf, "enable.auto.commit", "false");
	set(conf, "auto.offset.reset", "earliest");
	consumer = open_handle(RD_KAFKA_CONSUMER, conf);
	rd_kafka_poll_set_consumer(consumer);
	topic = rd_kafka_topic_new(consumer, options.outbox, NULL);
	check("metadata",
	    rd_kafka_metadata(consumer, 0, topic, &metadata, 10000));
	offsets = rd_kafka_topic_partition_list_new(4);
	for (int i = 0; i < metadata->topics[0].partition_cnt; i++)
		rd_kafka_topic_partition_list_add(offsets, options.outbox, i)
		    ->offset = RD_KAFKA_OFFSET_STORED;
	check("assign", rd_kafka_assign(consumer, offsets));
	for (int i = 0; i < offsets->cnt; i++)
		offsets->elems[i].offset = RD_KAFKA_OFFSET_INVALID;
	rd_kafka_metadata_destroy(metadata);
	rd_kafka_topic_destroy(topic);
}

/* Up to a batch of records, at least one; returns how many. */
static size_t
read_batch(rd_kafka_message_t **messages, size_t most)
{
	uint64_t until_us = 0;
	size_t count = 0;

	while (count < most) {
		int wait_ms =
		    count == 0 ? 1000 : clock_left_ms(until_us, BATCH_WAIT_MS);
		rd_kafka_message_t *message =
		    rd_kafka_consumer_poll(consumer, wait_ms);

		if (message == NULL && count > 0)
			break;
		if (message == NULL)
			continue;
		check("read", message->err);
		if (count == 0)
			until_us = clock_us() + BATCH_WAIT_MS * 1000;
		offsets->elems[message->partition].offset = message->offset + 1;
		messages[count++] = message;
	}
	return count;
}

static struct item *
add_item(void)
{
	if (item_count == item_room) {
		item_room = item_room == 0 ? 1024 : 2 * item_room;
		items = realloc(items, item_room * sizeof(*items));
		if (items == NULL)
			die("items", "out of memory");
	}
	return &items[item_count++];
}

static void
plan_one(const rd_kafka_message_t *message)
{
	struct slice value = {message->payload, message->len};
	struct outbox_message decoded;
	struct item item;
	struct err err;

	if (outbox_decode(&outbox, value, &decoded, &err) < 0 ||
	    plan_message(&plan, &decoded, RECORD_AROUND_BYTES, &err) < 0)
		die("plan", err.text);
	item.key_bytes = decoded.conversation.bytes.bytes;
	for (;;) {
		int more;

		item.at = content.bytes;
		buf_append(
		    &content, decoded.conversation.bytes.data, item.key_bytes);
		more = plan_next(&plan, &item.partition, &content, &err);
		if (more < 0 || content.failed)
			die("plan", more < 0 ? err.text : "out of memory");
		if (more == 0) {
			content.bytes = item.at;
			return;
		}
		item.value_bytes = content.bytes - item.at - item.key_bytes;
		*add_item() = item;
	}
}

static void
plan_batch(rd_kafka_message_t **messages, size_t count)
{
	buf_reset(&content);
	item_count = 0;
	for (size_t i = 0; i < count; i++) {
		plan_one(messages[i]);
		rd_kafka_message_destroy(messages[i]);
	}
}

/* Nothing is copied: the content stays until all reports have come. */
static void
enqueue(void)
{
	for (size_t i = 0; i < item_count; i++) {
		const struct item *item = &items[i];
		struct connection *connection =
		    &connections[item->partition % options.connections];
		uint8_t *key = content.data + item->at;

		if (rd_kafka_produce(connection->topic,
			(int32_t)item->partition, 0, key + item->key_bytes,
			item->value_bytes, key, item->key_bytes, NULL) != 0)
			die("produce", rd_kafka_err2str(rd_kafka_last_error()));
		connection->unreported++;
	}
}

/* One connection after the other: all must have come. */
static void
wait_for_reports(void)
{
	for (uint64_t i = 0; i < options.connections; i++) {
		struct connection *connection = &connections[i];

		if (options.flush)
			check(
			    "flush", rd_kafka_flush(connection->handle, 60000));
		while (connection->unreported > 0)
			rd_kafka_poll(connection->handle, 1000);
	}
}

static void
commit(void)
{
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new(offsets->cnt);

	for (int i = 0; i < offsets->cnt; i++)
		if (offsets->elems[i].offset >= 0)
			rd_kafka_topic_partition_list_add(
			    list, options.outbox, i)
			    ->offset = offsets->elems[i].offset;
	check("commit", rd_kafka_commit(consumer, list, 0));
	rd_kafka_topic_partition_list_destroy(list);
}

/* One turn of the loop; returns how many records it took. */
static size_t
turn(uint64_t left)
{
	rd_kafka_message_t *messages[BATCH_RECORDS];
	uint64_t at_us[6] = {clock_us()};
	size_t count = read_batch(
	    messages, left < BATCH_RECORDS ? (size_t)left : BATCH_RECORDS);

	at_us[1] = clock_us();
	plan_batch(messages, count);
	at_us[2] = clock_us();
	enqueue();
	at_us[3] = clock_us();
	wait_for_reports();
	at_us[4] = clock_us();
	commit();
	at_us[5] = clock_us();
	printf("%zu\t%zu", count, item_count);
	for (int i = 1; i < 6; i++)
		printf("\t%llu", (unsigned long long)(at_us[i] - at_us[i - 1]));
	putchar('\n');
	return count;
}

static int
check_options(struct err *err)
{
	if (options.count == 0)
		return err_set(err, EX_USAGE, "-c: missing");
	return opt_required("-b", options.brokers, err) < 0 ||
		opt_required("-t", options.outbox, err) < 0 ||
		opt_required("-d", options.dispatch, err) < 0 ||
		opt_required("-g", options.group, err) < 0
	    ? -1
	    : 0;
}

int
main(int argc, char **argv)
{
	struct err err;
	uint64_t left, until_us;
	int result = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);

	if (result == OPT_SHOWN)
		return EX_OK;
	outbox_init(&outbox);
	if (result < 0 || check_options(&err) < 0 ||
	    plan_init(&plan, (uint32_t)options.partitions, 1000,
		RECORD_BYTES_MAX, &err) < 0)
		return msg_fail(&err);
	open_producers();
	open_consumer();
	left = options.count - turn(options.count);
	/* The first one has waited for the group's coordinator. */
	until_us = clock_us() + options.seconds * 1000000;
	while (left > 0 && clock_us() < until_us)
		left -= turn(left);
	if (fflush(stdout) != 0 || (stats != NULL && fclose(stats) != 0))
		die("output", "can't be written");
	_exit(EX_OK); /* as the chain does: nothing is left to be kept */
}
