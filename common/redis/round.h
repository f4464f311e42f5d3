/*
 * round - the protocol that fills mailboxes over one connection, without I/O.
 *
 * A round is one write: MULTI; the marks of the shares whose joins are
 * confirmed; the joins of the entries whose claims are confirmed; the claims
 * of the entries that come next; INCR of this connection's counter; EXEC;
 * then WATCH, WAIT where replicas are waited for, and GET of the counter.
 * EXEC answers nil where the watched counter's data set was replaced, the
 * counter isn't the number of rounds sent where that happened before the
 * WATCH: in both cases the node lost data, and nothing was written to the
 * wrong data set on the word of the right one.  Only a round whose counter was
 * read counts as confirmed, and with WAIT only one that enough replicas have:
 * so they have all that is before a mark when the mark is sent.
 *
 * What must be known before the next round is asked in between, under the
 * WATCH: whose a claim is that existed already, and the mark of a partition.
 *
 * What a connection does never depends on another's: each has partitions of
 * its own.
 *
 * The caller owns the connection: it sends what round_open() and round_next()
 * append, hands each reply to round_take() in order, and calls round_close()
 * when the connection is gone.  After that everything that isn't done starts
 * again from the claims, with a counter of its own: each write is first-wins
 * or greatest-wins, so that repeating it changes nothing.
 */
#ifndef QIM_REDIS_ROUND_H
#define QIM_REDIS_ROUND_H

#include "redis/joins.h"
#include "redis/reply.h"
#include "redis/work.h"

/* Bounds of one round; JOINS_COUNT_MAX is the third. */
#define ROUND_CLAIMS_MAX 1000
#define ROUND_CLAIM_BYTES ((size_t)4 << 20)

/* A counter lives this long after it was renewed. */
#define ROUND_EXPIRE_S 86400

#define ROUND_ID_BYTES 33

enum round_phase {
	ROUND_CLOSED,
	ROUND_OPENING, /* replies are awaited in this one */
	ROUND_IDLE,
	ROUND_ASKING, /* and this */
	ROUND_SENT, /* and this */
	ROUND_SHORT, /* too few replicas have the round: to be asked again */
	ROUND_WAITING, /* and this */
};

/* Replicas that must have a round before it is confirmed; 0: none. */
struct round_wait {
	uint32_t replicas;
	uint32_t ms; /* a WAIT's own limit */
};

/* A partition that goes over the connection. */
struct place {
	struct stem stem;
	uint64_t base; /* below it all was confirmed, or before this run */
	uint64_t mark; /* as it was read or confirmed */
	uint64_t pending; /* while marks are built: the greatest to come */
	uint64_t quarantined; /* at most so many fields in quarantine */
	bool used; /* a batch has named it */
	bool known; /* mark and quarantined were read on this connection */
	bool asked; /* their replies are awaited */
};

/* An entry, and within it a recipient: what is before it is confirmed. */
struct spot {
	struct share *share; /* NULL: the queue is empty */
	size_t index; /* share->count: at its end */
	const uint8_t *at; /* `left` > 0: the next recipient */
	uint32_t left; /* recipients to come; 0: all */
};

struct round {
	const struct mailbox *mailbox;
	uint32_t node; /* its place in the list */
	struct round_wait wait;
	enum round_phase phase;

	struct share *first, *last; /* not done, in order */
	struct spot claims, joins; /* confirmed up to here */
	struct spot claims_sent, joins_sent; /* once this is confirmed */
	size_t marks_sent; /* shares whose marks are in the round */

	struct place *places; /* by partition / mailbox_shares() */
	size_t place_count;
	size_t unknown_count; /* used and not known */
	size_t asked_count;

	char id[ROUND_ID_BYTES]; /* of this connection */
	struct stem stem; /* where its counter stands */
	uint64_t sent; /* rounds counted on this connection */
	uint64_t confirmed; /* of them after the first, read back */

	const struct commands *commands; /* in flight; the caller's */
	size_t reply_at; /* replies taken of them */
	size_t inner_count; /* commands between MULTI and EXEC */
	struct entry *claimed[ROUND_CLAIMS_MAX];
	size_t claimed_count, claimed_first; /* index of the first in EXEC */
	size_t ask_count; /* of them to be asked about, before all else */
	size_t ask_at; /* place, then claim */
	bool asked_mark; /* of place ask_at: its quarantine comes next */
	uint64_t replicas; /* that had the last round, by WAIT */

	struct commands quarantine; /* conflicts, for the next round */
	struct joins *gathered;
	struct buf scratch;
};

/* For connection `share` of mailbox_shares().
 * -1 EX_OSERR.  `mailbox` must live as long. */
int round_init(struct round *round, const struct mailbox *mailbox,
    uint32_t share, struct round_wait wait, struct err *err);
void round_release(struct round *round);

/* Appends a share to the queue, in any phase; it and its entries must live
 * until done.  One without entries and ranges is done at once. */
void round_add(struct round *round, struct share *share);

/* Begins on a new connection; `id` is a number in hex that no connection had
 * before.  `commands` is filled, and must stay until all replies are taken. */
void round_open(struct round *round, const char id[ROUND_ID_BYTES],
    struct commands *commands);

/* The connection is gone. */
void round_close(struct round *round);

/* What round_next() could send: there is something to do. */
bool round_has_work(const struct round *round);

/* True while replies are to come. */
bool round_is_waiting(const struct round *round);

/* Fills `commands` with what comes next; false: nothing does.  Only when
 * ROUND_IDLE or ROUND_SHORT.  With `renew` there is always a round, which
 * renews the counter's life. */
bool round_next(struct round *round, bool renew, struct commands *commands);

enum round_result {
	ROUND_TAKEN,
	ROUND_RETRY, /* err says why: close, back off, open again */
};

/* Takes the next reply; the phase is ROUND_IDLE after the last, or
 * ROUND_SHORT.
 * -1: EX_TEMPFAIL data was lost, EX_DATAERR, EX_NOPERM, EX_CONFIG. */
int round_take(struct round *round, const struct reply *reply, struct err *err);

/* For round-build.c and round-take.c. */

static inline struct place *
round_place(const struct round *round, uint32_t partition)
{
	return &round->places[partition / mailbox_shares(round->mailbox)];
}

void spot_pass(struct spot *spot); /* over one entry */
bool spot_equal(const struct spot *a, const struct spot *b);

/* The first share that isn't joined; NULL: all are. */
struct share *round_first_unjoined(const struct round *round);

/* Drops `count` shares from the head as done. */
void round_drop(struct round *round, size_t count);

#endif
