/*
 * device - a user's devices: what each was given, and how far it has it.
 *
 * `device:USER` has a field for each device, "CURSOR TO SEEN": all up to
 * CURSOR was acknowledged, the batch that is out goes up to TO (as far as
 * CURSOR where none is), and SEEN is when the device last asked or
 * acknowledged, in milliseconds of the node's clock.
 *
 * A cursor moves only by acknowledging the batch that is out, from where the
 * cursor stands: each of these calls is one script, so that neither a second
 * process of the same device nor the trim comes in between.  A batch stays
 * the same until then.  A device whose cursor is below the floor has missed
 * what was trimmed; it is told so each time, and goes on only when it
 * acknowledges the loss, from its cursor to the floor.  One that was given
 * what the mark no longer reaches, as somebody has moved that back or data was
 * lost, waits until the mark is there again: the same log gives it the same
 * entries.
 */
#ifndef QIM_REDIS_DEVICE_H
#define QIM_REDIS_DEVICE_H

#include "redis/reader.h"

/* What stands before a batch's entries. */
struct given {
	struct slice device;
	uint64_t from, to; /* for the acknowledgement; equal: no entries */
	uint64_t count; /* of entries that follow */
};

/* What begins each script that reads a device or a floor: what somebody else
 * has written there must neither move a cursor back nor let a box go. */
#define DEVICE_LUA \
	"local function whole(text)\n" \
	"  local value = tonumber(text)\n" \
	"  if value and value >= 0 and value < 2^53 and value % 1 == 0 then\n" \
	"    return value\n" \
	"  end\n" \
	"end\n" \
	"local function device(text)\n" \
	"  local cursor, to, seen = text:match('^(%d+) (%d+) (%d+)$')\n" \
	"  cursor, to, seen = whole(cursor), whole(to), whole(seen)\n" \
	"  if cursor and to and seen and cursor <= to then\n" \
	"    return cursor, to, seen\n" \
	"  end\n" \
	"end\n" \
	"local function floor_of(key, user)\n" \
	"  local floor = whole(redis.call('ZSCORE', key, user) or 0)\n" \
	"  return floor, redis.error_reply('ERR not a floor: ' .. key)\n" \
	"end\n"

typedef int device_given(const struct given *given, struct err *err);

/* The batch that is out, or the next `most` entries up to the mark, which
 * then is; `begin` first.  A new device begins at the floor.
 * -1: EX_DATAERR below the floor, or given more than the mark has now; as
 * client_call(). */
int device_batch(struct reader *reader, struct slice device, uint64_t most,
    device_given *begin, reader_message *show, struct err *err);

/* Moves the cursor.  -1: EX_DATAERR it stands elsewhere, or `to` is neither
 * the end of the batch that is out nor, below the floor, the floor. */
int device_ack(struct reader *reader, struct slice device, uint64_t from,
    uint64_t to, struct err *err);

/* Raises the user's read mark of a conversation; a lower seq changes nothing.
 * -1: EX_DATAERR the conversation hasn't come to that seq. */
int device_read(struct reader *reader, struct slice conversation, uint64_t seq,
    struct err *err);

#endif
