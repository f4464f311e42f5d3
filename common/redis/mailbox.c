#include "redis/mailbox.h"

#include <stdio.h>

#include "message/hash.h"
#include "stream/guard.h"
#include "stream/pack.h"

int
mailbox_check_prefix(const char *prefix, struct err *err)
{
	size_t bytes = strlen(prefix);

	if (bytes > MAILBOX_PREFIX_MAX)
		return err_set(err, EX_USAGE,
		    "--prefix: %zu bytes, takes at most %d", bytes,
		    MAILBOX_PREFIX_MAX);
	for (size_t i = 0; i < bytes; i++)
		if (prefix[i] <= ' ' || prefix[i] > '~' || prefix[i] == '{' ||
		    prefix[i] == '}')
			return err_set(err, EX_USAGE,
			    "--prefix: '%s': takes printable ASCII without "
			    "blanks and braces",
			    prefix);
	return 0;
}

int
mailbox_check_id(const char *option, const char *id, struct err *err)
{
	if (id == NULL || strlen(id) <= IDENT_BYTES_MAX)
		return 0;
	return err_set(err, EX_USAGE, "%s: %zu bytes, an id has at most %d",
	    option, strlen(id), IDENT_BYTES_MAX);
}

void
stem_init(struct stem *stem, const char *prefix, uint32_t partition)
{
	stem->bytes = (size_t)snprintf(stem->text, sizeof(stem->text),
	    "%.*s:{%lu}:", MAILBOX_PREFIX_MAX, prefix,
	    (unsigned long)partition);
}

void
mailbox_key(struct commands *commands, const struct stem *stem,
    const char *kind, struct slice id)
{
	const struct slice pieces[] = {
	    {(const uint8_t *)stem->text, stem->bytes}, slice_of(kind), id};

	commands_pieces(commands, pieces, 3);
}

uint32_t
mailbox_partition(struct slice user, uint32_t partitions)
{
	return hash_partition(user, partitions);
}

void
mark_text(
    const struct mailbox *mailbox, uint32_t place, char text[MARK_TEXT_BYTES])
{
	snprintf(text, MARK_TEXT_BYTES, "%s partitions=%lu nodes=%lu place=%lu",
	    mailbox->topic, (unsigned long)mailbox->partitions,
	    (unsigned long)mailbox->nodes, (unsigned long)place);
}

void
mark_ask(struct commands *commands, const struct stem *stem)
{
	commands_begin(commands, 5, "ZRANGE");
	mailbox_key(commands, stem, "mark", (struct slice){0});
	commands_u64(commands, 0);
	commands_u64(commands, 1);
	commands_text(commands, "WITHSCORES");
}

/* A member must be the text, or end with it where the topic isn't known. */
static bool
is_mark_text(
    struct slice member, const struct mailbox *mailbox, const char *text)
{
	size_t bytes = strlen(text);

	if (*mailbox->topic != '\0')
		return slice_is(member, text);
	return member.bytes > bytes &&
	    memcmp(member.data + member.bytes - bytes, text, bytes) == 0;
}

int
mark_take(const struct reply *reply, const struct stem *stem,
    const struct mailbox *mailbox, uint32_t place, uint64_t *mark,
    struct err *err)
{
	char text[MARK_TEXT_BYTES];

	*mark = 0;
	if (reply->type != REPLY_ARRAY || reply->count % 2 != 0)
		return err_set(err, EX_DATAERR, "%.*smark: not a mark",
		    (int)stem->bytes, stem->text);
	mark_text(mailbox, place, text);
	for (size_t i = 0; i < reply->count; i += 2) {
		struct slice member = reply->items[i].text;

		if (!is_mark_text(member, mailbox, text))
			return err_set(err, EX_CONFIG,
			    "%.*smark: it is of '%.*s', wants '%s%s'",
			    (int)stem->bytes, stem->text, (int)member.bytes,
			    (const char *)member.data,
			    *mailbox->topic == '\0' ? "TOPIC" : "", text);
	}
	if (reply->count > 0 && !reply_number(&reply->items[1], mark))
		return err_set(err, EX_DATAERR, "%.*smark: not an offset",
		    (int)stem->bytes, stem->text);
	return 0;
}

void
log_field(uint64_t seq, uint32_t chunk, char text[FIELD_TEXT_BYTES])
{
	if (chunk == 1)
		snprintf(
		    text, FIELD_TEXT_BYTES, "%llu", (unsigned long long)seq);
	else
		snprintf(text, FIELD_TEXT_BYTES, "%llu/%lu",
		    (unsigned long long)seq, (unsigned long)chunk);
}

