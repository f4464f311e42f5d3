/*
 * survey - all that stands in the mailboxes, told to a ledger.
 *
 * Reads with SCAN, HSCAN and ZSCAN, a page at a time, while everything else
 * goes on: what was there before the survey and stays is told, once or more
 * often.  Floors come last, so that what was trimmed meanwhile is known for
 * it.  What isn't in the form that mailbox-apply writes is told as stray.
 */
#ifndef QIM_REDIS_SURVEY_H
#define QIM_REDIS_SURVEY_H

#include "message/ledger.h"
#include "redis/client.h"
#include "redis/mailbox.h"

/* mailbox-trim removes no claim above the mark of so long ago. */
#define SURVEY_OLD_MS (UINT64_C(2) * 86400000)

struct survey {
	struct client *client; /* connected to the node at `place` */
	const struct mailbox *mailbox;
	uint32_t place;
	struct ledger *ledger; /* its parts that are to be skipped are marked */
	bool (*stopping)(void); /* asked between two pages */
	struct buf scratch;
	size_t claim_bytes; /* of the largest claim of late */
};

/* Surveys the node.  -1: EX_CONFIG the marks are another chain's, EX_TEMPFAIL
 * stopping(), as client_call(), what the ledger returned. */
int survey_node(struct survey *survey, struct err *err);

/* Surveys all nodes, one after the other, each with a connection of its own;
 * `nodes` are those that the mailbox is spread over.
 * -1: as client_init() and survey_node(). */
int survey_all(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, struct ledger *ledger,
    bool (*stopping)(void), struct err *err);

#endif
