#include "stream/pack.h"

#include <msgpack/pack.h>

static int
append(void *data, const char *bytes, size_t count)
{
	struct buf *buf = data;

	/* Most pieces are one byte: heads, small integers. */
	if (count == 1 && buf->bytes < buf->room) {
		buf->data[buf->bytes++] = (uint8_t)*bytes;
		return 0;
	}
	buf_append(buf, bytes, count);
	return buf->failed ? -1 : 0;
}

static msgpack_packer
packer(struct buf *buf)
{
	return (msgpack_packer){.data = buf, .callback = append};
}

void
pack_nil(struct buf *buf)
{
	msgpack_packer pk = packer(buf);

	msgpack_pack_nil(&pk);
}

void
pack_bool(struct buf *buf, bool value)
{
	msgpack_packer pk = packer(buf);

	if (value)
		msgpack_pack_true(&pk);
	else
		msgpack_pack_false(&pk);
}

void
pack_u64(struct buf *buf, uint64_t value)
{
	msgpack_packer pk = packer(buf);

	msgpack_pack_uint64(&pk, value);
}

void
pack_i64(struct buf *buf, int64_t value)
{
	msgpack_packer pk = packer(buf);

	msgpack_pack_int64(&pk, value);
}

void
pack_f64(struct buf *buf, double value)
{
	msgpack_packer pk = packer(buf);

	msgpack_pack_double(&pk, value);
}

void
pack_str(struct buf *buf, struct slice text)
{
	msgpack_packer pk = packer(buf);

	if (text.data == NULL)
		msgpack_pack_nil(&pk);
	else
		msgpack_pack_str_with_body(&pk, text.data, text.bytes);
}

void
pack_bin(struct buf *buf, struct slice data)
{
	msgpack_packer pk = packer(buf);

	if (data.data == NULL)
		msgpack_pack_nil(&pk);
	else
		msgpack_pack_bin_with_body(&pk, data.data, data.bytes);
}

void
pack_text(struct buf *buf, const char *text)
{
	pack_str(buf, slice_of(text));
}

void
pack_array(struct buf *buf, uint32_t count)
{
	msgpack_packer pk = packer(buf);

	msgpack_pack_array(&pk, count);
}

void
pack_map(struct buf *buf, uint32_t count)
{
	msgpack_packer pk = packer(buf);

	msgpack_pack_map(&pk, count);
}

void
pack_raw(struct buf *buf, struct slice raw)
{
	buf_append(buf, raw.data, raw.bytes);
}
