/*
 * joins - the mailbox entries of one round, gathered per user.
 *
 * A user who gets several messages in a round takes one ZADD for the box and
 * one for the conversation list; a partition takes one for its `top`.
 */
#ifndef QIM_REDIS_JOINS_H
#define QIM_REDIS_JOINS_H

#include "redis/commands.h"
#include "redis/work.h"

/* Joins in a round: as many commands twice, and one for each partition. */
#define JOINS_COUNT_MAX 1500
#define JOINS_HEADS 4096

/* One entry for one user, or for `top` (user nil). */
struct join {
	const struct stem *stem; /* the same pointer for one partition */
	struct slice user;
	const struct entry *entry;
	bool own; /* the user is the sender */
	int16_t next; /* of the same user, in order; -1 */
	int16_t other; /* the next user of the same hash; -1 */
	int16_t last; /* of a user's first one: its last one */
	uint16_t count; /* of a user's first one; 0: it isn't the first */
};

struct joins {
	struct join all[2 * JOINS_COUNT_MAX];
	size_t count;
	int16_t heads[JOINS_HEADS];
};

void joins_reset(struct joins *joins);

/* Adds one; the caller keeps count: at most 2 * JOINS_COUNT_MAX. */
void joins_add(struct joins *joins, const struct stem *stem, struct slice user,
    const struct entry *entry);

/* Appends the commands. */
void joins_emit(const struct joins *joins, struct commands *commands);

#endif
