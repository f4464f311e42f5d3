/*
 * consumer - reads partitions by assignment, one record a call.
 *
 * It never subscribes, so that offset-commit may commit to the group, and it
 * never commits.  librdkafka's calls that take many records at once aren't
 * used: they can lose some.
 */
#ifndef QIM_KAFKA_CONSUMER_H
#define QIM_KAFKA_CONSUMER_H

#include "base/buf.h"
#include "kafka/client.h"
#include "kafka/start.h"
#include "kafka/watch.h"
#include "stream/record.h"

enum consumer_event {
	CONSUMER_NOTHING, /* within the time given */
	CONSUMER_RECORD,
	CONSUMER_EOF, /* the end of a partition, until more comes */
};

struct consumer {
	struct kafka_client *client; /* not owned */
	const char *topic; /* not owned */
	rd_kafka_message_t *message; /* that the last item points into */
	struct buf headers;
	struct watch watch;
};

struct consumer_item {
	int32_t partition;
	int64_t offset; /* of the record; at the end: of the next to come */
	struct record record; /* without src; lives until the next poll */
};

/* Begins to fetch every partition at its point, where that lies before its
 * end; -1. */
int consumer_start(struct consumer *consumer, struct kafka_client *client,
    const char *topic, const struct start_point *points, const int64_t *ends,
    size_t count, struct err *err);
void consumer_release(struct consumer *consumer);

/* Begins to fetch more partitions, without disturbing the others; -1. */
int consumer_join(struct consumer *consumer, const struct start_point *points,
    size_t count, struct err *err);

/*
 * Waits for the next event, at most timeout_ms; brokers that are gone are
 * waited for.  -1: EX_DATAERR an offset out of range (with the bounds of the
 * log), a damaged record, or fewer partitions, EX_NOPERM, EX_UNAVAILABLE the
 * topic has gone.
 */
int consumer_poll(struct consumer *consumer, int timeout_ms,
    struct consumer_item *item, struct err *err);

/* Fetches no more of a partition. */
void consumer_pause(struct consumer *consumer, int32_t partition);

#endif
