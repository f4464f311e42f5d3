/*
 * trim - retention: boxes, bodies and claims become fewer, while everything
 * else runs.
 *
 * What it keeps true:
 *
 *  - A box's oldest go together with a raise of the user's floor, in one
 *    step.  All that is missing is at or below the floor, and nothing there is
 *    ever shown again: an entry has its claim's mailbox_seq, so that a copy
 *    which is applied late puts the reference back where it was, below the
 *    floor, and the next trim takes it again.
 *  - The floor never passes the cursor of a device, unless that device has
 *    been silent for long; then it is told (device.h).  Nor the mark.
 *  - A body goes, and its claim stays, which is what makes a late copy a
 *    repeat.  A claim goes only where its body may, and when the mark had
 *    passed it so long ago that no copy can come any more.
 *
 * How long ago is known from `times`, a partition's sorted set of marks by the
 * time at which they were seen, a day apart: no entry carries a time of the
 * node's clock, and mailbox_seqs aren't times.  What was below a mark that was
 * seen T ago is older than T.  So a first run finds nothing old.
 *
 * Each step is a script that does little, and repeating any is safe: a run
 * that was ended anywhere is made again from the start, and passes quickly
 * over what is done.
 */
#ifndef QIM_REDIS_TRIM_H
#define QIM_REDIS_TRIM_H

#include "redis/script.h"

#define TRIM_NONE UINT64_MAX /* a rule that isn't given */

#define TRIM_DAYS_MAX 365
#define TRIM_DAY_MS UINT64_C(86400000)

struct trim_rules {
	uint64_t box_count; /* newest entries that stay in each box */
	uint64_t box_days; /* age from which they go */
	uint64_t bodies; /* newest of each conversation that stay */
	uint64_t retention_days; /* age from which a claim without one goes */
	uint64_t device_days; /* of silence; always given */
	bool dry_run; /* only count */
};

struct trim_done {
	uint64_t boxes; /* that lost entries */
	uint64_t entries;
	uint64_t held; /* boxes in which a device's cursor held some */
	uint64_t bodies;
	uint64_t claims;
};

/* Marks that were passed as long ago as the rules say; 0: none. */
struct trim_ages {
	uint64_t mark; /* the present one; 0: the partition has none */
	uint64_t box, claim;
};

struct trim {
	struct client *client;
	const struct mailbox *mailbox;
	uint32_t place;
	const struct trim_rules *rules;
	struct trim_done *done;
	bool (*stopping)(void); /* asked between two steps */
	struct trim_ages *ages; /* by partition / nodes */
};

/* Trims all partitions of the client's node, or as far as it gets before
 * stopping() is true; *done is counted up.
 * -1: EX_CONFIG the marks are another chain's, as client_call(). */
int trim_node(struct trim *trim, struct err *err);

/* For trim.c, trim-box.c and trim-log.c. */

/* A key that a scan has found. */
struct trim_key {
	struct stem stem;
	const struct trim_ages *ages;
	struct slice id; /* the user or conversation */
	uint64_t removed;
	bool done;
};

/* Keys that are sent in one go: what a client sends at once keeps Redis from
 * its other clients. */
#define TRIM_GROUP 32

/* Each takes up to TRIM_GROUP keys. */
int trim_boxes(
    struct trim *trim, struct trim_key *keys, size_t count, struct err *err);
int trim_logs(
    struct trim *trim, struct trim_key *keys, size_t count, struct err *err);

int trim_load_boxes(struct trim *trim, struct err *err);
int trim_load_logs(struct trim *trim, struct err *err);

/* An array of at least `items`; -1 EX_DATAERR. */
int trim_check(const struct trim *trim, const struct reply *reply, size_t items,
    struct err *err);

/* The same of the client's first reply, a page of a scan; takes its cursor. */
int trim_page(const struct trim *trim, size_t items,
    char cursor[REPLY_CURSOR_BYTES], struct err *err);

#endif
