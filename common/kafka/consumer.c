#include "kafka/consumer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "base/msg.h"
#include "kafka/error.h"
#include "kafka/figures.h"
#include "stream/pack.h"

/* For the bounds of the log, when the program is about to end. */
#define BOUNDS_TIMEOUT_MS 5000

int
consumer_start(struct consumer *consumer, struct kafka_client *client,
    const char *topic, const struct start_point *points, const int64_t *ends,
    size_t count, struct err *err)
{
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new((int)count);
	rd_kafka_resp_err_t error;

	*consumer = (struct consumer){.client = client, .topic = topic};
	kafka_client_leave_queue(client);
	watch_init(&consumer->watch, client, topic);
	buf_init(&consumer->headers);
	for (size_t i = 0; i < count; i++)
		if (points[i].offset < ends[i])
			rd_kafka_topic_partition_list_add(
			    list, topic, points[i].partition)
			    ->offset = points[i].offset;
	error = rd_kafka_assign(client->handle, list);
	rd_kafka_topic_partition_list_destroy(list);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return kafka_error_set(err, error, topic);
	return 0;
}

int
consumer_join(struct consumer *consumer, const struct start_point *points,
    size_t count, struct err *err)
{
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new((int)count);
	rd_kafka_error_t *error;
	int result = 0;

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(
		    list, consumer->topic, points[i].partition)
		    ->offset = points[i].offset;
	error = rd_kafka_incremental_assign(consumer->client->handle, list);
	rd_kafka_topic_partition_list_destroy(list);
	if (error != NULL)
		result = kafka_error_set(
		    err, rd_kafka_error_code(error), consumer->topic);
	rd_kafka_error_destroy(error);
	return result;
}

static void
drop_message(struct consumer *consumer)
{
	if (consumer->message != NULL)
		rd_kafka_message_destroy(consumer->message);
	consumer->message = NULL;
}

void
consumer_release(struct consumer *consumer)
{
	drop_message(consumer);
	buf_release(&consumer->headers);
}

static int
refuse_out_of_range(struct consumer *consumer, struct err *err)
{
	const rd_kafka_message_t *message = consumer->message;
	int64_t low = -1, high = -1;
	rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
	    consumer->client->handle, consumer->topic, message->partition, &low,
	    &high, BOUNDS_TIMEOUT_MS);

	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, EX_DATAERR,
		    "%s[%d]: offset out of range: %" PRId64
		    ", what the log holds isn't known: %s",
		    consumer->topic, (int)message->partition, message->offset,
		    rd_kafka_err2str(error));
	return err_set(err, EX_DATAERR,
	    "%s[%d]: offset out of range: %" PRId64 ", the log holds %" PRId64
	    " to %" PRId64,
	    consumer->topic, (int)message->partition, message->offset, low,
	    high);
}

/* Errors that librdkafka itself goes on from: of the connection, and of a
 * fetch that Kafka says to repeat. */
static bool
passes(rd_kafka_resp_err_t error)
{
	switch (error) {
	case RD_KAFKA_RESP_ERR__TRANSPORT:
	case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
	case RD_KAFKA_RESP_ERR__RESOLVE:
	case RD_KAFKA_RESP_ERR__TIMED_OUT:
	case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
	case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
	case RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR:
	case RD_KAFKA_RESP_ERR_FETCH_SESSION_ID_NOT_FOUND:
	case RD_KAFKA_RESP_ERR_INVALID_FETCH_SESSION_EPOCH:
	case RD_KAFKA_RESP_ERR_LISTENER_NOT_FOUND:
	case RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH:
	case RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH:
	case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE:
	case RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED:
		return true;
	default:
		return false;
	}
}

/* An error that is of no partition. */
static int
take_general_error(
    struct consumer *consumer, rd_kafka_resp_err_t error, struct err *err)
{
	/* librdkafka asks for the group's coordinator on its own. */
	if (passes(error) ||
	    (error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED &&
		!consumer->client->has_group))
		return CONSUMER_NOTHING;
	return kafka_error_set(err, error, consumer->topic);
}

static int
take_event(
    struct consumer *consumer, struct consumer_item *item, struct err *err)
{
	const rd_kafka_message_t *message = consumer->message;
	char what[300];

	if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
		kafka_error_count(message->err);
	if (message->rkt == NULL)
		return take_general_error(consumer, message->err, err);
	item->partition = message->partition;
	item->offset = message->offset;
	if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
		return CONSUMER_EOF;
	if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
		return refuse_out_of_range(consumer, err);
	snprintf(what, sizeof(what), "%s[%d]: at offset %" PRId64,
	    consumer->topic, (int)message->partition, message->offset);
	if (passes(message->err)) {
		msg_write(MSG_INFO, "%s: %s: asked again", what,
		    rd_kafka_err2str(message->err));
		return CONSUMER_NOTHING;
	}
	return kafka_error_set(err, message->err, what);
}

static void
pack_headers(struct buf *buf, const rd_kafka_headers_t *headers)
{
	const char *name;
	const void *value;
	size_t bytes;

	buf_reset(buf);
	pack_array(buf, (uint32_t)rd_kafka_header_cnt(headers));
	for (size_t i = 0;
	     rd_kafka_header_get_all(headers, i, &name, &value, &bytes) == 0;
	     i++) {
		pack_array(buf, 2);
		pack_text(buf, name);
		pack_bin(buf, (struct slice){value, bytes});
	}
}

static int
take_record(
    struct consumer *consumer, struct consumer_item *item, struct err *err)
{
	const rd_kafka_message_t *message = consumer->message;
	rd_kafka_headers_t *headers;
	rd_kafka_timestamp_type_t type;
	rd_kafka_resp_err_t error;

	item->partition = message->partition;
	item->offset = message->offset;
	item->record = (struct record){.offset = message->offset,
	    .timestamp_ms = rd_kafka_message_timestamp(message, &type),
	    .key = {message->key, message->key_len},
	    .value = {message->payload, message->len}};
	error = rd_kafka_message_headers(message, &headers);
	if (error == RD_KAFKA_RESP_ERR__NOENT)
		return CONSUMER_RECORD;
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, EX_DATAERR,
		    "%s[%d]: headers of offset %" PRId64 ": %s",
		    consumer->topic, (int)message->partition, message->offset,
		    rd_kafka_err2str(error));
	pack_headers(&consumer->headers, headers);
	if (consumer->headers.failed)
		return err_memory(err, "headers");
	item->record.headers = slice_of_buf(&consumer->headers);
	return CONSUMER_RECORD;
}

int
consumer_poll(struct consumer *consumer, int timeout_ms,
    struct consumer_item *item, struct err *err)
{
	drop_message(consumer);
	if (watch_look(&consumer->watch, err) < 0)
		return -1;
	consumer->message =
	    rd_kafka_consumer_poll(consumer->client->handle, timeout_ms);
	if (consumer->message == NULL) {
		watch_note(&consumer->watch, false);
		return kafka_client_poll(consumer->client, err) < 0
		    ? -1
		    : CONSUMER_NOTHING;
	}
	if (consumer->message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		return take_event(consumer, item, err);
	watch_note(&consumer->watch, true);
	FAILPOINT("after-poll");
	return take_record(consumer, item, err);
}

void
consumer_pause(struct consumer *consumer, int32_t partition)
{
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new(1);

	rd_kafka_topic_partition_list_add(list, consumer->topic, partition);
	rd_kafka_pause_partitions(consumer->client->handle, list);
	rd_kafka_topic_partition_list_destroy(list);
}
