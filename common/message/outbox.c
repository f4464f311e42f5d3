#include "message/outbox.h"

#include <stdlib.h>

#include "message/field.h"
#include "stream/guard.h"
#include "stream/pack.h"

enum {
	MESSAGE,
	CONVERSATION,
	SEQ,
	SENDER,
	CREATED,
	PAYLOAD,
	RECIPIENTS,
	MEMBERS,
	FIELD_COUNT
};

static const struct field fields[FIELD_COUNT] = {FIELD("message_id"),
    FIELD("conversation_id"), FIELD("conversation_seq"), FIELD("sender"),
    FIELD("created_at"), FIELD("payload"), FIELD("recipients"),
    FIELD("members")};

/* What the message for a wrong field says it wants. */
static const char *const wants[FIELD_COUNT] = {"an id of 1 to 255 bytes",
    "an id of 1 to 255 bytes", "an integer from 1 to 2^53 - 1",
    "an id of 1 to 255 bytes", "an integer from 0 to 2^53 - 1", "a value",
    "an array of ids of 1 to 255 bytes", "a text"};

/* Names that a dispatch has beside the message's. */
static const struct field reserved[] = {
    FIELD("v"), FIELD("id"), FIELD("digest"), FIELD("chunk"), FIELD("to")};

#define RESERVED_COUNT ((int)(sizeof(reserved) / sizeof(reserved[0])))

void
outbox_init(struct outbox *outbox)
{
	*outbox = (struct outbox){0};
	json_init(&outbox->json);
	buf_init(&outbox->converted);
	buf_init(&outbox->others);
}

void
outbox_release(struct outbox *outbox)
{
	json_release(&outbox->json);
	buf_release(&outbox->converted);
	buf_release(&outbox->others);
	free(outbox->pairs);
	free(outbox->recipients);
	outbox_init(outbox);
}

static int
reserve_recipients(struct outbox *outbox, uint32_t count, struct err *err)
{
	struct ident *all;

	if (count == 0)
		return err_set(err, EX_DATAERR, "no recipients");
	if (count > OUTBOX_RECIPIENTS_MAX)
		return err_set(err, EX_DATAERR,
		    "%lu recipients, the limit is %d", (unsigned long)count,
		    OUTBOX_RECIPIENTS_MAX);
	if (count <= outbox->recipient_room)
		return 0;
	all = realloc(outbox->recipients, count * sizeof(*all));
	if (all == NULL)
		return err_memory(err, "recipients");
	outbox->recipients = all;
	outbox->recipient_room = count;
	return 0;
}

/* By bytes; a str before the bin of the same bytes, so that which one stays
 * doesn't depend on the order they came in. */
static int
compare_idents(const void *a, const void *b)
{
	const struct ident *left = a, *right = b;
	int order = slice_compare(left->bytes, right->bytes);

	return order != 0 ? order : (int)left->is_bin - (int)right->is_bin;
}

/* Sorts them, each once; returns how many are left. */
static uint32_t
sort_idents(struct ident *all, uint32_t count)
{
	uint32_t i = 1, kept = 1;

	while (i < count && compare_idents(&all[i - 1], &all[i]) < 0)
		i++;
	if (i < count)
		qsort(all, count, sizeof(*all), compare_idents);
	for (i = 1; i < count; i++)
		if (!slice_equal(all[i].bytes, all[kept - 1].bytes))
			all[kept++] = all[i];
	return kept;
}

static int
read_recipients(struct outbox *outbox, struct cursor *cursor,
    struct outbox_message *message, struct err *err)
{
	uint32_t count = cursor_array(cursor);

	if (cursor->bad)
		return 0;
	if (reserve_recipients(outbox, count, err) < 0)
		return -1;
	for (uint32_t i = 0; i < count; i++)
		outbox->recipients[i] = ident_read(cursor);
	message->recipients = outbox->recipients;
	if (!cursor->bad)
		message->recipient_count =
		    sort_idents(outbox->recipients, count);
	return 0;
}

static int
read_field(struct outbox *outbox, struct cursor *cursor, int field,
    struct outbox_message *message, struct err *err)
{
	if (field == MESSAGE)
		message->message = ident_read(cursor);
	else if (field == CONVERSATION)
		message->conversation = ident_read(cursor);
	else if (field == SEQ)
		message->conversation_seq = number_read(cursor, 1);
	else if (field == SENDER)
		message->sender = ident_read(cursor);
	else if (field == CREATED)
		message->created_at_ms = number_read(cursor, 0);
	else if (field == PAYLOAD)
		message->payload = cursor_raw(cursor);
	else if (field == MEMBERS)
		cursor_skip(cursor, 1);
	else if (read_recipients(outbox, cursor, message, err) < 0)
		return -1;
	if (cursor->bad)
		return err_set(err, EX_DATAERR, "field '%s': wants %s",
		    fields[field].name, wants[field]);
	return 0;
}

static int
keep_other(struct outbox *outbox, struct cursor *cursor, struct slice name,
    struct err *err)
{
	uint32_t room = outbox->pair_room == 0 ? 16 : 2 * outbox->pair_room;
	struct outbox_pair *pairs;

	if (field_find(reserved, RESERVED_COUNT, 0, name) != FIELD_UNKNOWN)
		return err_set(err, EX_DATAERR,
		    "field '%.*s': a name that the dispatch itself has",
		    (int)name.bytes, (const char *)name.data);
	if (outbox->pair_count == outbox->pair_room) {
		pairs = realloc(outbox->pairs, room * sizeof(*pairs));
		if (pairs == NULL)
			return err_memory(err, "fields");
		outbox->pairs = pairs;
		outbox->pair_room = room;
	}
	outbox->pairs[outbox->pair_count++] =
	    (struct outbox_pair){name, cursor_raw(cursor)};
	return 0;
}