void
log_value(struct commands *commands, const struct dispatch *dispatch,
    int64_t offset, struct buf *scratch)
{
	bool body = dispatch->chunk == 1;
	struct slice pieces[4] = {0};
	size_t head_bytes;

	buf_reset(scratch);
	pack_array(scratch, body ? 7 : 2);
	pack_i64(scratch, offset);
	pack_bin(scratch, (struct slice){dispatch->digest, HASH_BYTES});
	if (body) {
		pack_str(scratch, dispatch->message.bytes);
		pack_str(scratch, dispatch->sender.bytes);
		pack_u64(scratch, dispatch->created_at_ms);
	}
	head_bytes = scratch->bytes;
	if (body) {
		pack_map(scratch, dispatch->other_count);
		pieces[1] = dispatch->payload;
		pieces[2] = (struct slice){
		    scratch->data + head_bytes, scratch->bytes - head_bytes};
		pieces[3] = dispatch->others;
	}
	pieces[0] = (struct slice){scratch->data, head_bytes};
	commands_pieces(commands, pieces, 4);
	commands->bytes.failed |= scratch->failed;
}

int
claim_decode(struct slice value, struct claim *claim, struct err *err)
{
	struct cursor cursor;
	uint32_t items;

	*claim = (struct claim){0};
	/* Its map of other fields is a level more than a dispatch has. */
	if (guard_walk_to(value, GUARD_DEPTH_MAX + 1, err) < 0)
		return err_prefix(err, "claim");
	cursor = cursor_of(value);
	items = cursor_array_of(&cursor, 2);
	claim->offset = cursor_i64(&cursor);
	claim->digest = cursor_bin(&cursor);
	if (items >= 4) {
		claim->has_body = true;
		claim->message = cursor_str(&cursor);
		claim->sender = cursor_str(&cursor);
		claim->created_at_ms = cursor_u64(&cursor);
		claim->payload = cursor_raw(&cursor);
		items -= 4;
	}
	cursor_skip(&cursor, items);
	if (!cursor_done(&cursor) || claim->digest.bytes != HASH_BYTES ||
	    claim->offset < 0 || claim->offset > MAILBOX_OFFSET_MAX)
		return err_set(err, EX_DATAERR, "not a claim");
	return 0;
}

void
reference_pack(
    struct buf *buf, struct slice conversation, uint64_t seq, bool own)
{
	pack_array(buf, own ? 3 : 2);
	pack_str(buf, conversation);
	pack_u64(buf, seq);
	if (own)
		pack_bool(buf, true);
}

int
reference_decode(
    struct slice member, struct reference *reference, struct err *err)
{
	struct cursor cursor = {0};
	uint32_t items = 0;

	*reference = (struct reference){0};
	if (guard_walk(member, err) < 0)
		return err_prefix(err, "reference");
	cursor = cursor_of(member);
	items = cursor_array_of(&cursor, 2);
	reference->conversation = cursor_str(&cursor);
	reference->seq = cursor_u64(&cursor);
	if (items == 1)
		reference->own = cursor_bool(&cursor);
	if (!cursor_done(&cursor) || reference->seq > SEQ_MAX)
		return err_set(err, EX_DATAERR, "not a reference");
	return 0;
}

void
quarantine_add(struct commands *commands, const struct stem *stem,
    const uint8_t *id, const uint8_t *digest, int64_t offset,
    const char *reason, struct slice value, bool counted)
{
	const struct slice field[] = {{id, HASH_BYTES}, {digest, HASH_BYTES}};
	struct slice none = {0};
	struct buf buf;

	commands_begin(commands, 4, counted ? "HSETNX" : "HINCRBY");
	mailbox_key(commands, stem, "quarantine", none);
	if (!counted) {
		commands_text(commands, "dropped");
		commands_u64(commands, 1);
		return;
	}
	commands_pieces(commands, field, 2);
	if (value.bytes > QUARANTINE_VALUE_BYTES)
		value.bytes = QUARANTINE_VALUE_BYTES;
	buf_init(&buf);
	pack_array(&buf, 3);
	pack_i64(&buf, offset);
	pack_text(&buf, reason);
	pack_bin(&buf, value);
	commands_slice(commands, slice_of_buf(&buf));
	commands->bytes.failed |= buf.failed;
	buf_release(&buf);
}
