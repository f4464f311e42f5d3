/*
 * Commands of the model, but for those on sorted sets and the scripts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

bool
key_is(struct slice key, const char *kind)
{
	const uint8_t *end = memchr(key.data, '}', key.bytes);
	size_t bytes = strlen(kind);

	if (end == NULL || key.bytes < (size_t)(end - key.data) + 2 + bytes)
		return false;
	return memcmp(end + 2, kind, bytes) == 0;
}

uint64_t
read_number(struct slice text)
{
	uint64_t number = 0;

	for (size_t i = 0; i < text.bytes; i++)
		number = number * 10 + (uint64_t)(text.data[i] - '0');
	return number;
}

struct reply
reply_integer(uint64_t number)
{
	return (struct reply){
	    .type = REPLY_INTEGER, .integer = (int64_t)number};
}

struct reply
reply_status(const char *text)
{
	return (struct reply){.type = REPLY_STATUS, .text = slice_of(text)};
}

struct reply
reply_copy(enum reply_type type, struct slice text)
{
	return (struct reply){
	    .type = type, .text = {(uint8_t *)slice_dup(text), text.bytes}};
}

struct reply
reply_decimal(uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return reply_copy(REPLY_TEXT, slice_of(text));
}

struct reply
reply_array(size_t room)
{
	return (struct reply){.type = REPLY_ARRAY,
	    .items = calloc(room + 1, sizeof(struct reply))};
}

static struct reply
run_counter(struct link *link, const struct model_command *command)
{
	struct model *model = link->model;
	struct slice key = command->argument[1], none = {0};
	size_t i = model_find(model, key, none);
	uint64_t number =
	    i == model->data.count ? 0 : model->data.slots[i].row->score;

	if (slice_is(command->argument[0], "GET")) {
		if (model->flaw == FLAW_NO_COUNTER)
			return reply_decimal(link->counted);
		return number == 0 ? (struct reply){0} : reply_decimal(number);
	}
	link->counted++;
	model_put(model, key, none, none, number + 1);
	if (slice_is(command->argument[0], "SET"))
		return reply_status("OK");
	return reply_integer(number + 1);
}

static struct reply
run_field(struct model *model, const struct model_command *command)
{
	struct slice name = command->argument[0], key = command->argument[1];
	struct slice field = command->argument[2];
	size_t i = model_find(model, key, field);
	bool found = i < model->data.count;

	if (model->flaw == FLAW_LAST_CLAIM && key_is(key, "log:") &&
	    slice_is(name, "HSETNX"))
		found = false;
	if (slice_is(name, "HGET"))
		return found
		    ? reply_copy(REPLY_TEXT, model->data.slots[i].row->value)
		    : (struct reply){0};
	if (slice_is(name, "HDEL"))
		return reply_integer(model_remove(model, key, field));
	if (!found || slice_is(name, "HSET"))
		model_put(model, key, field, command->argument[3], 0);
	return reply_integer(!found);
}

/* HLEN, HVALS, HSCAN: of all fields, in one page. */
static struct reply
run_hash(struct model *model, const struct model_command *command)
{
	static const struct row *rows[MODEL_ROWS];
	size_t count = model_rows(model, command->argument[1], rows);
	bool scan = slice_is(command->argument[0], "HSCAN");
	struct reply all, page;

	if (slice_is(command->argument[0], "HLEN"))
		return reply_integer(count);
	all = reply_array(2 * count);
	if (model->flaw == FLAW_NO_CURSORS && !scan)
		return all;
	for (size_t i = 0; i < count; i++) {
		if (scan)
			all.items[all.count++] =
			    reply_copy(REPLY_TEXT, rows[i]->field);
		all.items[all.count++] = reply_copy(REPLY_TEXT, rows[i]->value);
	}
	if (!scan)
		return all;
	page = reply_array(2);
	page.items[0] = reply_decimal(0);
	page.items[1] = all;
	page.count = 2;
	return page;
}

/* All keys in one page, some more than once, as a scan may. */
static struct reply
run_scan(const struct model *model)
{
	struct reply page = reply_array(2);
	struct reply keys = reply_array(model->data.count);
	struct slice last = {0};

	for (size_t i = 0; i < model->data.count; i++) {
		struct slice key = model->data.slots[i].row->key;

		if (!slice_equal(key, last))
			keys.items[keys.count++] = reply_copy(REPLY_TEXT, key);
		last = key;
	}
	page.items[0] = reply_decimal(0);
	page.items[1] = keys;
	page.count = 2;
	return page;
}

static struct reply
run_time(const struct model *model)
{
	struct reply time = reply_array(2);

	time.items[time.count++] = reply_decimal(model->now_ms / 1000);
	time.items[time.count++] = reply_decimal(model->now_ms % 1000 * 1000);
	return time;
}

struct reply
model_run(struct link *link, const struct model_command *command)
{
	struct model *model = link->model;
	struct slice name = command->argument[0];

	if (slice_is(name, "WATCH")) {
		link->watched = model->generation;
		return reply_status("OK");
	}
	if (slice_is(name, "PING"))
		return reply_status("PONG");
	if (slice_is(name, "EXPIRE"))
		return reply_integer(1);
	if (slice_is(name, "WAIT"))
		return reply_integer(model_wait(model));
	if (slice_is(name, "TIME"))
		return run_time(model);
	if (slice_is(name, "SCAN"))
		return run_scan(model);
	if (slice_is(name, "EVAL") || slice_is(name, "EVALSHA") ||
	    slice_is(name, "SCRIPT"))
		return model_run_script(link, command);
	if (slice_is(name, "HGET") || slice_is(name, "HSET") ||
	    slice_is(name, "HSETNX") || slice_is(name, "HDEL"))
		return run_field(model, command);
	if (name.data[0] == 'H')
		return run_hash(model, command);
	if (name.data[0] == 'Z')
		return model_run_zset(model, command);
	if (slice_is(name, "GET") || slice_is(name, "SET") ||
	    slice_is(name, "INCR"))
		return run_counter(link, command);
	fprintf(stderr, "the model has no %.*s\n", (int)name.bytes,
	    (const char *)name.data);
	abort();
}
