/*
 * json - a JSON object as msgpack.
 *
 * jsmn finds the tokens; it is lenient, so what RFC 8259 refuses is refused
 * here: wrong separators, numbers and escapes, control bytes in strings,
 * lone surrogates, invalid UTF-8, anything behind the object.
 *
 * By value: a number without fraction and exponent that fits 64 bits, signed
 * or unsigned, becomes an integer in its shortest form (-0 becomes 0), every
 * other number a float 64.  Pairs keep their order, and nested names that
 * stand twice are kept twice: the top-level names are the caller's to check.
 */
#ifndef QIM_MESSAGE_JSON_H
#define QIM_MESSAGE_JSON_H

#include "base/buf.h"
#include "base/err.h"

#define JSON_BYTES_MAX ((size_t)16 << 20)

/* Objects, arrays, names and values in one text: bounds the memory. */
#define JSON_TOKENS_MAX ((uint32_t)1 << 20)

/* Deepest nesting of objects and arrays; the same as GUARD_DEPTH_MAX. */
#define JSON_DEPTH_MAX 32

/* Memory that is reused from one text to the next. */
struct json {
	void *tokens; /* jsmntok_t[room] */
	uint32_t room;
	struct buf string; /* the one being unescaped */
};

void json_init(struct json *json);
void json_release(struct json *json);

/*
 * Appends `text`, one object with blanks around it, to `out` as one msgpack
 * map.  -1: EX_DATAERR with the byte where it isn't JSON or is over a limit,
 * EX_OSERR; what was appended until then is left behind, not whole.
 */
int json_to_msgpack(
    struct json *json, struct slice text, struct buf *out, struct err *err);

#endif
