#include "kafka/answer.h"

#include <stdbool.h>

#include "kafka/error.h"

/* What only a group with members answers. */
static bool
is_of_members(rd_kafka_resp_err_t error)
{
	return error == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
	    error == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION ||
	    error == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS ||
	    error == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;
}

static bool
may_pass(rd_kafka_resp_err_t error)
{
	int code = kafka_error_code(error);

	return !is_of_members(error) &&
	    (code == EX_UNAVAILABLE || code == EX_TEMPFAIL);
}

/* librdkafka gives the error of any partition as the whole's, but only where
 * all have one, and then the last. */
rd_kafka_resp_err_t
answer_error(rd_kafka_event_t *event)
{
	const rd_kafka_topic_partition_list_t *list =
	    rd_kafka_event_topic_partition_list(event);
	rd_kafka_resp_err_t worst = rd_kafka_event_error(event);

	for (int i = 0; list != NULL && i < list->cnt; i++) {
		rd_kafka_resp_err_t error = list->elems[i].err;

		if (error != RD_KAFKA_RESP_ERR_NO_ERROR &&
		    (worst == RD_KAFKA_RESP_ERR_NO_ERROR || !may_pass(error)))
			worst = error;
	}
	return worst;
}

int
answer_judge(rd_kafka_resp_err_t error, struct err *err)
{
	if (may_pass(error))
		return 1;
	if (is_of_members(error))
		return err_set(err, EX_CONFIG,
		    "commit: refused, the group has members: some consumer "
		    "has subscribed with its name (%s)",
		    rd_kafka_err2name(error));
	return kafka_error_set(err, error, "commit");
}
