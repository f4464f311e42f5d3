/*
 * commits - which offsets of a group may be committed, and when.
 *
 * Pure: no librdkafka, no clock, no I/O.  Its rules, whatever the order of
 * calls:
 *
 *   - an offset is committed only when every one from the stream's start up
 *     to it was acknowledged without a gap;
 *   - where nothing is committed the stream's start is, before any receipt:
 *     it claims nothing, and tells a first run from a topic whose offsets
 *     are gone;
 *   - a partition's committed offset only rises; what is acknowledged at or
 *     below it is absorbed (a replay after a rewind);
 *   - a stream that starts above what is committed is refused, for that would
 *     skip what lies between;
 *   - one commit is in flight at a time (two can land in the wrong order);
 *     what is acknowledged meanwhile goes into the next one;
 *   - what is committed is read again right before each commit: another chain
 *     may have moved the group on, and after a commit that failed nobody knows
 *     (an error of one partition is told of all).
 */
#ifndef QIM_KAFKA_COMMITS_H
#define QIM_KAFKA_COMMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/figures.h"
#include "stream/coverage.h"

/* What a partition's acknowledged range, [start, next of its coverage), is
 * worth. */
struct commits_entry {
	int64_t start; /* where the stream starts */
	bool was_committed; /* that, or more, when the first stage read it */
	int64_t committed; /* -1: nothing; as it was read or sent last */
	int64_t most; /* that was read or sent; -1: nothing */
	int64_t sent; /* in flight; -1: nothing */
	bool stands; /* something was seen or known committed */
	bool gone; /* as it was read last: it stood, and nothing does */
	bool acknowledged; /* a receipt has named it */
	bool known; /* read since its last receipt and commit */
	bool renew; /* commit it again though it hasn't moved */
	struct figure *shown[2]; /* what shows it; not used here */
};

struct commits {
	struct coverage coverage; /* what was acknowledged */
	struct commits_entry *all; /* owned; as many as the coverage has, at
				    * the same places */
	bool in_flight;
};

void commits_release(struct commits *commits);

/* A partition of the stream and where it starts; `was_committed`: the first
 * stage found that this or a higher offset was.  -1 EX_DATAERR when it was
 * added before, EX_OSERR. */
int commits_add(struct commits *commits, struct slice topic, int32_t partition,
    int64_t start, bool was_committed, struct err *err);

/* Takes [from, next) for acknowledged.  An empty range of a partition that
 * wasn't added adds it.  -1
 * EX_DATAERR when it isn't contiguous. */
int commits_acknowledge(struct commits *commits, struct slice topic,
    int32_t partition, int64_t from, int64_t next, struct err *err);

/* True when there is something to commit and commits_set_committed() is due
 * first, for all entries. */
bool commits_must_read(const struct commits *commits);

/* What the broker has for an entry; negative: nothing.  1 when somebody else
 * has committed it, for it is above what was read and sent before, else 0.
 * -1 when the stream starts above it: EX_DATAERR, or EX_TEMPFAIL where it was
 * at the start or above it before, also when the first stage read it; EX_CONFIG
 * when something stood there and is gone: with a topic its groups' offsets go.
 */
int commits_set_committed(
    struct commits *commits, size_t index, int64_t committed, struct err *err);

/* True when the last reading found nothing where something stood. */
bool commits_miss_some(const struct commits *commits);

/* True when there is something to commit and nothing stands in the way. */
bool commits_are_due(const struct commits *commits);

/* Begins a commit: sets `sent` of each entry that is in it, and returns how
 * many there are.  Only when they are due. */
uint32_t commits_begin(struct commits *commits);

/* The commit in flight has succeeded, or failed in whatever way. */
void commits_succeed(struct commits *commits);
void commits_fail(struct commits *commits);

/* Asks that each entry be committed again: Kafka forgets an offset some days
 * after its last commit. */
void commits_renew(struct commits *commits);

/* What is in flight, or else not committed: "t[0] 1 -> 2, t[1] none -> 3", as
 * much as fits, then ", 5 more"; `bytes` at least COMMITS_TEXT_BYTES. */
#define COMMITS_TEXT_BYTES 340
void commits_describe(const struct commits *commits, char *text, size_t bytes);

/* True when all that was acknowledged is committed, and every start. */
bool commits_are_done(const struct commits *commits);

#endif
