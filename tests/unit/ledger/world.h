/*
 * world - messages of an Outbox, their dispatches in the topic and what the
 * mailboxes make of them, told to a ledger with one thing changed.
 */
#ifndef QIM_TESTS_LEDGER_WORLD_H
#define QIM_TESTS_LEDGER_WORLD_H

#include "message/ledger-outbox.h"

#define SEED 0x5eed
#define PARTITIONS 4
#define MESSAGES 40

/* A dispatch in the topic. */
struct copy {
	uint32_t partition;
	int64_t offset;
	struct buf value;
	bool is_repeat; /* of another one before */
	int64_t first; /* offset of that */
};

/* What is left out or changed when the world is told. */
struct change {
	int skip_entry, skip_claim, move_entry, other_digest; /* by number */
	int own_entry, skip_conv, late_top, extra_entry;
	int skip_copy, skip_plan;
	bool trimmed; /* all boxes, by their floors */
	bool old; /* claims may have gone */
	int64_t low;
	uint64_t mark; /* UINT64_MAX: at the end */
	bool undue;
};

extern struct change change;

extern struct ledger ledger;
extern struct ledger_outbox planner;
extern struct buf messages[MESSAGES];
extern struct copy copies[];
extern size_t copy_count;
extern enum ledger_kind last_kind; /* that was found */

/* Set-up and tear-down of the tests' group. */
int world_start(void **state);
int world_stop(void **state);

struct change no_change(void);

uint64_t mark_of(uint32_t partition);

/* The ledger's found(). */
int note(const struct finding *finding, struct err *err);

/* Tell the ledger, which was made before, what mailbox-apply makes of the
 * topic, and a message. */
void tell_mailboxes(void);
void tell_message(unsigned number);

/* Tells a new ledger all of it, the mailboxes so many times; returns how much
 * was found. */
uint64_t tell(int times);

#endif
