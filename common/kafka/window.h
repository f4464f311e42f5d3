/*
 * window - which batches are in flight, what may still come in, and which
 * receipt may go out.  Pure: no sockets, no memory of frames, no clock.
 *
 * Batches enter in order, each in one part or several.  Reports of single
 * records come in any order.  A batch is done when its last part has come and
 * every record of it was reported as delivered; batches leave from the head
 * only, so that a receipt never overtakes another.  A failed record fails its
 * batch, which then never is done, nor is any behind it.
 *
 * Bytes: a part holds its bytes from window_begin() until all its records are
 * reported, the last part of a batch until the batch has left (the receipt is
 * made from it).  So a batch larger than the window passes through it, and
 * what is held is at most the limit and one part.
 */
#ifndef QIM_KAFKA_WINDOW_H
#define QIM_KAFKA_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct window_batch {
	uint64_t pending; /* records, and parts being filled, not reported */
	bool open; /* another part will come */
	bool failed;
	struct window_part *last; /* its last part, once that has come */
	uint64_t buried; /* the caller's count, 0 at first: dead letters */
};

/* Embedded in whatever the caller keeps for a part; stays where it is. */
struct window_part {
	struct window_batch *batch;
	uint64_t pending;
	uint64_t bytes;
};

struct window {
	struct window_batch *ring; /* `most` of them */
	uint32_t most, head, count;
	uint64_t bytes_most, bytes;
};

/* -1 EX_OSERR. */
int window_init(struct window *window, uint32_t batches_most,
    uint64_t bytes_most, struct err *err);
void window_release(struct window *window);

/* True when another part may come in.  When it is false, a report or a
 * window_pop() is due that makes it true again. */
bool window_has_room(const struct window *window);

/* A part comes in: of the open batch, or else of a new one.  `more` says that
 * the batch goes on behind it. */
void window_begin(
    struct window *window, struct window_part *part, uint64_t bytes, bool more);

/* One more record of the part waits for its report. */
void window_expect(struct window_part *part);

/* The part turns out to take more, while it still holds its bytes. */
void window_grow(
    struct window *window, struct window_part *part, uint64_t bytes);

/* A record of the part was reported; or, once, no more records come for it,
 * which gives up the hold of window_begin().  True: it was the last of this
 * part, whose bytes aren't held any more: the caller frees it. */
bool window_report(
    struct window *window, struct window_part *part, bool delivered);

/* The head's last part, when the batch at the head is done; else NULL. */
struct window_part *window_done(const struct window *window);

/* The batch at the head leaves: its receipt is out.  The caller frees the
 * part that window_done() gave. */
void window_pop(struct window *window);

/* True while reports can still make the head leave: it hasn't failed and all
 * its parts are here. */
bool window_waits(const struct window *window);

#endif
