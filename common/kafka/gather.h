/*
 * gather - records as they come, made into batches with their ranges.
 *
 * Pure: no librdkafka, no clock.  Each partition has been covered up to
 * `next`; a record at or behind it moves the partition over it, and over the
 * offsets before it that hold none (compaction, transaction markers).  So the
 * ranges of all batches cover each offset from the start on exactly once.
 * A batch names only the partitions that moved, but for those that join: an
 * empty batch of their own names them first.
 */
#ifndef QIM_KAFKA_GATHER_H
#define QIM_KAFKA_GATHER_H

#include <stdbool.h>

#include "stream/record.h"

/* The most that a record takes beside its key, value and headers. */
#define GATHER_RECORD_OVERHEAD ((size_t)64)

/* The largest record, with that: a frame has room for its head. */
#define GATHER_RECORD_BYTES_MAX (FRAME_BYTES_MAX - 4096)

struct gather_limits {
	uint32_t records;
	size_t bytes; /* of packed records */
	uint64_t wait_us; /* after the first of a batch */
};

struct gather_partition {
	int32_t partition;
	int64_t next; /* covered up to here */
	uint32_t src; /* its range in this batch; GATHER_UNMOVED: none */
};

#define GATHER_UNMOVED UINT32_MAX

struct gather {
	struct gather_limits limits;
	struct slice topic; /* not owned */
	struct gather_partition *all; /* owned */
	uint32_t count;
	struct range *src; /* owned, room for all of them */
	uint32_t src_count;
	struct buf records;
	uint32_t record_count;
	uint64_t first_us; /* when the first of this batch came */
	uint64_t batches; /* written */
};

void gather_init(struct gather *gather, struct slice topic,
    const struct gather_limits *limits);
void gather_release(struct gather *gather);

/* Adds all[count], which is to be covered from `next` on; -1 EX_OSERR.
 * gather_name() is due before its first record. */
int gather_add(
    struct gather *gather, int32_t partition, int64_t next, struct err *err);

/* Makes the next batch an empty one that names each partition from
 * all[first] on.  Only when no batch is open. */
void gather_name(struct gather *gather, uint32_t first, uint64_t now_us);

/* The most that a record takes, packed. */
size_t gather_record_bytes(const struct record *record);

/* False: the batch must be written before a record of this size.  One beyond
 * the limit has a batch of its own, without the ranges of other partitions:
 * a frame may not have room for both. */
bool gather_has_room(const struct gather *gather, size_t record_bytes);

/* Moves partition all[index] to `next`; lower ones move nothing. */
void gather_cover(
    struct gather *gather, uint32_t index, int64_t next, uint64_t now_us);

/* Takes a record of all[index], whose offset is at or behind its next; sets
 * record->src. */
void gather_record(struct gather *gather, uint32_t index, struct record *record,
    uint64_t now_us);

/* True when there is something to be written. */
bool gather_is_open(const struct gather *gather);

/* True when it must be written: full, or its time is up. */
bool gather_is_due(const struct gather *gather, uint64_t now_us);

/* Writes the batch and begins the next; -1 EX_OSERR or as frame_write(). */
int gather_write(struct gather *gather, struct stream_out *out, uint64_t now_us,
    struct err *err);

#endif
