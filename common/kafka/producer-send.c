/* A record on its way to librdkafka. */
#include <stdlib.h>

#include "base/failpoint.h"
#include "kafka/error.h"
#include "kafka/producer-inner.h"
#include "stream/record.h"

/* Records without a key go to one partition for so many, and then to the
 * next: together they make larger requests. */
#define KEYLESS_RUN 256

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

static int32_t
choose_partition(struct producer_topic *topic, struct slice key)
{
	if (key.data == NULL)
		return (int32_t)(topic->keyless++ / KEYLESS_RUN %
		    topic->partitions);
	/* It looks at the key only: there is no client yet to ask which
	 * partitions have a leader. */
	return rd_kafka_msg_partitioner_murmur2_random(topic->handles[0],
	    key.data, key.bytes, (int32_t)topic->partitions, NULL, NULL);
}

static uint32_t
client_of(const struct producer *producer, const struct producer_topic *topic,
    int32_t partition)
{
	if (partition < 0 || (uint32_t)partition >= topic->partitions)
		return 0;
	return (uint32_t)((uint64_t)partition * producer->client_count /
	    topic->partitions);
}

/* Its own handle of a topic for a client. */
static rd_kafka_topic_t *
handle_of(
    struct producer *producer, struct producer_topic *topic, uint32_t client)
{
	if (topic->handles[client] == NULL)
		topic->handles[client] =
		    rd_kafka_topic_new(producer->clients[client].handle,
			(const char *)topic->name.data, NULL);
	return topic->handles[client];
}

/* Takes the headers where it succeeds. */
static rd_kafka_resp_err_t
send_to(struct producer *producer, uint32_t client,
    const struct producer_record *record, rd_kafka_headers_t *headers)
{
	rd_kafka_topic_t *topic = handle_of(producer, record->topic, client);

	if (topic == NULL)
		return rd_kafka_last_error();
	if (headers == NULL)
		return rd_kafka_produce(topic, record->partition, 0,
			   mutable(record->value.data), record->value.bytes,
			   record->key.data, record->key.bytes,
			   record->record) == 0
		    ? RD_KAFKA_RESP_ERR_NO_ERROR
		    : rd_kafka_last_error();
	return rd_kafka_producev(producer->clients[client].handle,
	    RD_KAFKA_V_RKT(topic), RD_KAFKA_V_PARTITION(record->partition),
	    RD_KAFKA_V_MSGFLAGS(0),
	    RD_KAFKA_V_VALUE(mutable(record->value.data), record->value.bytes),
	    RD_KAFKA_V_KEY(mutable(record->key.data), record->key.bytes),
	    RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(record->record),
	    RD_KAFKA_V_END);
}

/* What a client's producing calls answered. Their word for a client that has
 * failed for good doesn't say why, and it may come before the error event. */
static int
set_error(struct producer *producer, uint32_t client, rd_kafka_resp_err_t error,
    struct err *err)
{
	err->code = 0;
	if (error == RD_KAFKA_RESP_ERR__FATAL)
		kafka_error_keep(
		    producer->clients[client].handle, error, NULL, err);
	if (err->code != 0)
		return -1;
	return err_set(
	    err, kafka_error_code(error), "%s", rd_kafka_err2str(error));
}

/* The client for records alone in their requests: the last of all. */
static int
make_lone(struct producer *producer, struct err *err)
{
	if (producer->made_count > producer->client_count)
		return 0;
	return producer_make_client(producer, producer->lone_conf, err);
}

int
producer_send_again(struct producer *producer,
    const rd_kafka_message_t *message, struct err *err)
{
	struct producer_record record = {
	    .topic = producer_topic_of(producer, message),
	    .partition = message->partition,
	    .key = {message->key, message->key_len},
	    .value = {message->payload, message->len},
	    .record = message->_private,
	};
	rd_kafka_headers_t *headers = NULL;
	rd_kafka_resp_err_t error;

	if (record.topic == NULL)
		return err_bug(err, "a report of a topic that isn't known");
	if (make_lone(producer, err) < 0)
		return err_prefix(err, "refused with others, not sent alone");
	rd_kafka_message_detach_headers(mutable(message), &headers);
	error = send_to(producer, producer->client_count, &record, headers);
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	if (headers != NULL)
		rd_kafka_headers_destroy(headers);
	set_error(producer, producer->client_count, error, err);
	return err_prefix(err, "refused with others, not sent alone");
}

size_t
producer_bytes_most(const struct producer *producer)
{
	char text[32];
	size_t bytes = sizeof(text);

	if (rd_kafka_conf_get(producer->lone_conf, "message.max.bytes", text,
		&bytes) != RD_KAFKA_CONF_OK)
		return 0;
	return strtoul(text, NULL, 10);
}

static int
refuse(struct producer *producer, uint32_t client,
    const struct producer_record *record, rd_kafka_resp_err_t error,
    struct err *err)
{
	if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		return PRODUCER_FULL;
	if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
		return err_set(err, EX_DATAERR,
		    "%zu bytes: larger than message.max.bytes, %zu",
		    record->key.bytes + record->value.bytes +
			record->headers.bytes,
		    producer_bytes_most(producer));
	return set_error(producer, client, error, err);
}

int
producer_send(struct producer *producer, const struct producer_record *record,
    struct err *err)
{
	struct producer_record placed = *record;
	rd_kafka_headers_t *headers = NULL;
	rd_kafka_resp_err_t error;
	uint32_t client = producer->client_count;

	if (record->headers.data != NULL) {
		headers = make_headers(record->headers, err);
		if (headers == NULL)
			return -1;
	}
	if (placed.partition == -1)
		placed.partition = choose_partition(record->topic, record->key);
	if (!record->alone)
		client = client_of(producer, record->topic, placed.partition);
	else if (make_lone(producer, err) < 0)
		return -1;
	error = send_to(producer, client, &placed, headers);
	FAILPOINT("after-produce");
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return PRODUCER_SENT;
	if (headers != NULL)
		rd_kafka_headers_destroy(headers);
	return refuse(producer, client, record, error, err);
}