static int
compare_pairs(const void *a, const void *b)
{
	const struct outbox_pair *left = a, *right = b;

	return slice_compare(left->name, right->name);
}

/* How much of a name goes into a message. */
static int
name_length(const struct outbox_pair *pair)
{
	return pair->name.bytes < 64 ? (int)pair->name.bytes : 64;
}

/* Sorts the other fields and packs their names anew, so that equal messages
 * have equal bytes here. */
static int
pack_others(
    struct outbox *outbox, struct outbox_message *message, struct err *err)
{
	struct outbox_pair *pairs = outbox->pairs;
	uint32_t count = outbox->pair_count;

	buf_reset(&outbox->others);
	if (count > 1)
		qsort(pairs, count, sizeof(*pairs), compare_pairs);
	for (uint32_t i = 0; i < count; i++) {
		if (i > 0 && slice_equal(pairs[i].name, pairs[i - 1].name))
			return err_set(err, EX_DATAERR,
			    "field '%.*s' stands twice", name_length(&pairs[i]),
			    (const char *)pairs[i].name.data);
		pack_str(&outbox->others, pairs[i].name);
		pack_raw(&outbox->others, pairs[i].value);
	}
	message->others = slice_of_buf(&outbox->others);
	message->other_count = count;
	return outbox->others.failed ? err_memory(err, "fields") : 0;
}

static int
read_pair(struct outbox *outbox, struct cursor *cursor, uint32_t *seen,
    int *due, struct outbox_message *message, struct err *err)
{
	struct slice name = cursor_str(cursor);
	int field = field_find(fields, FIELD_COUNT, *due, name);

	if (cursor->bad)
		return err_set(err, EX_DATAERR, "a field's name isn't a str");
	if (field == FIELD_UNKNOWN)
		return keep_other(outbox, cursor, name, err);
	if ((*seen & 1U << field) != 0)
		return err_set(err, EX_DATAERR, "field '%s' stands twice",
		    fields[field].name);
	*seen |= 1U << field;
	*due = field + 1;
	return read_field(outbox, cursor, field, message, err);
}

static int
check_seen(uint32_t seen, struct err *err)
{
	const uint32_t always = (1U << RECIPIENTS) - 1;
	bool recipients = (seen & 1U << RECIPIENTS) != 0;
	bool members = (seen & 1U << MEMBERS) != 0;

	if (field_check_seen(fields, FIELD_COUNT, seen, always, err) < 0)
		return -1;
	if (recipients && members)
		return err_set(err, EX_DATAERR,
		    "fields 'recipients' and 'members': one or the other");
	if (members)
		return err_set(err, EX_DATAERR,
		    "field 'members': membership snapshots can't be planned "
		    "by this version");
	if (!recipients)
		return err_set(
		    err, EX_DATAERR, "no field 'recipients' or 'members'");
	return 0;
}

static int
decode_map(struct outbox *outbox, struct slice map,
    struct outbox_message *message, struct err *err)
{
	struct cursor cursor = cursor_of(map);
	uint32_t seen = 0;
	int due = 0;

	outbox->pair_count = 0;
	for (uint32_t left = cursor_map(&cursor); left > 0; left--)
		if (read_pair(outbox, &cursor, &seen, &due, message, err) < 0)
			return -1;
	if (check_seen(seen, err) < 0)
		return -1;
	return pack_others(outbox, message, err);
}

static bool
is_json(uint8_t first)
{
	return first == '{' || first == ' ' || first == '\t' || first == '\n' ||
	    first == '\r';
}

static bool
is_map(uint8_t first)
{
	return (first & 0xf0) == 0x80 || first == 0xde || first == 0xdf;
}

int
outbox_decode(struct outbox *outbox, struct slice value,
    struct outbox_message *message, struct err *err)
{
	struct buf *converted = &outbox->converted;

	*message = (struct outbox_message){0};
	if (value.bytes == 0)
		return err_set(err, EX_DATAERR, "%s value",
		    value.data == NULL ? "null" : "empty");
	if (is_json(value.data[0])) {
		buf_reset(converted);
		if (json_to_msgpack(&outbox->json, value, converted, err) < 0)
			return -1;
		return decode_map(
		    outbox, slice_of_buf(converted), message, err);
	}
	if (!is_map(value.data[0]))
		return err_set(err, EX_DATAERR,
		    "not a message: starts with 0x%02x, wants a map in "
		    "msgpack or JSON",
		    value.data[0]);
	if (guard_walk(value, err) < 0)
		return -1;
	return decode_map(outbox, value, message, err);
}

void
outbox_pack(struct buf *buf, const struct outbox_message *message)
{
	pack_map(buf, RECIPIENTS + 1 + message->other_count);
	field_pack(buf, &fields[MESSAGE]);
	ident_pack(buf, message->message);
	field_pack(buf, &fields[CONVERSATION]);
	ident_pack(buf, message->conversation);
	field_pack(buf, &fields[SEQ]);
	pack_u64(buf, message->conversation_seq);
	field_pack(buf, &fields[SENDER]);
	ident_pack(buf, message->sender);
	field_pack(buf, &fields[CREATED]);
	pack_u64(buf, message->created_at_ms);
	field_pack(buf, &fields[PAYLOAD]);
	pack_raw(buf, message->payload);
	field_pack(buf, &fields[RECIPIENTS]);
	pack_array(buf, message->recipient_count);
	for (uint32_t i = 0; i < message->recipient_count; i++)
		ident_pack(buf, message->recipients[i]);
	pack_raw(buf, message->others);
}
