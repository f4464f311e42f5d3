/*
 * guard - the walk over foreign msgpack before anything believes it.
 */
#ifndef QIM_STREAM_GUARD_H
#define QIM_STREAM_GUARD_H

#include "base/buf.h"
#include "base/err.h"

/* Deepest nesting of arrays and maps, as msgpack-c's own limit. */
#define GUARD_DEPTH_MAX 32

/*
 * Checks that `bytes` is exactly one msgpack object: every head whole, every
 * declared count no more than the bytes left could hold, nested at most
 * GUARD_DEPTH_MAX, nothing behind it.  Allocates nothing.
 * 0, or -1 EX_DATAERR with the place, the value found and the limit.
 */
int guard_walk(struct slice bytes, struct err *err);

/* The same with another depth, at most GUARD_DEPTH_MAX + 1: for a value of
 * ours that holds what guard_walk() had passed one level deeper. */
int guard_walk_to(struct slice bytes, size_t depth_max, struct err *err);

#endif
