/*
 * move - an operator moves a group: back, or over a gap.
 *
 * The only way for an offset to be committed that no receipt stands for.  The
 * chain must be stopped: the broker refuses it where the group has members,
 * but a chain's own programs aren't any; the locks refuse it where the chain
 * runs on this host.
 */
#ifndef QIM_KAFKA_MOVE_H
#define QIM_KAFKA_MOVE_H

#include "base/opt.h"
#include "kafka/locks.h"
#include "kafka/start.h"

/* "topic[:partitions]=WHERE" */
struct move {
	char *topic; /* owned */
	const char *partitions; /* points behind topic; NULL: all */
	uint32_t *numbers; /* owned; of the partitions; NULL: all */
	size_t count; /* of the numbers */
	struct start_rule rule;
};

struct moves {
	struct move *all; /* owned */
	size_t count;
	rd_kafka_topic_partition_list_t *to; /* what is to be committed */
	rd_kafka_topic_partition_list_t *from; /* what was */
};

/* -1 EX_USAGE.  moves_release() is due in any case. */
int moves_parse(
    struct moves *moves, const struct opt_list *texts, struct err *err);
void moves_release(struct moves *moves);

/* Fills `to`; changes nothing.
 * -1: EX_CONFIG a partition the topic doesn't have, or given twice;
 * EX_DATAERR outside the log; EX_UNAVAILABLE, EX_NOPERM. */
int moves_resolve(struct moves *moves, struct kafka_client *client,
    uint64_t deadline_us, struct err *err);

/* Takes the locks of all that is in `to`; -1 as locks_take(). */
int moves_lock(const struct moves *moves, struct locks *locks, struct err *err);

/* Fills `from`; -1 as kafka_client_committed(). */
int moves_read(struct moves *moves, struct kafka_client *client,
    uint64_t deadline_us, struct err *err);

/* Commits `to`, all in one request, again until the deadline.
 * -1: EX_TEMPFAIL not done in time, or told to stop: who knows whether;
 * EX_CONFIG the group has members; EX_NOPERM. */
int moves_commit(const struct moves *moves, struct kafka_client *client,
    uint64_t deadline_us, struct err *err);

#endif
