/*
 * script - Lua scripts: what must look and write in one step.
 *
 * Only the cursors and the trim have them, no hot path.  A node forgets its
 * scripts when it restarts, fails over or is told to (SCRIPT FLUSH); it then
 * answers NOSCRIPT, has done nothing, and is sent the script's text.
 *
 * What holds for every script here: all keys are of one partition and come as
 * KEYS; numbers go in and out as decimals below 2^53, as Redis' Lua has
 * doubles alone and no msgpack bin; and where the script must work on a node
 * that is full, its first write is of a command that can only take away, and
 * takes nothing: Redis refuses what may grow only to a script that hasn't
 * written yet, and nothing is taken back of one that fails half-way.
 */
#ifndef QIM_REDIS_SCRIPT_H
#define QIM_REDIS_SCRIPT_H

#include "redis/client.h"
#include "redis/mailbox.h"

struct script {
	const char *text;
	char sha1[41]; /* empty: calls carry the text */
};

/* Begins a call with `keys` keys and `arguments` arguments, which the caller
 * appends in this order. */
void script_begin(struct commands *commands, const struct script *script,
    uint32_t keys, uint32_t arguments);

/* Leaves the text with the node, so that calls needn't carry it: for those
 * that call it often.  -1: as client_call(). */
int script_load(struct script *script, struct client *client, struct err *err);

/* Sends client->commands, all of them calls of this script, and those that
 * the node doesn't know once more with the text.  As client_call(). */
int script_run(
    const struct script *script, struct client *client, struct err *err);

#endif
