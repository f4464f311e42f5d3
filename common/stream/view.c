#include "stream/view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "stream/base64.h"
#include "stream/guard.h"
#include "stream/pack.h"

static json_t *
encoded(struct slice bytes, const char *name)
{
	struct buf text;
	json_t *json;

	buf_init(&text);
	base64_encode(bytes, &text);
	json = text.failed
	    ? NULL
	    : json_pack("{s:s%}", name,
		  text.data == NULL ? "" : (char *)text.data, text.bytes);
	buf_release(&text);
	return json;
}

json_t *
view_bytes(struct slice bytes, const char *escape_name)
{
	json_t *json = NULL;

	if (bytes.data == NULL)
		return json_null();
	if (bytes.bytes == 0 || memchr(bytes.data, 0, bytes.bytes) == NULL)
		json = json_stringn((const char *)bytes.data, bytes.bytes);
	return json != NULL ? json : encoded(bytes, escape_name);
}

/* JSON or msgpack that stands inside a bin; NULL: it is neither. */
static json_t *
decoded(struct slice bytes)
{
	struct cursor cursor = cursor_of(bytes);
	enum mp_type type = cursor_peek(&cursor);
	struct err err;

	if (bytes.bytes > 0 && bytes.data[0] == '{')
		return json_loadb(
		    (const char *)bytes.data, bytes.bytes, 0, NULL);
	if ((type != MP_MAP && type != MP_ARRAY) || guard_walk(bytes, &err) < 0)
		return NULL;
	/* One level: what is inside may nest as deep as it is long. */
	return view_msgpack(&cursor, VIEW_BIN_TEXT);
}

json_t *
view_bin(struct slice bytes, enum view_bin bin)
{
	json_t *json = NULL;

	if (bytes.data == NULL)
		return json_null();
	if (bin == VIEW_BIN_BASE64)
		return encoded(bytes, "base64");
	if (bin == VIEW_BIN_DECODE)
		json = decoded(bytes);
	return json != NULL ? json : view_bytes(bytes, "base64");
}

static json_t *
view_uint(uint64_t value)
{
	char text[24];

	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return json_pack("{s:s}", "u64", text);
}

static json_t *
view_float(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *
view_array(struct cursor *cursor, enum view_bin bin)
{
	uint32_t count = cursor_array(cursor);
	json_t *array = json_array();

	for (uint32_t i = 0; i < count && !cursor->bad; i++)
		if (json_array_append_new(array, view_msgpack(cursor, bin)) <
		    0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

char *
view_key(struct cursor *cursor)
{
	json_t *json = view_msgpack(cursor, VIEW_BIN_TEXT);
	char *key;

	if (json_is_string(json))
		key = strdup(json_string_value(json));
	else
		key = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(json);
	return key;
}

static json_t *
view_map(struct cursor *cursor, enum view_bin bin)
{
	uint32_t count = cursor_map(cursor);
	json_t *object = json_object();
	int failed = 0;

	for (uint32_t i = 0; i < count && !cursor->bad && !failed; i++) {
		char *key = view_key(cursor);
		json_t *value = view_msgpack(cursor, bin);

		failed =
		    key == NULL || json_object_set_new(object, key, value) < 0;
		free(key);
	}
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *
view_ext(struct cursor *cursor)
{
	struct mp_head head = {0};
	struct slice raw = cursor_raw(cursor);
	const uint8_t *at = raw.data;
	json_t *json;

	mp_read_head(&at, raw.data + raw.bytes, &head);
	json = encoded((struct slice){at, head.count}, "base64");
	json_object_set_new(json, "ext", json_integer((int8_t)head.ext));
	return json;
}

json_t *
view_msgpack(struct cursor *cursor, enum view_bin bin)
{
	switch (cursor_peek(cursor)) {
	case MP_BOOL:
		return json_boolean(cursor_bool(cursor));
	case MP_UINT:
		return view_uint(cursor_u64(cursor));
	case MP_INT:
		return json_integer(cursor_i64(cursor));
	case MP_FLOAT:
		return view_float(cursor_f64(cursor));
	case MP_STR:
		return view_bytes(cursor_str(cursor), "str64");
	case MP_BIN:
		return view_bin(cursor_bin(cursor), bin);
	case MP_ARRAY:
		return view_array(cursor, bin);
	case MP_MAP:
		return view_map(cursor, bin);
	case MP_EXT:
		return view_ext(cursor);
	default:
		cursor_nil(cursor);
		return json_null();
	}
}

static int
unpack_base64(struct buf *buf, const json_t *text,
    void (*pack)(struct buf *, struct slice))
{
	struct buf bytes;
	int result;

	buf_init(&bytes);
	buf_reserve(&bytes, 1); /* empty isn't nil */
	result = base64_decode(slice_of(json_string_value(text)), &bytes);
	if (result == 0)
		pack(buf, slice_of_buf(&bytes));
	buf_release(&bytes);
	return result;
}

static int
pack_decimal(struct buf *buf, const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || *text == '-')
		return -1;
	pack_u64(buf, value);
	return 0;
}

/* The objects that stand for what JSON can't say: 1 it was none. */
static int
pack_special(struct buf *buf, const json_t *json)
{
	const json_t *value;

	if (json_object_size(json) != 1)
		return 1;
	value = json_object_get(json, "base64");
	if (json_is_string(value))
		return unpack_base64(buf, value, pack_bin);
	value = json_object_get(json, "str64");
	if (json_is_string(value))
		return unpack_base64(buf, value, pack_str);
	value = json_object_get(json, "u64");
	if (json_is_string(value))
		return pack_decimal(buf, json_string_value(value));
	return 1;
}

static int
pack_object(struct buf *buf, const json_t *json)
{
	const char *key;
	json_t *value;
	int result = pack_special(buf, json);

	if (result <= 0)
		return result;
	pack_map(buf, (uint32_t)json_object_size(json));
	json_object_foreach((json_t *)(uintptr_t)json, key, value)
	{
		pack_text(buf, key);
		if (view_pack(buf, value) < 0)
			return -1;
	}
	return 0;
}

static int
pack_items(struct buf *buf, const json_t *json)
{
	pack_array(buf, (uint32_t)json_array_size(json));
	for (size_t i = 0; i < json_array_size(json); i++)
		if (view_pack(buf, json_array_get(json, i)) < 0)
			return -1;
	return 0;
}

int
view_pack(struct buf *buf, const json_t *json)
{
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		return pack_object(buf, json);
	case JSON_ARRAY:
		return pack_items(buf, json);
	case JSON_STRING:
		pack_str(buf,
		    (struct slice){(const uint8_t *)json_string_value(json),
			json_string_length(json)});
		return 0;
	case JSON_INTEGER:
		pack_i64(buf, json_integer_value(json));
		return 0;
	case JSON_REAL:
		pack_f64(buf, json_real_value(json));
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		pack_bool(buf, json_is_true(json));
		return 0;
	default:
		pack_nil(buf);
		return 0;
	}
}

int
view_pack_bin(struct buf *buf, const json_t *json)
{
	if (json_is_object(json))
		return pack_special(buf, json) == 0 ? 0 : -1;
	if (json_is_null(json))
		pack_nil(buf);
	else if (json_is_string(json))
		pack_bin(buf,
		    (struct slice){(const uint8_t *)json_string_value(json),
			json_string_length(json)});
	else
		return -1;
	return 0;
}
