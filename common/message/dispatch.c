#include "message/dispatch.h"

#include "message/field.h"
#include "stream/guard.h"
#include "stream/pack.h"

enum {
	VERSION,
	ID,
	DIGEST,
	CONVERSATION,
	SEQ,
	MESSAGE,
	SENDER,
	CREATED,
	CHUNK,
	TO,
	PAYLOAD,
	FIELD_COUNT
};

static const struct field fields[FIELD_COUNT] = {FIELD("v"), FIELD("id"),
    FIELD("digest"), FIELD("conversation_id"), FIELD("conversation_seq"),
    FIELD("message_id"), FIELD("sender"), FIELD("created_at"), FIELD("chunk"),
    FIELD("to"), FIELD("payload")};

struct ident
ident_read(struct cursor *cursor)
{
	struct ident ident;

	ident.bytes = cursor_str_or_bin(cursor, &ident.is_bin);
	if (ident.bytes.bytes < IDENT_BYTES_MIN ||
	    ident.bytes.bytes > IDENT_BYTES_MAX)
		cursor->bad = true;
	return ident;
}

void
ident_pack(struct buf *buf, struct ident ident)
{
	if (ident.is_bin)
		pack_bin(buf, ident.bytes);
	else
		pack_str(buf, ident.bytes);
}

static void
read_hash(struct cursor *cursor, uint8_t *hash)
{
	struct slice bytes = cursor_bin(cursor);

	if (bytes.bytes == HASH_BYTES)
		memcpy(hash, bytes.data, HASH_BYTES);
	else
		cursor->bad = true;
}

uint64_t
number_read(struct cursor *cursor, uint64_t least)
{
	uint64_t number = cursor_u64(cursor);

	if (number < least || number > SEQ_MAX)
		cursor->bad = true;
	return number;
}

static void
read_chunk(struct cursor *cursor, struct dispatch *dispatch)
{
	uint32_t beyond = cursor_array_of(cursor, 2);

	dispatch->chunk = cursor_u32(cursor);
	dispatch->chunk_count = cursor_u32(cursor);
	cursor_skip(cursor, beyond);
	if (dispatch->chunk < 1 || dispatch->chunk > dispatch->chunk_count)
		cursor->bad = true;
}

static void
read_to(struct cursor *cursor, struct dispatch *dispatch)
{
	dispatch->to_count = cursor_array(cursor);
	dispatch->to = *cursor;
	if (dispatch->to_count == 0)
		cursor->bad = true;
	for (uint32_t i = 0; i < dispatch->to_count && !cursor->bad; i++)
		ident_read(cursor);
	dispatch->to.end = cursor->at;
}

static void
read_field(struct cursor *cursor, int field, struct dispatch *dispatch)
{
	if (field == ID)
		read_hash(cursor, dispatch->id);
	else if (field == DIGEST)
		read_hash(cursor, dispatch->digest);
	else if (field == CONVERSATION)
		dispatch->conversation = ident_read(cursor);
	else if (field == SEQ)
		dispatch->conversation_seq = number_read(cursor, 1);
	else if (field == MESSAGE)
		dispatch->message = ident_read(cursor);
	else if (field == SENDER)
		dispatch->sender = ident_read(cursor);
	else if (field == CREATED)
		dispatch->created_at_ms = number_read(cursor, 0);
	else if (field == CHUNK)
		read_chunk(cursor, dispatch);
	else if (field == TO)
		read_to(cursor, dispatch);
	else
		dispatch->payload = cursor_raw(cursor);
}

/* The other fields stand together, sorted by name, so that one slice holds
 * them; `last` is the name of the one before. */
static int
keep_other(struct cursor *cursor, struct slice pair, struct slice name,
    struct slice *last, struct dispatch *dispatch, struct err *err)
{
	struct slice *others = &dispatch->others;

	cursor_skip(cursor, 1);
	pair.bytes = (size_t)(cursor->at - pair.data);
	if (dispatch->other_count == 0)
		*others = (struct slice){pair.data, 0};
	else if (others->data + others->bytes != pair.data ||
	    slice_compare(*last, name) >= 0)
		return err_set(err, EX_DATAERR,
		    "dispatch: its other fields aren't together and sorted");
	others->bytes += pair.bytes;
	dispatch->other_count++;
	*last = name;
	return 0;
}

static int
read_version(struct cursor *cursor, struct err *err)
{
	uint64_t version = cursor_u64(cursor);

	if (cursor->bad || version == DISPATCH_VERSION)
		return 0;
	return err_set(err, EX_DATAERR, "dispatch: version %llu, wants %d",
	    (unsigned long long)version, DISPATCH_VERSION);
}

