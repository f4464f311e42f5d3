#include "stream/cursor.h"

#include <limits.h>

static uint64_t
read_big_endian(const uint8_t *at, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static void
set_int(struct mp_head *head, int64_t value)
{
	head->type = value < 0 ? MP_INT : MP_UINT;
	head->value.i = value;
}

static void
set_float(struct mp_head *head, uint64_t bits, size_t bytes)
{
	uint32_t half = (uint32_t)bits;
	float single;

	head->type = MP_FLOAT;
	if (bytes == 8) {
		memcpy(&head->value.f, &bits, sizeof(head->value.f));
		return;
	}
	memcpy(&single, &half, sizeof(single));
	head->value.f = (double)single;
}

/* The heads that are one byte: numbers, short str, array and map. */
static bool
read_fixed(uint8_t byte, struct mp_head *head)
{
	if (byte <= 0x7f || byte >= 0xe0)
		set_int(head, (int8_t)byte);
	else if (byte <= 0x8f)
		*head = (struct mp_head){.type = MP_MAP, .count = byte & 15};
	else if (byte <= 0x9f)
		*head = (struct mp_head){.type = MP_ARRAY, .count = byte & 15};
	else if (byte <= 0xbf)
		*head = (struct mp_head){.type = MP_STR, .count = byte & 31};
	else if (byte == 0xc0)
		head->type = MP_NIL;
	else if (byte == 0xc2 || byte == 0xc3)
		*head =
		    (struct mp_head){.type = MP_BOOL, .value.b = byte == 0xc3};
	else
		return false;
	return true;
}

/* What follows the first byte, from c4 to df: its type, and the bytes of
 * the number behind it; ext types have one more, their type. */
static const struct {
	uint8_t type, bytes;
} sized_heads[] = {
    {MP_BIN, 1}, {MP_BIN, 2}, {MP_BIN, 4}, /* c4 */
    {MP_EXT, 1}, {MP_EXT, 2}, {MP_EXT, 4}, /* c7 */
    {MP_FLOAT, 4}, {MP_FLOAT, 8}, /* ca */
    {MP_UINT, 1}, {MP_UINT, 2}, {MP_UINT, 4}, {MP_UINT, 8}, /* cc */
    {MP_INT, 1}, {MP_INT, 2}, {MP_INT, 4}, {MP_INT, 8}, /* d0 */
    {MP_EXT, 0}, {MP_EXT, 0}, {MP_EXT, 0}, {MP_EXT, 0}, {MP_EXT, 0}, /* d4 */
    {MP_STR, 1}, {MP_STR, 2}, {MP_STR, 4}, /* d9 */
    {MP_ARRAY, 2}, {MP_ARRAY, 4}, /* dc */
    {MP_MAP, 2}, {MP_MAP, 4}, /* de */
};

static int64_t
sign_extend(uint64_t value, size_t bytes)
{
	unsigned shift = (unsigned)(64 - 8 * bytes);

	return (int64_t)(value << shift) >> shift;
}

static bool
read_sized(
    uint8_t byte, const uint8_t **at, const uint8_t *end, struct mp_head *head)
{
	size_t bytes = sized_heads[byte - 0xc4].bytes;
	uint64_t value;

	head->type = (enum mp_type)sized_heads[byte - 0xc4].type;
	if ((size_t)(end - *at) < bytes + (head->type == MP_EXT))
		return false;
	value = read_big_endian(*at, bytes);
	*at += bytes;
	head->count = (uint32_t)value;
	if (head->type == MP_UINT)
		head->value.u = value;
	else if (head->type == MP_INT)
		set_int(head, sign_extend(value, bytes));
	else if (head->type == MP_FLOAT)
		set_float(head, value, bytes);
	else if (head->type == MP_EXT) {
		if (bytes == 0)
			head->count = 1U << (byte - 0xd4);
		head->ext = *(*at)++;
	}
	return true;
}

bool
mp_read_head(const uint8_t **at, const uint8_t *end, struct mp_head *head)
{
	uint8_t byte;

	if (*at >= end)
		return false;
	byte = *(*at)++;
	if (byte >= 0xc4 && byte <= 0xdf)
		return read_sized(byte, at, end, head);
	return read_fixed(byte, head);
}

struct cursor
cursor_of(struct slice bytes)
{
	return (struct cursor){bytes.data, bytes.data + bytes.bytes, false};
}

bool
cursor_done(const struct cursor *cursor)
{
	return !cursor->bad && cursor->at == cursor->end;
}

enum mp_type
cursor_peek(const struct cursor *cursor)
{
	const uint8_t *at = cursor->at;
	struct mp_head head = {0};

	if (cursor->bad || !mp_read_head(&at, cursor->end, &head))
		return MP_NONE;
	return head.type;
}

/* Reads a head that must be of one of two types; a zero one when bad. */
static struct mp_head
take(struct cursor *cursor, enum mp_type type, enum mp_type other)
{
	struct mp_head head = {0};
	const uint8_t *at = cursor->at;

	if (cursor->bad || !mp_read_head(&at, cursor->end, &head) ||
	    (head.type != type && head.type != other)) {
		cursor->bad = true;
		return (struct mp_head){0};
	}
	cursor->at = at;
	return head;
}

static struct slice
take_bytes(struct cursor *cursor, const struct mp_head *head)
{
	struct slice bytes = {cursor->at, head->count};

	if (head->type == MP_NONE || head->type == MP_NIL)
		return (struct slice){NULL, 0};
	if ((size_t)(cursor->end - cursor->at) < head->count) {
		cursor->bad = true;
		return (struct slice){NULL, 0};
	}
	cursor->at += head->count;
	return bytes;
}

uint64_t
cursor_u64(struct cursor *cursor)
{
	return take(cursor, MP_UINT, MP_UINT).value.u;
}

int64_t
cursor_i64(struct cursor *cursor)
{
	struct mp_head head = take(cursor, MP_UINT, MP_INT);

	if (head.type == MP_UINT && head.value.u > INT64_MAX) {
		cursor->bad = true;
		return 0;
	}
	return head.value.i;
}

uint32_t
cursor_u32(struct cursor *cursor)
{
	uint64_t value = cursor_u64(cursor);

	if (value <= UINT32_MAX)
		return (uint32_t)value;
	cursor->bad = true;
	return 0;
}

int32_t
cursor_i32(struct cursor *cursor)
{
	int64_t value = cursor_i64(cursor);

	if (value >= INT32_MIN && value <= INT32_MAX)
		return (int32_t)value;
	cursor->bad = true;
	return 0;
}

double
cursor_f64(struct cursor *cursor)
{
	return take(cursor, MP_FLOAT, MP_FLOAT).value.f;
}

bool
cursor_bool(struct cursor *cursor)
{
	return take(cursor, MP_BOOL, MP_BOOL).value.b;
}

void
cursor_nil(struct cursor *cursor)
{
	take(cursor, MP_NIL, MP_NIL);
}

struct slice
cursor_str(struct cursor *cursor)
{
	struct mp_head head = take(cursor, MP_STR, MP_STR);

	return take_bytes(cursor, &head);
}

struct slice
cursor_bin(struct cursor *cursor)
{
	struct mp_head head = take(cursor, MP_BIN, MP_BIN);

	return take_bytes(cursor, &head);
}

struct slice
cursor_str_or_nil(struct cursor *cursor)
{
	struct mp_head head = take(cursor, MP_STR, MP_NIL);

	return take_bytes(cursor, &head);
}

struct slice
cursor_bin_or_nil(struct cursor *cursor)
{
	struct mp_head head = take(cursor, MP_BIN, MP_NIL);

	return take_bytes(cursor, &head);
}

struct slice
cursor_str_or_bin(struct cursor *cursor, bool *is_bin)
{
	struct mp_head head = take(cursor, MP_STR, MP_BIN);

	*is_bin = head.type == MP_BIN;
	return take_bytes(cursor, &head);
}

uint32_t
cursor_array(struct cursor *cursor)
{
	return take(cursor, MP_ARRAY, MP_ARRAY).count;
}

uint32_t
cursor_map(struct cursor *cursor)
{
	return take(cursor, MP_MAP, MP_MAP).count;
}

uint32_t
cursor_array_of(struct cursor *cursor, uint32_t count)
{
	uint32_t items = cursor_array(cursor);

	if (items >= count)
		return items - count;
	cursor->bad = true;
	return 0;
}

struct slice
cursor_raw(struct cursor *cursor)
{
	const uint8_t *start = cursor->at;

	cursor_skip(cursor, 1);
	if (cursor->bad)
		return (struct slice){NULL, 0};
	return (struct slice){start, (size_t)(cursor->at - start)};
}

void
cursor_skip(struct cursor *cursor, uint32_t count)
{
	uint64_t left = count;
	struct mp_head head;

	while (left > 0 && !cursor->bad) {
		head = (struct mp_head){0};
		if (!mp_read_head(&cursor->at, cursor->end, &head)) {
			cursor->bad = true;
			return;
		}
		left--;
		if (head.type == MP_ARRAY)
			left += head.count;
		else if (head.type == MP_MAP)
			left += 2 * (uint64_t)head.count;
		else if (head.type == MP_STR || head.type == MP_BIN ||
		    head.type == MP_EXT)
			take_bytes(cursor, &head);
	}
}
