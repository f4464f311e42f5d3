#include "kafka/error.h"

#include "kafka/figures.h"

#include <stddef.h>

/* Of Kafka's protocol, newer than librdkafka 2.0.2. */
#define UNKNOWN_TOPIC_ID ((rd_kafka_resp_err_t)100)
#define INCONSISTENT_CLUSTER_ID ((rd_kafka_resp_err_t)104)
#define FENCED_MEMBER_EPOCH ((rd_kafka_resp_err_t)110)
#define UNRELEASED_INSTANCE_ID ((rd_kafka_resp_err_t)111)
#define UNSUPPORTED_ASSIGNOR ((rd_kafka_resp_err_t)112)
#define STALE_MEMBER_EPOCH ((rd_kafka_resp_err_t)113)
#define MISMATCHED_ENDPOINT_TYPE ((rd_kafka_resp_err_t)114)
#define UNSUPPORTED_ENDPOINT_TYPE ((rd_kafka_resp_err_t)115)

/* Everything that isn't here may pass, or nobody knows that it doesn't:
 * EX_TEMPFAIL.  So do all errors of an idempotent producer's id, epoch and
 * sequence: one that starts anew gets new ones. */
static const struct {
	rd_kafka_resp_err_t error;
	int code;
} codes[] = {
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, EX_NOPERM},
    {RD_KAFKA_RESP_ERR__SSL, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_SECURITY_DISABLED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_AUTH_DISABLED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_NOT_FOUND, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_OWNER_MISMATCH, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_EXPIRED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_INVALID_PRINCIPAL_TYPE, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_UNACCEPTABLE_CREDENTIAL, EX_NOPERM},

    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__TRANSPORT, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__RESOLVE, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, EX_UNAVAILABLE},
    {UNKNOWN_TOPIC_ID, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, EX_UNAVAILABLE},

    /* The record's own fault, or the offset's.  Not INVALID_MSG: a checksum
     * that was broken on the way is right when it is sent again.  Nor
     * INVALID_TIMESTAMP: a record's time is that of this host's clock. */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, EX_DATAERR},
    {RD_KAFKA_RESP_ERR__BAD_MSG, EX_DATAERR},
    {RD_KAFKA_RESP_ERR__BAD_COMPRESSION, EX_DATAERR},

    {RD_KAFKA_RESP_ERR__INVALID_ARG, EX_CONFIG},
    {RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, EX_CONFIG},
    /* A compression that this librdkafka was built without. */
    {RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_PARTITIONS, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICA_ASSIGNMENT, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_CONFIG, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, EX_CONFIG},
    /* The broker and librdkafka don't fit, or -b names controllers. */
    {RD_KAFKA_RESP_ERR_INVALID_REQUEST, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, EX_CONFIG},
    {MISMATCHED_ENDPOINT_TYPE, EX_CONFIG},
    {UNSUPPORTED_ENDPOINT_TYPE, EX_CONFIG},
    {INCONSISTENT_CLUSTER_ID, EX_CONFIG},
    /* The broker's offset.metadata.max.bytes, offsets.load.buffer.size. */
    {RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_COMMIT_OFFSET_SIZE, EX_CONFIG},
    /* The group isn't one that only offset-commit commits for. */
    {RD_KAFKA_RESP_ERR_INVALID_GROUP_ID, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_MEMBER_ID_REQUIRED, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_GROUP_MAX_SIZE_REACHED, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, EX_CONFIG},
    {FENCED_MEMBER_EPOCH, EX_CONFIG},
    {UNRELEASED_INSTANCE_ID, EX_CONFIG},
    {UNSUPPORTED_ASSIGNOR, EX_CONFIG},
    {STALE_MEMBER_EPOCH, EX_CONFIG},

    {RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, EX_OSERR},
};

int
kafka_error_code(rd_kafka_resp_err_t error)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].error == error)
			return codes[i].code;
	return EX_TEMPFAIL;
}

int
kafka_error_set(struct err *err, rd_kafka_resp_err_t error, const char *what)
{
	return err_set(err, kafka_error_code(error), "%s: %s", what,
	    rd_kafka_err2str(error));
}

static void
keep_fatal(rd_kafka_t *client, rd_kafka_resp_err_t error, const char *text,
    struct err *err)
{
	int code = kafka_error_code(error);

	if (rd_kafka_type(client) == RD_KAFKA_PRODUCER && code == EX_TEMPFAIL)
		err_set(err, code,
		    "kafka: the idempotent producer failed for good: %s: to "
		    "start again is safe",
		    text);
	else
		err_set(err, code, "kafka: fatal: %s", text);
}

void
kafka_error_keep(rd_kafka_t *client, rd_kafka_resp_err_t error,
    const char *reason, struct err *err)
{
	rd_kafka_resp_err_t fatal;
	char text[256];
	int code;

	if (err->code != 0)
		return;
	fatal = rd_kafka_fatal_error(client, text, sizeof(text));
	if (fatal != RD_KAFKA_RESP_ERR_NO_ERROR) {
		kafka_error_count(fatal);
		keep_fatal(client, fatal, text, err);
		return;
	}
	/* A TLS handshake that fails may be a broker that is being stopped. */
	if (error == RD_KAFKA_RESP_ERR__SSL)
		return;
	code = kafka_error_code(error);
	if (code == EX_NOPERM || code == EX_OSERR)
		err_set(err, code, "kafka: %s",
		    reason == NULL ? rd_kafka_err2str(error) : reason);
}