/* Takes one pair of the map. */
static int
read_pair(struct cursor *cursor, uint32_t *seen, int *due, struct slice *last,
    struct dispatch *dispatch, struct err *err)
{
	const uint8_t *start = cursor->at;
	struct slice name = cursor_str(cursor);
	int field = field_find(fields, FIELD_COUNT, *due, name);

	if (cursor->bad)
		return err_set(
		    err, EX_DATAERR, "dispatch: a field's name isn't a str");
	if (field == FIELD_UNKNOWN)
		return keep_other(cursor, (struct slice){start, 0}, name, last,
		    dispatch, err);
	if ((*seen & 1U << field) != 0)
		return err_set(err, EX_DATAERR, "dispatch: '%s' stands twice",
		    fields[field].name);
	*seen |= 1U << field;
	*due = field + 1;
	if (field == VERSION) {
		if (read_version(cursor, err) < 0)
			return -1;
	} else {
		read_field(cursor, field, dispatch);
	}
	if (cursor->bad)
		return err_set(err, EX_DATAERR,
		    "dispatch: '%s' isn't of its type or range",
		    fields[field].name);
	return 0;
}

int
dispatch_decode(struct slice value, struct dispatch *dispatch, struct err *err)
{
	struct cursor cursor;
	struct slice last = {0};
	uint32_t pairs, seen = 0;
	int due = 0;

	*dispatch = (struct dispatch){0};
	if (guard_walk(value, err) < 0)
		return err_prefix(err, "dispatch");
	cursor = cursor_of(value);
	if (cursor_peek(&cursor) != MP_MAP)
		return err_set(err, EX_DATAERR, "dispatch: not a msgpack map");
	for (pairs = cursor_map(&cursor); pairs > 0; pairs--)
		if (read_pair(&cursor, &seen, &due, &last, dispatch, err) < 0)
			return -1;
	if (field_check_seen(
		fields, FIELD_COUNT, seen, (1U << FIELD_COUNT) - 1, err) < 0)
		return err_prefix(err, "dispatch");
	return 0;
}

int
dispatch_next_recipient(struct dispatch *dispatch, struct ident *user)
{
	if (dispatch->to_count == 0)
		return 0;
	*user = ident_read(&dispatch->to);
	dispatch->to_count--;
	return 1;
}

static void
pack_hash(struct buf *buf, int field, const uint8_t *hash)
{
	field_pack(buf, &fields[field]);
	pack_bin(buf, (struct slice){hash, HASH_BYTES});
}

static void
pack_ident(struct buf *buf, int field, struct ident ident)
{
	field_pack(buf, &fields[field]);
	ident_pack(buf, ident);
}

static void
pack_number(struct buf *buf, int field, uint64_t number)
{
	field_pack(buf, &fields[field]);
	pack_u64(buf, number);
}

size_t
dispatch_pack_front(struct buf *buf, const struct dispatch *dispatch)
{
	size_t start = buf->bytes, id_end;

	pack_map(buf, FIELD_COUNT + dispatch->other_count);
	pack_number(buf, VERSION, DISPATCH_VERSION);
	pack_hash(buf, ID, dispatch->id);
	id_end = buf->bytes;
	pack_hash(buf, DIGEST, dispatch->digest);
	pack_ident(buf, CONVERSATION, dispatch->conversation);
	pack_number(buf, SEQ, dispatch->conversation_seq);
	pack_ident(buf, MESSAGE, dispatch->message);
	pack_ident(buf, SENDER, dispatch->sender);
	pack_number(buf, CREATED, dispatch->created_at_ms);
	return id_end - HASH_BYTES - start;
}

void
dispatch_pack_recipients(struct buf *buf, const struct dispatch *dispatch)
{
	const struct cursor *to = &dispatch->to;

	field_pack(buf, &fields[CHUNK]);
	pack_array(buf, 2);
	pack_u64(buf, dispatch->chunk);
	pack_u64(buf, dispatch->chunk_count);
	field_pack(buf, &fields[TO]);
	pack_array(buf, dispatch->to_count);
	pack_raw(buf, (struct slice){to->at, (size_t)(to->end - to->at)});
}

void
dispatch_pack_back(struct buf *buf, const struct dispatch *dispatch)
{
	field_pack(buf, &fields[PAYLOAD]);
	pack_raw(buf, dispatch->payload);
	pack_raw(buf, dispatch->others);
}

void
dispatch_pack(struct buf *buf, const struct dispatch *dispatch)
{
	dispatch_pack_front(buf, dispatch);
	dispatch_pack_recipients(buf, dispatch);
	dispatch_pack_back(buf, dispatch);
}
