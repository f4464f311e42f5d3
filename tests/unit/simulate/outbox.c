/* The records of the outbox, and what each must become. */
#include <stdio.h>
#include <stdlib.h>

#include "message/dead.h"
#include "message/hash.h"
#include "world.h"

#define DISPATCH_BYTES_MAX 100000

static struct outbox outbox;
static struct plan plan;
static struct buf value, headers;

static uint64_t
hash_of(struct slice bytes)
{
	uint8_t hash[HASH_BYTES];
	uint64_t first;

	hash_bytes(bytes, hash);
	memcpy(&first, hash, sizeof(first));
	return first;
}

static int
bury(const struct record *record, const struct range *source,
    struct buf *records, const char *reason, struct err *err)
{
	struct dispatch_record letter;

	if (dead_make(record, source, DEAD_TOPIC, reason, DISPATCH_BYTES_MAX,
		&headers, &letter, err) < 0)
		return -1;
	dispatch_record_pack(records, &letter);
	return 1;
}

/* As fanout-plan does. */
int
outbox_plan(const struct record *record, const struct range *source,
    struct buf *records, struct err *err)
{
	struct dispatch_record dispatch = {
	    .src = record->src, .offset = record->offset};
	struct outbox_message message;
	uint32_t partition;
	int count = 0, more;
	struct err why;

	if (outbox_decode(&outbox, record->value, &message, &why) < 0 ||
	    plan_message(&plan, &message, 0, &why) < 0)
		return bury(record, source, records, why.text, err);
	dispatch.key = message.conversation.bytes;
	for (;; count++) {
		buf_reset(&value);
		more = plan_next(&plan, &partition, &value, err);
		if (more <= 0)
			return more < 0 ? -1 : count;
		dispatch.partition = (int32_t)partition;
		dispatch.value = slice_of_buf(&value);
		dispatch_record_pack(records, &dispatch);
	}
}

static void
add_item(struct slice bytes, uint32_t source, uint32_t record, int32_t where)
{
	world.items[world.item_count++] =
	    (struct item){hash_of(bytes), source, record, where, false};
}

/* What it becomes is known before anything runs, and that all its recipients
 * are in it. */
static void
add_items(uint32_t source, uint32_t record, uint32_t recipients)
{
	struct slice bytes = slice_of_buf(&world.source[source].value[record]);
	struct outbox_message message;
	struct dispatch dispatch;
	uint32_t partition;
	struct err err;

	if (outbox_decode(&outbox, bytes, &message, &err) < 0) {
		add_item(bytes, source, record, -1);
		return;
	}
	plan_message(&plan, &message, 0, &err);
	buf_reset(&value);
	while (plan_next(&plan, &partition, &value, &err) == 1) {
		add_item(
		    slice_of_buf(&value), source, record, (int32_t)partition);
		if (dispatch_decode(slice_of_buf(&value), &dispatch, &err) < 0)
			complain("a dispatch: %s", err.text);
		recipients -= dispatch.to_count;
		buf_reset(&value);
	}
	if (recipients != 0)
		complain("outbox[%u] record %u: recipients are missing", source,
		    record);
}

/* Returns how many recipients it has. */
static uint32_t
make_value(struct buf *buf, uint32_t source, uint32_t record)
{
	uint32_t others = random_below(8);
	char text[400];
	int length;

	buf_reset(buf);
	length = snprintf(text, sizeof(text),
	    "{\"message_id\":\"m%u-%u\",\"conversation_id\":\"c%u\","
	    "\"conversation_seq\":%u,\"sender\":\"u0\",\"created_at\":%u,"
	    "\"payload\":\"p\",\"recipients\":[\"u0\"",
	    source, record, source, record + 1, record);
	for (uint32_t i = others; i > 0; i--)
		length += snprintf(text + length, sizeof(text) - (size_t)length,
		    ",\"u%u\"", i);
	/* One that can't be planned lacks its end. */
	length += snprintf(text + length, sizeof(text) - (size_t)length, "%s",
	    chance(10) ? "" : "]}");
	buf_append(buf, text, (size_t)length);
	return others + 1;
}

void
outbox_make(void)
{
	static bool is_made;
	struct err err;

	if (!is_made) {
		outbox_init(&outbox);
		plan_init(
		    &plan, TARGETS, RECIPIENTS_MAX, DISPATCH_BYTES_MAX, &err);
		is_made = true;
	}
	world.item_count = 0;
	for (uint32_t s = 0; s < SOURCES; s++) {
		struct source *source = &world.source[s];
		int64_t offset = random_below(3);

		source->count = random_below(RECORDS_MAX + 1);
		source->committed = -1;
		for (uint32_t r = 0; r < source->count; r++) {
			source->offset[r] = offset;
			offset += 1 + (chance(20) ? random_below(4) : 0);
			add_items(s, r, make_value(&source->value[r], s, r));
		}
		source->end = offset + (chance(30) ? 2 : 0);
	}
}

void
outbox_forget(void)
{
	for (uint32_t s = 0; s < SOURCES; s++)
		for (uint32_t r = 0; r < RECORDS_MAX; r++)
			buf_release(&world.source[s].value[r]);
}

uint32_t
outbox_expect(uint32_t source, int64_t from, int64_t next, uint32_t *letters)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];
		int64_t offset = world.source[source].offset[item->record];

		if (item->source != source || offset < from || offset >= next)
			continue;
		count++;
		*letters += item->partition < 0;
	}
	return count;
}

/* The first copies of an ordered producer are in the order of the plan. */
static void
check_order(const struct item *item)
{
	for (const struct item *i = world.items; i < item; i++)
		if (world.ordered && i->source == item->source &&
		    i->partition == item->partition && !i->durable)
			complain("outbox[%u] record %u reached dispatch[%d] "
				 "before record %u",
			    item->source, item->record, (int)item->partition,
			    i->record);
}

void
outbox_take(struct slice bytes)
{
	uint64_t hash = hash_of(bytes);

	for (uint32_t i = 0; i < world.item_count; i++) {
		struct item *item = &world.items[i];

		if (item->hash != hash)
			continue;
		if (!item->durable && item->partition >= 0)
			check_order(item);
		item->durable = true;
		return;
	}
	complain("a record that isn't in any plan");
}
