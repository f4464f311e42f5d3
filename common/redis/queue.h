/*
 * queue - batches from when they are read until their receipts are out, which
 * go out in the batches' order.
 */
#ifndef QIM_REDIS_QUEUE_H
#define QIM_REDIS_QUEUE_H

#include "redis/work.h"
#include "stream/stream.h"

/* Zeros but for `mailbox` and `strict` are an empty one. */
struct queue {
	const struct mailbox *mailbox;
	bool strict; /* a conflict ends it */
	struct unit *first, *last;
	uint64_t batches; /* begun, and without their receipts */
	uint64_t bytes; /* memory held */
	struct receipt receipt; /* of the batch whose parts are counted */
	uint64_t receipt_start_us;
	uint64_t in, out, dead; /* of all receipts */
	struct err conflict; /* the first one, when strict; code 0: none */
	uint64_t quarantined; /* seen, and when that may be told again */
	uint64_t tell_us;
};

/* Takes over a batch or a part of one; its work goes to the connections.
 * NULL: as work_init(), and the caller keeps the item. */
struct work *queue_add(struct queue *queue, struct stream_item *item,
    int64_t *due, struct err *err);

/* Writes the receipts of the batches at the head that are done.  -1: as
 * stream_out_receipt(); EX_DATAERR, when strict, behind the receipt of a batch
 * with a conflict, which stands in quarantine then and is below the mark. */
int queue_finish(struct queue *queue, struct stream_out *out, struct err *err);

/* Frees all, done or not. */
void queue_release(struct queue *queue);

#endif
