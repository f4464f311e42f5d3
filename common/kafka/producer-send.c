/* A record on its way to librdkafka. */
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

static rd_kafka_resp_err_t
send_one(struct producer *producer, const struct producer_record *record,
    rd_kafka_headers_t *headers)
{
	int32_t partition = record->partition != -1
	    ? record->partition
	    : choose_partition(record->topic, record->key);
	uint32_t client = client_of(producer, record->topic, partition);
	rd_kafka_topic_t *topic = record->topic->handles[client];

	if (headers == NULL)
		return rd_kafka_produce(topic, partition, 0,
			   mutable(record->value.data), record->value.bytes,
			   record->key.data, record->key.bytes,
			   record->record) == 0
		    ? RD_KAFKA_RESP_ERR_NO_ERROR
		    : rd_kafka_last_error();
	return rd_kafka_producev(producer->clients[client].handle,
	    RD_KAFKA_V_RKT(topic), RD_KAFKA_V_PARTITION(partition),
	    RD_KAFKA_V_MSGFLAGS(0),
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
