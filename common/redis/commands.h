/*
 * commands - Redis commands as the bytes that go over the wire.
 *
 * A writer says how many arguments come and then appends them.  The bytes
 * stay until all replies are there, so that an error reply can be traced to
 * the key of its command.
 */
#ifndef QIM_REDIS_COMMANDS_H
#define QIM_REDIS_COMMANDS_H

#include <stdint.h>

#include "base/buf.h"

/* Zeros are an empty one. */
struct commands {
	struct buf bytes; /* failed: memory had run out */
	size_t count;
};

void commands_reset(struct commands *commands);
void commands_release(struct commands *commands);

/* Begins a command of `argc` arguments, its name included. */
void commands_begin(struct commands *commands, uint32_t argc, const char *name);

void commands_slice(struct commands *commands, struct slice argument);
void commands_text(struct commands *commands, const char *argument);
void commands_u64(struct commands *commands, uint64_t argument);

/* One argument out of several pieces. */
void commands_pieces(
    struct commands *commands, const struct slice *pieces, size_t count);

/* A whole command of texts; NULL ends them. */
void commands_add(struct commands *commands, const char *name, ...)
    __attribute__((sentinel));

/* Argument `argument` (0: the name) of command `index`, in place; nil where
 * there is none. */
struct slice commands_argument(
    const struct commands *commands, size_t index, uint32_t argument);

#endif
