/*
 * coverage - up to where each source partition has been covered.
 *
 * The contiguity of a stream's ranges: for each partition `from` is the
 * `next` of the range before.  A partition that isn't known yet is taken in
 * by an empty range.
 */
#ifndef QIM_STREAM_COVERAGE_H
#define QIM_STREAM_COVERAGE_H

#include "base/buf.h"
#include "base/err.h"

struct covered {
	char *topic; /* owned */
	int32_t partition;
	int64_t next; /* the first offset that no range has covered */
};

/* Sorted by topic and partition. */
struct coverage {
	struct covered *all;
	size_t count, room;
};

void coverage_release(struct coverage *coverage);

/* Says where a partition begins; -1 EX_DATAERR when it was said before. */
int coverage_start(struct coverage *coverage, struct slice topic,
    int32_t partition, int64_t offset, struct err *err);

/* Moves a partition over [from, next); -1 EX_DATAERR with the numbers when
 * that isn't contiguous, and then nothing has moved. */
int coverage_advance(struct coverage *coverage, struct slice topic,
    int32_t partition, int64_t from, int64_t next, struct err *err);

/* The place of a partition in all; `count`: not known. */
size_t coverage_find(
    const struct coverage *coverage, struct slice topic, int32_t partition);

#endif
