/*
 * topic - what stands in the dispatch topic: dispatches once or several
 * times, copies that conflict, what isn't a dispatch, offsets without any.
 */
#ifndef QIM_TESTS_CONVERGE_TOPIC_H
#define QIM_TESTS_CONVERGE_TOPIC_H

#include "redis/mailbox.h"

#define PARTITIONS 2
#define TOPIC_COUNT 64
#define USERS 4 /* of a partition */

/* What a record says; seq 0: it can't be decoded (digest 0: there is none). */
struct said {
	uint32_t seq, chunk;
	uint8_t digest;
	uint8_t users; /* one bit each */
};

/* What stands in a partition, offset by offset. */
struct topic {
	uint32_t partition;
	const char *users[USERS]; /* that belong to it; the first sends */
	struct said said[TOPIC_COUNT];
	struct buf values[TOPIC_COUNT];
	size_t count;
	size_t start; /* what is below is no longer there */
};

extern struct topic topics[PARTITIONS];
extern struct mailbox mailbox;

void topic_make(struct topic *topic);

struct slice conversation_of(const struct said *said);

/* The offset of the first copy of what stands at `offset`. */
size_t topic_first_copy(const struct topic *topic, size_t offset);

/* Whether what stands at `offset` is a first copy, and the user's. */
bool topic_is_for(const struct topic *topic, size_t offset, size_t user);

/* Whether nothing below the mark has another copy from there on. */
bool topic_is_settled(const struct topic *topic, size_t mark);

#endif
