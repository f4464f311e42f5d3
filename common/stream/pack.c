#include "stream/pack.h"

/* msgpack-c's own templates, which its pack.h fills with calls through a
 * pointer: a frame has many thousands of small pieces. */
#include <msgpack/pack_define.h>
#include <msgpack/timestamp.h>

static inline int
append(struct buf *buf, const void *bytes, size_t count)
{
	if (count == 1 && buf->bytes < buf->room) {
		buf->data[buf->bytes++] = *(const uint8_t *)bytes;
		return 0;
	}
	buf_append(buf, bytes, count);
	return buf->failed ? -1 : 0;
}

#define msgpack_pack_inline_func(name) static inline int msgpack_pack##name
#define msgpack_pack_inline_func_cint(name) static inline int msgpack_pack##name
#define msgpack_pack_inline_func_fixint(name) \
	static inline int msgpack_pack_fix##name
#define msgpack_pack_user struct buf *
#define msgpack_pack_append_buffer(user, bytes, count) \
	return append(user, bytes, count)
#include <msgpack/pack_template.h>

void
pack_nil(struct buf *buf)
{
	msgpack_pack_nil(buf);
}

void
pack_bool(struct buf *buf, bool value)
{
	if (value)
		msgpack_pack_true(buf);
	else
		msgpack_pack_false(buf);
}

void
pack_u64(struct buf *buf, uint64_t value)
{
	msgpack_pack_uint64(buf, value);
}

void
pack_i64(struct buf *buf, int64_t value)
{
	msgpack_pack_int64(buf, value);
}

void
pack_f64(struct buf *buf, double value)
{
	msgpack_pack_double(buf, value);
}

void
pack_str(struct buf *buf, struct slice text)
{
	if (text.data == NULL) {
		msgpack_pack_nil(buf);
		return;
	}
	msgpack_pack_str(buf, text.bytes);
	append(buf, text.data, text.bytes);
}

void
pack_bin(struct buf *buf, struct slice data)
{
	if (data.data == NULL) {
		msgpack_pack_nil(buf);
		return;
	}
	msgpack_pack_bin(buf, data.bytes);
	append(buf, data.data, data.bytes);
}

void
pack_text(struct buf *buf, const char *text)
{
	pack_str(buf, slice_of(text));
}

void
pack_array(struct buf *buf, uint32_t count)
{
	msgpack_pack_array(buf, count);
}

void
pack_map(struct buf *buf, uint32_t count)
{
	msgpack_pack_map(buf, count);
}

void
pack_raw(struct buf *buf, struct slice raw)
{
	buf_append(buf, raw.data, raw.bytes);
}
