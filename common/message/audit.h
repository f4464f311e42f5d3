/*
 * audit - duplicates, inversions and gaps among numbered records.
 *
 * A record belongs to a group and has a number in it.  It is
 *
 *	a duplicate	where its id was seen before in its group; a record
 *			without an id is known by its number;
 *	an inversion	where it is no duplicate, and its number is lower than
 *			that of the one before it in its group and partition
 *			(duplicates don't count as the one before).
 *
 * A gap is a run of numbers that are missing between the least (or the first
 * that is due) and the greatest of a group, in all partitions together.
 *
 * What is kept: 24 bytes for every 64 numbers of a group that have one which
 * was seen (so for each record, where they lie far apart), 16 for each id,
 * 32 for each group in each partition, 56 for each group and its name; in
 * hash tables that are filled by 3/8 to 3/4.
 */
#ifndef QIM_MESSAGE_AUDIT_H
#define QIM_MESSAGE_AUDIT_H

#include "base/buf.h"
#include "base/err.h"
#include "message/table.h"

/* The greatest number of a record. */
#define AUDIT_SEQ_MAX ((uint64_t)INT64_MAX)

/* As much of a group's name is kept. */
#define AUDIT_NAME_BYTES ((size_t)255)

struct audit_record {
	struct slice group; /* nil is a group too, another than the empty */
	uint64_t seq; /* 0 to AUDIT_SEQ_MAX */
	struct slice id; /* nil: none */
	int32_t partition;
	int64_t offset;
};

enum audit_result {
	AUDIT_FINE,
	AUDIT_DUPLICATE,
	AUDIT_INVERSION,
};

/* The record before an inversion. */
struct audit_before {
	uint64_t seq;
	int64_t offset;
};

struct audit_gap {
	struct slice group; /* its first AUDIT_NAME_BYTES */
	uint64_t first, last; /* numbers missing */
};

struct audit_group {
	size_t name; /* where it begins in `names` */
	size_t name_bytes;
	bool is_nil;
};

struct audit {
	bool has_first; /* gaps are counted from `first` in every group */
	uint64_t first;
	uint64_t seed;
	struct table groups, lanes, seen, ids;
	struct audit_group *all; /* by number, from 1 */
	size_t room;
	struct buf names;
	uint64_t duplicates, inversions;
	/* The walk over the gaps. */
	size_t at; /* the next entry of `seen` */
	uint64_t group, base, bits; /* of the entry at hand */
	uint64_t walked, due; /* the group that was walked, its next number */
};

/* `seed` is any number that who writes the records doesn't know. */
void audit_init(struct audit *audit, uint64_t seed);
void audit_release(struct audit *audit);

/* Takes the next record, in the order of its partition's log: an enum
 * audit_result, with `before` for an inversion.  -1 EX_OSERR. */
int audit_add(struct audit *audit, const struct audit_record *record,
    struct audit_before *before, struct err *err);

/* After the last record, once. */
void audit_end(struct audit *audit);

/* Then the gaps, by group in the order of their first records: 1, 0 none. */
int audit_next_gap(struct audit *audit, struct audit_gap *gap);

#endif
