/*
 * ledger - mailboxes, dispatch topic and Outbox, one against the other.
 *
 * They are told in this order, against the stream, so that all may go on
 * meanwhile: each is told when what came before it was read, and whatever
 * stands in one of them stood before in what follows.
 *
 *	marks		first of all; only what lies below them is due
 *	mailboxes	entries, claims, projections, quarantine; then floors
 *	the topic	bounds, then its copies of dispatches by offset
 *	the Outbox	what is planned; due where the group has committed it
 *	the end		what of the mailboxes nothing has asked for
 *
 * What must be so, below the mark of a partition, and is else found:
 *
 *	missing		each recipient that a dispatch of the topic, or a plan,
 *			names has an entry, each copy its claim
 *	extra		nothing else stands there
 *	twice		a message stands once in a box
 *	digest		the claim, its body, the copies and the plan say the
 *			same
 *	seq		the claim is that of the first copy, and an entry has
 *			its offset + 1
 *	own		the sender's own entry is marked, no other is
 *	order		conv, top and read are neither behind nor ahead
 *	conflict	a copy with another digest is in quarantine, and so is
 *			what can't be decoded
 *	undispatched	what was planned below the committed offset is in the
 *			topic
 *	lost		what can't be planned there is a dead letter
 *
 * What can't be known any more, because Kafka or mailbox-trim has removed it,
 * is counted and not found.
 *
 * What is kept: 24 bytes for each entry of a box, 40 for each dispatch and for
 * each conversation of each user and of each partition; in hash tables that
 * are filled by 3/8 to 3/4, and need half as much again while they grow.
 */
#ifndef QIM_MESSAGE_LEDGER_H
#define QIM_MESSAGE_LEDGER_H

#include "message/dispatch.h"
#include "message/names.h"
#include "message/table.h"

enum ledger_kind {
	LEDGER_MISSING,
	LEDGER_EXTRA,
	LEDGER_TWICE,
	LEDGER_DIGEST,
	LEDGER_SEQ,
	LEDGER_OWN,
	LEDGER_ORDER,
	LEDGER_CONFLICT,
	LEDGER_UNDISPATCHED,
	LEDGER_LOST,
	LEDGER_KINDS,
};

extern const char *const ledger_kind_names[LEDGER_KINDS];

struct finding {
	enum ledger_kind kind;
	uint32_t partition;
	int64_t offset; /* of the topic, of the Outbox for LOST; -1: none */
	struct slice user, conversation; /* nil: none */
	uint64_t seq; /* 0: none */
	const char *why;
};

/* Called for each finding; what it is given is good until it returns. */
typedef int ledger_found(const struct finding *finding, struct err *err);

struct ledger_counts {
	uint64_t messages; /* of the Outbox that could be planned */
	uint64_t dead; /* and that couldn't, or a dispatch of them */
	uint64_t pending; /* dispatches planned and not due yet */
	uint64_t dispatches; /* copies in the topic */
	uint64_t repeats; /* of them: a dispatch again */
	uint64_t conflicts; /* of them: with another digest */
	uint64_t undecodable;
	uint64_t entries; /* in boxes */
	uint64_t claims;
	uint64_t unapplied; /* copies at or above the mark */
	uint64_t above; /* entries above the mark */
	uint64_t trimmed; /* entries and claims that mailbox-trim removed */
	uint64_t unchecked; /* what can't be compared any more */
};

/* A dispatch partition. */
struct ledger_part {
	uint64_t mark; /* offsets below it are applied */
	uint64_t old; /* below it mailbox-trim may have removed claims */
	int64_t low; /* the first offset that the topic holds */
	bool skip; /* it isn't looked at */
	bool overflow; /* its quarantine kept no more */
};

struct ledger {
	uint32_t partitions;
	struct ledger_part *parts; /* owned; the caller fills them in time */
	bool has_outbox; /* it is told too */
	bool is_whole; /* and holds all since its beginning */
	ledger_found *found;
	struct ledger_counts counts;
	uint64_t kinds[LEDGER_KINDS]; /* how many were found */
	struct names users, conversations;
	struct table entries, dispatches, views, floors, quarantine, letters;
};

/* `seed` is any number that who writes the data doesn't know; -1 EX_OSERR. */
int ledger_init(struct ledger *ledger, uint32_t partitions, uint64_t seed,
    ledger_found *found, struct err *err);
void ledger_release(struct ledger *ledger);

/* All that follows: -1 EX_OSERR, or what found() returned. */

/* The mailboxes: what stands in partition `partition`, in any order, and the
 * same again as often as a scan gives it. */

/* The entry [conversation, seq] of box:<user>, in it `own` or not. */
int ledger_entry(struct ledger *ledger, uint32_t partition, struct slice user,
    struct slice conversation, uint64_t seq, bool own, uint64_t mailbox_seq,
    struct err *err);

/* The claim of a dispatch; `fits` is false where its body isn't what its
 * digest is of. */
int ledger_claim(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, uint32_t chunk, int64_t offset,
    const uint8_t *digest, bool fits, struct err *err);

/* What conv:<user>, read:<user> and top say of a conversation. */
int ledger_conv(struct ledger *ledger, struct slice user,
    struct slice conversation, uint64_t created_at_ms, struct err *err);
int ledger_read(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, struct err *err);
int ledger_top(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, struct err *err);

/* A field of the quarantine: 2 * HASH_BYTES. */
int ledger_quarantined(
    struct ledger *ledger, const uint8_t *field, struct err *err);

/* Once all boxes are told. */
int ledger_floor(
    struct ledger *ledger, struct slice user, uint64_t floor, struct err *err);

/* What no writer of ours puts there; user or conversation may be nil. */
int ledger_stray(struct ledger *ledger, uint32_t partition, struct slice user,
    struct slice conversation, const char *why, struct err *err);

/* The topic: a record, in the order of the partition's offsets. */
int ledger_copy(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct slice value, struct err *err);

/* A dead letter of a record of the Outbox; before the Outbox. */
int ledger_letter(
    struct ledger *ledger, int32_t partition, int64_t offset, struct err *err);

/* Where a planned dispatch comes from. */
struct ledger_source {
	int32_t partition;
	int64_t offset;
	bool due; /* below the committed offset */
};

/* The Outbox: each dispatch that is planned, and what can't be planned. */
int ledger_planned(struct ledger *ledger, uint32_t partition,
    const struct dispatch *dispatch, const struct ledger_source *source,
    struct err *err);
int ledger_unplanned(struct ledger *ledger, const struct ledger_source *source,
    const char *why, struct err *err);

/* After all was told. */
int ledger_end(struct ledger *ledger, struct err *err);

#endif
