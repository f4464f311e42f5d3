/*
 * reply - what Redis answered, and what an error reply means for us.
 */
#ifndef QIM_REDIS_REPLY_H
#define QIM_REDIS_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum reply_type {
	REPLY_NIL,
	REPLY_INTEGER,
	REPLY_TEXT, /* a bulk string */
	REPLY_STATUS, /* OK, QUEUED or PONG; any other is "?" */
	REPLY_ERROR,
	REPLY_ARRAY,
};

struct reply {
	enum reply_type type;
	int64_t integer; /* REPLY_INTEGER */
	struct slice text; /* REPLY_TEXT, _ERROR: malloc()ed; _STATUS: static */
	struct reply *items; /* REPLY_ARRAY */
	size_t count;
};

/* Frees what a reply from a connection holds, not the struct; a zero one is
 * fine. */
void reply_release(struct reply *reply);

/* What to do about an error reply; the table is in reply.c. */
enum reply_fault {
	FAULT_WAIT, /* may pass: back off, make it again (75) */
	FAULT_ACCESS, /* 77 */
	FAULT_CONFIG, /* 78 */
	FAULT_DATA, /* somebody else's key, or a bug (65) */
};

enum reply_fault reply_fault(struct slice error);

/* Fills *err with the fault's exit code and "KEY: the error's text" (key nil:
 * without it); returns the fault. */
enum reply_fault reply_error(
    const struct reply *reply, struct slice key, struct err *err);

/* The number that a text reply is: digits only, below 2^53; false: not. */
bool reply_number(const struct reply *reply, uint64_t *number);

/* The cursor of a scan, for its next call; "0" on its last page. */
#define REPLY_CURSOR_BYTES 24

/* Takes it from the first item of a page; false: there is none. */
bool reply_cursor(const struct reply *page, char cursor[REPLY_CURSOR_BYTES]);

static inline bool
reply_is_status(const struct reply *reply, const char *status)
{
	return reply->type == REPLY_STATUS && slice_is(reply->text, status);
}

#endif
