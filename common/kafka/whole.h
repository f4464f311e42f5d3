/*
 * whole - a topic from its beginning to what is its end now, each record handed
 * to a function.
 *
 * A scan (scan.h) with a client of its own, for a program that reads several
 * topics, one after the other: a consumer takes the queue of its client, and
 * when a topic is found is one thing, when its end is fixed another.  Nothing
 * is committed, no group is needed.
 */
#ifndef QIM_KAFKA_WHOLE_H
#define QIM_KAFKA_WHOLE_H

#include "kafka/scan.h"

struct whole {
	struct kafka_client client;
	struct scan scan;
};

/* Takes a record, which is good until it returns; -1 ends the reading. */
typedef int whole_take(
    void *context, const struct consumer_item *item, struct err *err);

/*
 * Makes the client and asks how many partitions the topic has.  All that is
 * asked of Kafka has limit_ms for an answer, now and in whole_start();
 * give_up() true ends it, EX_TEMPFAIL, and the reading too.  A zero one, which
 * must stay where it is; of its scan.source chosen_text, chosen and
 * chosen_count may be set before.  `topic` must live as long.
 * -1: as kafka_client_open() and kafka_client_partitions().
 */
int whole_open(struct whole *whole, const struct kafka_options *options,
    const char *topic, uint64_t limit_ms, bool (*give_up)(void),
    uint32_t *partitions, struct err *err);

/* Fixes where each partition begins and ends: the points of its scan.source.
 * -1: as scan_start(). */
int whole_start(struct whole *whole, struct err *err);

/* Hands on all records up to there, each partition's in the order of its
 * offsets.  -1: EX_TEMPFAIL give_up(), as scan_next(), as take(). */
int whole_read(
    struct whole *whole, whole_take *take, void *context, struct err *err);

/* In any state, also a zero one; the client stays, see client.h. */
void whole_release(struct whole *whole);

#endif
