/*
 * cursor - reads msgpack in place, after guard_walk() has passed it.
 *
 * A cursor goes from object to object.  Its error is sticky: a read of the
 * wrong type, past the end, or of a number that doesn't fit, sets `bad`,
 * moves nothing any more and gives 0, false or nil.  So a decoder reads all
 * it wants and checks cursor_done() once.  Nothing is copied or allocated:
 * slices point into the bytes.
 *
 * msgpack-c has a reader too; it isn't used because it allocates by the
 * counts that the input declares (docs/adr/0002-*.md).
 */
#ifndef QIM_STREAM_CURSOR_H
#define QIM_STREAM_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum mp_type {
	MP_NONE, /* nothing left, or a reserved byte */
	MP_NIL,
	MP_BOOL,
	MP_UINT, /* 0..2^64-1, of either sign's encoding */
	MP_INT, /* below 0 */
	MP_FLOAT,
	MP_STR,
	MP_BIN,
	MP_ARRAY,
	MP_MAP,
	MP_EXT,
};

/* One decoded object head. */
struct mp_head {
	enum mp_type type;
	uint32_t
	    count; /* bytes of str, bin, ext; items of array; pairs of map */
	uint8_t ext; /* MP_EXT: its type byte */
	union {
		uint64_t u;
		int64_t i;
		double f;
		bool b;
	} value;
};

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

/* Decodes the head at *at and moves *at behind it (for str, bin and ext to
 * their first byte, which may lie at or past `end`: the caller checks).
 * False: not even the head is whole, or the byte is reserved. */
bool mp_read_head(const uint8_t **at, const uint8_t *end, struct mp_head *head);

struct cursor cursor_of(struct slice bytes);

/* True when all was read without error and nothing is left over. */
bool cursor_done(const struct cursor *cursor);

/* The type of the next object; MP_NONE when bad or at the end. */
enum mp_type cursor_peek(const struct cursor *cursor);

uint64_t cursor_u64(struct cursor *cursor); /* MP_UINT */
int64_t cursor_i64(struct cursor *cursor); /* MP_UINT below 2^63, MP_INT */
uint32_t cursor_u32(struct cursor *cursor);
int32_t cursor_i32(struct cursor *cursor);
double cursor_f64(struct cursor *cursor); /* MP_FLOAT */
bool cursor_bool(struct cursor *cursor);
void cursor_nil(struct cursor *cursor);

struct slice cursor_str(struct cursor *cursor);
struct slice cursor_bin(struct cursor *cursor);
struct slice cursor_str_or_nil(struct cursor *cursor); /* nil: data NULL */
struct slice cursor_bin_or_nil(struct cursor *cursor); /* nil: data NULL */
struct slice cursor_str_or_bin(struct cursor *cursor, bool *is_bin);

uint32_t cursor_array(struct cursor *cursor); /* items that follow */
uint32_t cursor_map(struct cursor *cursor); /* pairs that follow */

/* An array of at least `count` items, as records grow at their end: returns
 * the number of items beyond, for cursor_skip(). */
uint32_t cursor_array_of(struct cursor *cursor, uint32_t count);

/* Passes one object, whatever is in it, and returns its bytes. */
struct slice cursor_raw(struct cursor *cursor);
void cursor_skip(struct cursor *cursor, uint32_t count);

#endif
