#include "message/pick.h"

#include <inttypes.h>
#include <stdio.h>

#include "stream/cursor.h"
#include "stream/guard.h"

void
pick_init(struct pick *pick)
{
	json_init(&pick->json);
	buf_init(&pick->converted);
}

void
pick_release(struct pick *pick)
{
	json_release(&pick->json);
	buf_release(&pick->converted);
}

static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
is_json(struct slice value)
{
	size_t at = 0;

	while (at < value.bytes && is_blank(value.data[at]))
		at++;
	return at < value.bytes && value.data[at] == '{';
}

static bool
is_map(struct slice value)
{
	uint8_t first = value.bytes == 0 ? 0 : value.data[0];

	return (first & 0xf0) == 0x80 || first == 0xde || first == 0xdf;
}

/* The field of that name that has no value yet, or NULL. */
static struct pick_field *
find(struct pick_field *fields, size_t count, struct slice name)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].bytes.data == NULL &&
		    slice_is(name, fields[i].name))
			return &fields[i];
	return NULL;
}

static int
take_value(struct cursor *cursor, struct pick_field *field, struct err *err)
{
	enum mp_type type = cursor_peek(cursor);
	int length;
	bool is_bin;

	if (type == MP_STR || type == MP_BIN) {
		field->bytes = cursor_str_or_bin(cursor, &is_bin);
		return 0;
	}
	if (type == MP_UINT)
		length = snprintf(field->digits, sizeof(field->digits),
		    "%" PRIu64, cursor_u64(cursor));
	else if (type == MP_INT)
		length = snprintf(field->digits, sizeof(field->digits),
		    "%" PRId64, cursor_i64(cursor));
	else
		return err_set(err, EX_DATAERR,
		    "field '%s': wants a text or an integer", field->name);
	field->bytes =
	    (struct slice){(const uint8_t *)field->digits, (size_t)length};
	return 0;
}

static int
pick_from_map(
    struct slice map, struct pick_field *fields, size_t count, struct err *err)
{
	struct cursor cursor = cursor_of(map);
	struct pick_field *field;

	for (uint32_t left = cursor_map(&cursor); left > 0; left--) {
		if (cursor_peek(&cursor) != MP_STR) {
			cursor_skip(&cursor, 2);
			continue;
		}
		field = find(fields, count, cursor_str(&cursor));
		if (field == NULL)
			cursor_skip(&cursor, 1);
		else if (take_value(&cursor, field, err) < 0)
			return -1;
	}
	return 0;
}

static void
pick_from_word(struct slice word, struct pick_field *fields, size_t count)
{
	const uint8_t *equals = memchr(word.data, '=', word.bytes);
	struct pick_field *field;
	size_t bytes;

	if (equals == NULL)
		return;
	bytes = (size_t)(equals - word.data);
	field = find(fields, count, (struct slice){word.data, bytes});
	if (field != NULL)
		field->bytes =
		    (struct slice){equals + 1, word.bytes - bytes - 1};
}

static void
pick_from_text(struct slice text, struct pick_field *fields, size_t count)
{
	size_t start, at = 0;

	while (at < text.bytes) {
		start = at;
		while (at < text.bytes && !is_blank(text.data[at]))
			at++;
		pick_from_word((struct slice){text.data + start, at - start},
		    fields, count);
		at++;
	}
}

static int
pick_from(struct pick *pick, struct slice value, struct pick_field *fields,
    size_t count, struct err *err)
{
	if (is_json(value)) {
		buf_reset(&pick->converted);
		if (json_to_msgpack(&pick->json, value, &pick->converted, err) <
		    0)
			return -1;
		return pick_from_map(
		    slice_of_buf(&pick->converted), fields, count, err);
	}
	if (!is_map(value)) {
		pick_from_text(value, fields, count);
		return 0;
	}
	if (guard_walk(value, err) < 0)
		return -1;
	return pick_from_map(value, fields, count, err);
}

int
pick_fields(struct pick *pick, struct slice value, struct pick_field *fields,
    size_t count, struct err *err)
{
	if (value.data == NULL)
		return err_set(err, EX_DATAERR, "no value");
	for (size_t i = 0; i < count; i++)
		fields[i].bytes = (struct slice){NULL, 0};
	if (pick_from(pick, value, fields, count, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (fields[i].bytes.data == NULL)
			return err_set(
			    err, EX_DATAERR, "no field '%s'", fields[i].name);
	return 0;
}

int
pick_number(const struct pick_field *field, uint64_t *number, struct err *err)
{
	struct slice text = field->bytes;
	uint64_t value = 0;
	size_t at = 0;

	while (at < text.bytes && text.data[at] >= '0' &&
	    text.data[at] <= '9' &&
	    !__builtin_mul_overflow(value, 10, &value) &&
	    !__builtin_add_overflow(
		value, (uint64_t)(text.data[at] - '0'), &value) &&
	    value <= INT64_MAX)
		at++;
	if (at == 0 || at < text.bytes)
		return err_set(err, EX_DATAERR,
		    "field '%s': '%.*s': wants an integer from 0 to 2^63 - 1",
		    field->name, (int)(text.bytes < 40 ? text.bytes : 40),
		    (const char *)text.data);
	*number = value;
	return 0;
}
