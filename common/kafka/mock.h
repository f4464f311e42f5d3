/*
 * mock - librdkafka's mock cluster: Kafka brokers in this process.
 *
 * For trying things and for tests.  It keeps records in memory, about 5 MiB
 * a partition, and answers no request faster than in some 44 ms.
 */
#ifndef QIM_KAFKA_MOCK_H
#define QIM_KAFKA_MOCK_H

#include <stdbool.h>

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

/* "name=CODE": whoever asks for this topic gets that error, until it is
 * switched off; -1 EX_USAGE. */
int mock_add_topic_error(struct mock *mock, const char *text, struct err *err);

/* Switches all of them. */
void mock_switch_topic_errors(struct mock *mock, bool on);

/* "api=CODE[:count][@good]": after `good` requests of that kind, `count` are
 * answered with that error, a name or a number of Kafka's; -1 EX_USAGE.  With
 * the count "forever" all are, and each broker counts its good ones. */
int mock_add_error(struct mock *mock, const char *text, struct err *err);

/* True when there is an error that comes forever: then mock_work() is to be
 * called each MOCK_WORK_MS. */
#define MOCK_WORK_MS 100
bool mock_has_work(const struct mock *mock);
void mock_work(struct mock *mock);

#endif
