/*
 * work - a batch, or a part of one, as the nodes have to do it.
 *
 * Each connection to a node has a share: the batch's records and ranges whose
 * partitions go over it, in the batch's order.  A share is done when its marks
 * are confirmed (in a part that others follow: its joins); the work is done
 * when all shares are, and only then its frame's memory may go.
 */
#ifndef QIM_REDIS_WORK_H
#define QIM_REDIS_WORK_H

#include "message/dispatch.h"
#include "redis/mailbox.h"
#include "stream/record.h"

enum entry_state {
	ENTRY_NEW, /* not claimed yet */
	ENTRY_BELOW, /* below the mark: nothing to do */
	ENTRY_ASK, /* the claim exists: whose it is isn't known yet */
	ENTRY_CLAIMED, /* to be joined, at `first` */
	ENTRY_CONFLICT, /* claimed with another digest */
	ENTRY_BAD, /* not a dispatch */
};

/* A record. */
struct entry {
	enum entry_state state;
	uint32_t partition;
	int64_t offset;
	int64_t first; /* ENTRY_CLAIMED, _CONFLICT: the claim's offset */
	struct slice value;
	struct dispatch dispatch; /* unless ENTRY_BAD */
	struct slice reference; /* as in a recipient's box, packed */
	size_t reference_at; /* in the work's references */
};

/* Offsets that a mark may pass once all before it is joined. */
struct advance {
	uint32_t partition;
	int64_t from, next;
};

struct share {
	struct share *next; /* the connection's next one */
	struct entry *entries;
	size_t count;
	struct advance *advances;
	size_t advance_count;
	bool is_last; /* no part follows: its marks may move */
	bool done;
};

struct work {
	struct share *shares; /* mailbox_shares() */
	uint32_t share_count;
	struct entry *entries;
	size_t count;
	struct advance *advances;
	struct buf references;
	uint64_t value_bytes;
};

/* Decodes a batch's records (the batch itself isn't moved) and checks that
 * it is of `mailbox`'s topic and partitions.  due[] holds for each partition
 * the least offset that its next record may have, in this part of a batch or
 * a later one; zeros at first, kept by this function.
 * -1: EX_DATAERR, EX_CONFIG another partition count, EX_OSERR. */
int work_init(struct work *work, const struct batch *batch,
    const struct mailbox *mailbox, int64_t *due, struct err *err);
void work_release(struct work *work);

/* Memory that it holds beside its frame, which it may be many times. */
size_t work_bytes(const struct work *work);

bool work_is_done(const struct work *work);

/* What became of it. */
struct work_counts {
	uint64_t joined; /* entries of recipients */
	uint64_t dead; /* records in quarantine */
	uint64_t below; /* records below the mark */
	uint64_t repeats; /* records that another offset has claimed */
};

struct work_counts work_count(const struct work *work);

#endif
