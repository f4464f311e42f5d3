/* What became of a record. */
#include <stdio.h>
#include <string.h>

#include "kafka/error.h"
#include "kafka/figures.h"
#include "kafka/producer-inner.h"

#define WHY_BYTES 256

static const char *const state_names[PRODUCER_STATES] = {
    [PRODUCER_DELIVERED] = "delivered",
    [PRODUCER_UNPROVEN] = "unproven",
    [PRODUCER_NOT_PERSISTED] = "not persisted",
    [PRODUCER_POSSIBLY_PERSISTED] = "possibly persisted",
};

static bool
is_too_large(rd_kafka_resp_err_t error)
{
	return error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
	    error == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE;
}

/* What a broker says of all records of a request for the fault of one. */
static bool
is_own_fault(rd_kafka_resp_err_t error)
{
	return is_too_large(error) ||
	    error == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE ||
	    error == RD_KAFKA_RESP_ERR_INVALID_RECORD;
}

static size_t
bytes_of(const rd_kafka_message_t *message)
{
	size_t bytes = message->len + message->key_len;
	rd_kafka_headers_t *headers;
	const char *name;
	const void *value;
	size_t value_bytes;

	if (rd_kafka_message_headers(message, &headers) !=
	    RD_KAFKA_RESP_ERR_NO_ERROR)
		return bytes;
	for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value,
			       &value_bytes) == RD_KAFKA_RESP_ERR_NO_ERROR;
	     i++)
		bytes += strlen(name) + value_bytes;
	return bytes;
}

static enum producer_state
state_of(const struct producer *producer, const rd_kafka_message_t *message)
{
	if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
		return producer->needs_offset && message->offset < 0
		    ? PRODUCER_UNPROVEN
		    : PRODUCER_DELIVERED;
	return rd_kafka_message_status(message) ==
		RD_KAFKA_MSG_STATUS_NOT_PERSISTED
	    ? PRODUCER_NOT_PERSISTED
	    : PRODUCER_POSSIBLY_PERSISTED;
}

/* Its size, the limit where there is one, and what the broker said. */
static void
say_fault(struct producer *producer, const rd_kafka_message_t *message,
    char *why, size_t why_bytes)
{
	struct producer_topic *topic = producer_topic_of(producer, message);
	char limit[32] = "";
	int64_t most = -1;

	if (!is_too_large(message->err)) {
		snprintf(why, why_bytes, "%zu bytes: %s", bytes_of(message),
		    rd_kafka_err2str(message->err));
		return;
	}
	if (topic != NULL && !producer->abandoned)
		most = producer_topic_limit(producer, topic);
	if (most >= 0)
		snprintf(limit, sizeof(limit), ", %lld", (long long)most);
	snprintf(why, why_bytes,
	    "%zu bytes: larger than the topic's max.message.bytes%s",
	    bytes_of(message), limit);
}

static void
say_why(struct producer *producer, const struct producer_report *report,
    const rd_kafka_message_t *message, char *why, size_t why_bytes)
{
	size_t length;

	if (report->state == PRODUCER_UNPROVEN)
		snprintf(why, why_bytes, "reported without an offset");
	else if (is_own_fault(message->err))
		say_fault(producer, message, why, why_bytes);
	else
		snprintf(why, why_bytes, "%s%s", rd_kafka_err2str(message->err),
		    message->err == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP
			? ": this host's clock, or the topic's "
			  "message.timestamp limits"
			: "");
	length = strlen(why);
	snprintf(why + length, why_bytes - length, " (%s)",
	    state_names[report->state]);
}

/* Only what a broker says of a record is the record's fault; an answer that
 * can't be read is bad data too, but not the record's. */
static int
code_of(rd_kafka_resp_err_t error, enum producer_state state)
{
	int code = kafka_error_code(error);

	if (state == PRODUCER_DELIVERED)
		return 0;
	if (state == PRODUCER_UNPROVEN ||
	    (code == EX_DATAERR && !is_own_fault(error)))
		return EX_TEMPFAIL;
	return code;
}

/* True when the record is on its way again, alone, or that has failed and is
 * reported. */
static bool
send_alone(struct producer *producer, const rd_kafka_message_t *message,
    struct producer_report *report)
{
	struct err err;

	if (!is_own_fault(message->err) || producer->abandoned)
		return false;
	if (producer_send_again(producer, message, &err) < 0) {
		report->code = err.code;
		report->why = err.text;
		producer->report(report, producer->context);
	}
	return true;
}

void
producer_take_report(struct producer *producer,
    const struct producer_client *client, const rd_kafka_message_t *message)
{
	bool alone = client == &producer->clients[producer->client_count];
	struct producer_report report = {
	    .record = message->_private,
	    .topic = rd_kafka_topic_name(message->rkt),
	    .partition = message->partition,
	    .state = state_of(producer, message),
	};
	char why[WHY_BYTES];

	if (!alone && send_alone(producer, message, &report))
		return;
	report.code = code_of(message->err, report.state);
	if (report.code != 0) {
		if (report.state != PRODUCER_UNPROVEN)
			kafka_error_count(message->err);
		say_why(producer, &report, message, why, sizeof(why));
		report.why = why;
		/* It may come before the error event that tells of it. */
		kafka_error_keep(client->handle, RD_KAFKA_RESP_ERR_NO_ERROR,
		    NULL, &producer->broken);
	}
	producer->report(&report, producer->context);
}
