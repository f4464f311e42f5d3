/*
 * mock - librdkafka's mock cluster: Kafka brokers in this process.
 *
 * For trying things and for tests.  It keeps records in memory, about 5 MiB
 * a partition, and answers no request faster than in some 44 ms.
 */
#ifndef QIM_KAFKA_MOCK_H
#define QIM_KAFKA_MOCK_H

#include "base/err.h"

struct mock;

#define MOCK_BROKERS_MOST 16
#define MOCK_PARTITIONS_MOST 10000
#define MOCK_ERRORS_MOST 100000

/* Starts brokers that listen on free ports of 127.0.0.1; NULL: EX_OSERR. */
struct mock *mock_start(int brokers, struct err *err);

/* Ends them and frees all; NULL is fine. */
void mock_stop(struct mock *mock);

/* "host:port,..." that lives as long as the mock. */
const char *mock_brokers(const struct mock *mock);

/* "name:partitions" or "name:partitions:replication"; -1 EX_USAGE. */
int mock_add_topic(
    struct mock *mock, int brokers, const char *text, struct err *err);

/* "name=CODE": whoever asks for this topic gets that error; -1 EX_USAGE. */
int mock_add_topic_error(struct mock *mock, const char *text, struct err *err);

/* "api=CODE" or "api=CODE:count": the next `count` requests of that kind are
 * answered with that error, a name or a number of Kafka's; -1 EX_USAGE. */
int mock_add_error(struct mock *mock, const char *text, struct err *err);

#endif
