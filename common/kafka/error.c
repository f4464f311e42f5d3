#include "kafka/error.h"

#include <stddef.h>

/* Everything that isn't here may pass: EX_TEMPFAIL. */
static const struct {
	rd_kafka_resp_err_t error;
	int code;
} codes[] = {
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, EX_NOPERM},
    {RD_KAFKA_RESP_ERR__SSL, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE, EX_NOPERM},
    {RD_KAFKA_RESP_ERR_SECURITY_DISABLED, EX_NOPERM},

    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__TRANSPORT, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__RESOLVE, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, EX_UNAVAILABLE},
    {RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, EX_UNAVAILABLE},

    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, EX_DATAERR},
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, EX_DATAERR},
    {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, EX_DATAERR},
    {RD_KAFKA_RESP_ERR__BAD_MSG, EX_DATAERR},
    {RD_KAFKA_RESP_ERR__BAD_COMPRESSION, EX_DATAERR},

    {RD_KAFKA_RESP_ERR__INVALID_ARG, EX_CONFIG},
    {RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, EX_CONFIG},
    {RD_KAFKA_RESP_ERR_INVALID_GROUP_ID, EX_CONFIG},

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

	if (err->code != 0)
		return;
	fatal = rd_kafka_fatal_error(client, text, sizeof(text));
	if (fatal != RD_KAFKA_RESP_ERR_NO_ERROR) {
		keep_fatal(client, fatal, text, err);
		return;
	}
	/* A TLS handshake that fails may be a broker that is being stopped. */
	if (kafka_error_code(error) == EX_NOPERM &&
	    error != RD_KAFKA_RESP_ERR__SSL)
		err_set(err, EX_NOPERM, "kafka: %s",
		    reason == NULL ? rd_kafka_err2str(error) : reason);
}
