#include "redis/quarantine.h"

#include <stdlib.h>

#include "message/hash.h"
#include "stream/cursor.h"
#include "stream/guard.h"

/* Fields that one command reads: each comes with up to 4 KiB. */
#define STEP_COUNT 100

#define FIELD_BYTES (2 * HASH_BYTES)

/* Where a copy stands, so that they come in an order without being all in
 * memory. */
struct spot {
	int64_t offset;
	uint8_t field[FIELD_BYTES];
};

struct list {
	struct spot *all;
	size_t count, room;
	uint64_t dropped;
};

static int
decode(struct slice value, struct quarantined *copy, struct err *err)
{
	struct cursor cursor;
	uint32_t more;

	if (guard_walk(value, err) < 0)
		return -1;
	cursor = cursor_of(value);
	more = cursor_array_of(&cursor, 3);
	copy->offset = cursor_i64(&cursor);
	copy->reason = cursor_str(&cursor);
	copy->value = cursor_bin(&cursor);
	cursor_skip(&cursor, more);
	if (!cursor_done(&cursor))
		return err_set(err, EX_DATAERR, "not a copy in quarantine");
	return 0;
}

static int
refuse(const struct stem *stem, struct err *err)
{
	return err_set(err, EX_DATAERR,
	    "%.*squarantine: not a quarantine of mailbox-apply",
	    (int)stem->bytes, stem->text);
}

static int
add_spot(struct list *list, int64_t offset, struct slice field, struct err *err)
{
	if (list->count == list->room) {
		size_t room = list->room == 0 ? STEP_COUNT : 2 * list->room;
		struct spot *all =
		    realloc(list->all, checked_multiply(room, sizeof(*all)));

		if (all == NULL)
			return err_memory(err, "quarantine");
		list->all = all;
		list->room = room;
	}
	list->all[list->count].offset = offset;
	memcpy(list->all[list->count++].field, field.data, FIELD_BYTES);
	return 0;
}

static int
take_field(struct list *list, const struct stem *stem,
    const struct reply *field, const struct reply *value, struct err *err)
{
	struct quarantined copy;

	if (slice_is(field->text, "dropped"))
		return reply_number(value, &list->dropped) ? 0
							   : refuse(stem, err);
	if (field->text.bytes != FIELD_BYTES || value->type != REPLY_TEXT ||
	    decode(value->text, &copy, err) < 0)
		return refuse(stem, err);
	return add_spot(list, copy.offset, field->text, err);
}

static int
compare_spots(const void *a, const void *b)
{
	const struct spot *left = a, *right = b;

	if (left->offset != right->offset)
		return left->offset < right->offset ? -1 : 1;
	return memcmp(left->field, right->field, FIELD_BYTES);
}

/* In order, and each once: a scan may give a field twice. */
static void
sort(struct list *list)
{
	size_t count = 0;

	if (list->count > 0)
		qsort(
		    list->all, list->count, sizeof(*list->all), compare_spots);
	for (size_t i = 0; i < list->count; i++)
		if (count == 0 ||
		    compare_spots(&list->all[count - 1], &list->all[i]) != 0)
			list->all[count++] = list->all[i];
	list->count = count;
}

/* One page of a scan; *cursor becomes that of the next one, empty at the
 * end. */
static int
scan_page(struct client *client, const struct stem *stem, struct list *list,
    char cursor[REPLY_CURSOR_BYTES], struct err *err)
{
	struct commands *commands = &client->commands;
	const struct reply *page, *fields;

	commands_begin(commands, 5, "HSCAN");
	mailbox_key(commands, stem, "quarantine", (struct slice){0});
	commands_text(commands, cursor);
	commands_text(commands, "COUNT");
	commands_u64(commands, STEP_COUNT);
	if (client_call(client, err) < 0)
		return -1;
	page = &client->replies[0];
	if (!reply_cursor(page, cursor) || page->count != 2)
		return refuse(stem, err);
	fields = &page->items[1];
	for (size_t i = 0; i + 1 < fields->count; i += 2)
		if (take_field(list, stem, &fields->items[i],
			&fields->items[i + 1], err) < 0)
			return -1;
	return 0;
}

static int
scan(struct client *client, const struct stem *stem, struct list *list,
    struct err *err)
{
	char cursor[REPLY_CURSOR_BYTES] = "0";

	do {
		if (scan_page(client, stem, list, cursor, err) < 0)
			return -1;
	} while (strcmp(cursor, "0") != 0);
	sort(list);
	return 0;
}

/* Copies from index `first` on; one that is gone meanwhile is passed over. */
static int
show_some(struct client *client, const struct stem *stem, uint32_t partition,
    const struct spot *spots, size_t count, quarantine_show *show,
    struct err *err)
{
	struct commands *commands = &client->commands;
	const struct reply *values;

	commands_begin(commands, 2 + (uint32_t)count, "HMGET");
	mailbox_key(commands, stem, "quarantine", (struct slice){0});
	for (size_t i = 0; i < count; i++)
		commands_slice(
		    commands, (struct slice){spots[i].field, FIELD_BYTES});
	if (client_call(client, err) < 0)
		return -1;
	values = &client->replies[0];
	if (values->type != REPLY_ARRAY || values->count != count)
		return refuse(stem, err);
	for (size_t i = 0; i < count; i++) {
		struct quarantined copy = {.partition = partition,
		    .id = {spots[i].field, HASH_BYTES},
		    .digest = {spots[i].field + HASH_BYTES, HASH_BYTES}};

		if (values->items[i].type == REPLY_NIL)
			continue;
		if (decode(values->items[i].text, &copy, err) < 0)
			return refuse(stem, err);
		if (show(&copy, err) < 0)
			return -1;
	}
	return 0;
}

int
quarantine_read(struct client *client, const struct stem *stem,
    uint32_t partition, quarantine_begin *begin, quarantine_show *show,
    struct err *err)
{
	struct list list = {0};
	struct quarantine head = {.partition = partition};
	int result = scan(client, stem, &list, err);

	head.copies = list.count;
	head.dropped = list.dropped;
	if (result == 0 && (head.copies > 0 || head.dropped > 0))
		result = begin(&head, err);
	for (size_t i = 0; i < list.count && result == 0; i += STEP_COUNT) {
		size_t left = list.count - i;

		result = show_some(client, stem, partition, &list.all[i],
		    left < STEP_COUNT ? left : STEP_COUNT, show, err);
	}
	free(list.all);
	return result;
}
