/*
 * keys - the mailbox's keys among all of a node's: for who scans them.
 */
#ifndef QIM_REDIS_KEYS_H
#define QIM_REDIS_KEYS_H

#include "redis/mailbox.h"

/* A key "PREFIX:{P}:REST" as we write them. */
struct key {
	struct stem stem;
	uint32_t partition; /* below the count, whichever node it is of */
	struct slice rest; /* kind and id */
};

/* False where a name isn't such a key. */
bool key_take(
    const struct mailbox *mailbox, struct slice name, struct key *key);

/* Moves `text` over a start that it has; false: it begins otherwise. */
bool key_pass(struct slice *text, const char *start);

/* Appends SCAN's command for a page of all that may be such keys. */
void keys_ask(struct commands *commands, const struct mailbox *mailbox,
    const char *cursor);

#endif
