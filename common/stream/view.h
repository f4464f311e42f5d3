/*
 * view - msgpack as JSON for people and for jq, and back.
 *
 * Text stands as a JSON string where it is valid UTF-8 without a NUL, else as
 * {"base64": "..."} (bin) or {"str64": "..."} (str).  Ext types stand as
 * {"ext": type, "base64": "..."}.  Integers beyond a signed 64-bit one stand
 * as {"u64": "decimal"}, map keys that aren't text as their JSON text.
 * Floats that JSON can't say (infinite, not a number) stand as null.
 */
#ifndef QIM_STREAM_VIEW_H
#define QIM_STREAM_VIEW_H

#include <jansson.h>

#include "base/buf.h"
#include "stream/cursor.h"

/* How bin stands. */
enum view_bin {
	VIEW_BIN_BASE64, /* always {"base64": ...}, which can be told from str
			  */
	VIEW_BIN_TEXT, /* like str, where it is valid UTF-8 */
	VIEW_BIN_DECODE, /* like TEXT, but msgpack maps and arrays, and JSON
			    objects, inside a bin are shown as what they are */
};

/* Takes one object from walked msgpack; a new reference, NULL: no memory. */
json_t *view_msgpack(struct cursor *cursor, enum view_bin bin);

/* The content of a bin; nil (data NULL) gives null.  NULL: no memory. */
json_t *view_bin(struct slice bytes, enum view_bin bin);

/* One byte string; nil (data NULL) gives null.  NULL: no memory. */
json_t *view_bytes(struct slice bytes, const char *escape_name);

/* Takes one object as the name of a JSON pair; malloc()ed, NULL: no memory. */
char *view_key(struct cursor *cursor);

/* Packs a JSON value: strings as str, {"base64"} as bin, {"str64"} as str,
 * {"u64"} as that number, any other object as a map ({"ext"} too: it isn't
 * turned back); 0, or -1: not valid base64 or decimal. */
int view_pack(struct buf *buf, const json_t *json);

/* A string or {"base64"} as bin, null as nil; -1: something else. */
int view_pack_bin(struct buf *buf, const json_t *json);

#endif
