/*
 * names - byte strings as numbers from 1, and back.
 *
 * So that what is kept of each entry of a mailbox is a few numbers, while the
 * names of users and conversations are kept once.  Names never leave.
 */
#ifndef QIM_MESSAGE_NAMES_H
#define QIM_MESSAGE_NAMES_H

#include "base/buf.h"
#include "message/table.h"

struct names {
	struct table table; /* a hash of the name, and its number */
	struct buf bytes; /* all of them, one after the other */
	uint32_t *ends; /* by number - 1: where it ends in `bytes` */
	size_t room;
	uint64_t seed;
};

/* `seed` is any number that who gives the names doesn't know. */
void names_init(struct names *names, uint64_t seed);
void names_release(struct names *names);

/* The number of a name, which is added where it is new; 0: no memory, or more
 * than BUF_BYTES_MAX of names. */
uint32_t names_take(struct names *names, struct slice name);

/* The name of a number; good until the next names_take(). */
struct slice names_get(const struct names *names, uint32_t number);

#endif
