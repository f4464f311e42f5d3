/*
 * topic - how many partitions a topic has, and how large a record may be.
 */
#ifndef QIM_KAFKA_TOPIC_H
#define QIM_KAFKA_TOPIC_H

#include <librdkafka/rdkafka.h>
#include <stdint.h>

/* Asks the brokers once, for up to timeout_ms.  A topic that isn't there, or
 * has no partition yet, is UNKNOWN_TOPIC_OR_PART; *count is set only without
 * an error, and is then at least 1.  The topic NULL: only whether a broker
 * answers, *count 0. */
rd_kafka_resp_err_t kafka_topic_ask(rd_kafka_t *client, rd_kafka_topic_t *topic,
    int timeout_ms, uint32_t *count);

/* The topic's max.message.bytes; -1 where no broker says it within timeout_ms
 * (it needs the right to describe the topic's configuration). */
int64_t kafka_topic_limit(
    rd_kafka_t *client, const char *topic, int timeout_ms);

#endif
