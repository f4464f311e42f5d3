/*
 * watch - what becomes of a topic while it is read.
 *
 * librdkafka says nothing when a topic is deleted, or gets more partitions:
 * it would wait for good, or go on in the middle of another topic of that
 * name.  So the brokers are asked how many partitions there are, after
 * topic.metadata.refresh.interval.ms, and sooner when nothing comes.  A
 * question holds the reading up for one round trip.
 */
#ifndef QIM_KAFKA_WATCH_H
#define QIM_KAFKA_WATCH_H

#include "kafka/client.h"

struct watch {
	struct kafka_client *client; /* not owned */
	const char *topic; /* not owned */
	uint32_t partitions; /* the most that were seen; 0: never asked */
	uint64_t interval_us; /* 0: only when nothing comes */
	uint64_t ask_us; /* by the interval; 0: not yet set */
	uint64_t idle_us; /* since nothing comes; 0: something does */
	uint64_t again_us; /* after an answer that must be asked twice */
};

void watch_init(
    struct watch *watch, struct kafka_client *client, const char *topic);

/* A record has come, or none within the time waited for. */
void watch_note(struct watch *watch, bool is_record);

/*
 * Asks where it is time to; sets `partitions` where there are more.
 * -1: EX_UNAVAILABLE the topic has gone, EX_DATAERR it has fewer partitions
 * than before (it was deleted and created again), EX_NOPERM.
 */
int watch_look(struct watch *watch, struct err *err);

#endif
