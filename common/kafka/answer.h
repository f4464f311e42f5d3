/*
 * answer - what the coordinator's answer to a commit means.
 */
#ifndef QIM_KAFKA_ANSWER_H
#define QIM_KAFKA_ANSWER_H

#include <librdkafka/rdkafka.h>

#include "base/err.h"

/* The error of a commit: where partitions have different ones, one that
 * waiting doesn't mend.  NO_ERROR: each partition is committed. */
rd_kafka_resp_err_t answer_error(rd_kafka_event_t *event);

/* For an error: 1 it may pass.  -1 it doesn't: EX_CONFIG the group has
 * members, in words; others as kafka_error_set(). */
int answer_judge(rd_kafka_resp_err_t error, struct err *err);

#endif
