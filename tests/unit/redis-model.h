/*
 * redis-model - a Redis in memory, as far as mailbox rounds use it, whose
 * data set can be lost.  For one test program: all is static.
 *
 * Rows are immutable and stay until the model is released, so that a
 * snapshot is an array of pointers.
 */
#ifndef QIM_TESTS_REDIS_MODEL_H
#define QIM_TESTS_REDIS_MODEL_H

#include <stdio.h>
#include <stdlib.h>

#include "redis/commands.h"
#include "redis/reply.h"

#define MODEL_ROWS 1024
#define MODEL_PAST 40
#define MODEL_ARGUMENTS 128

/* A field of a hash, a member of a sorted set, or a string (field empty). */
struct row {
	struct row *older; /* in the order they were made, to free them */
	struct slice key, field, value;
	uint64_t score;
};

struct data_set {
	const struct row *rows[MODEL_ROWS];
	size_t count;
};

struct model {
	struct data_set data, past[MODEL_PAST];
	size_t past_count;
	struct row *newest;
	uint64_t generation; /* what WATCH notices */
	uint64_t restarts; /* what connections notice */
	struct data_set replica; /* as WAIT last found it */
	bool is_replica_away;
	bool ignores_watch, fakes_counter; /* to break the protocol */
};

struct model_conn {
	struct model *model;
	uint64_t restarts, watched;
	uint64_t counted; /* rounds of this connection */
};

struct model_command {
	struct slice argument[MODEL_ARGUMENTS];
	size_t count;
};

static inline uint64_t
model_number(struct slice text)
{
	uint64_t number = 0;

	for (size_t i = 0; i < text.bytes; i++)
		number = number * 10 + (uint64_t)(text.data[i] - '0');
	return number;
}

/* Parses the command at *at and moves on. */
static inline void
model_parse(const uint8_t **at, struct model_command *command)
{
	char *end;

	command->count = strtoul((const char *)*at + 1, &end, 10);
	for (size_t i = 0; i < command->count; i++) {
		size_t bytes = strtoul(end + 3, &end, 10);

		command->argument[i] =
		    (struct slice){(const uint8_t *)end + 2, bytes};
		end += 2 + bytes;
	}
	*at = (const uint8_t *)end + 2;
}

static inline size_t
model_find(const struct model *model, struct slice key, struct slice field)
{
	size_t i = 0;

	while (i < model->data.count &&
	    !(slice_equal(model->data.rows[i]->key, key) &&
		slice_equal(model->data.rows[i]->field, field)))
		i++;
	return i;
}

static inline struct slice
model_copy(uint8_t **at, struct slice from)
{
	struct slice copy = {*at, from.bytes};

	if (from.bytes > 0)
		memcpy(*at, from.data, from.bytes);
	*at += from.bytes;
	return copy;
}

/* Puts a row in place of that of the same key and field, or as a new one. */
static inline void
model_put(struct model *model, struct slice key, struct slice field,
    struct slice value, uint64_t score)
{
	struct row *row =
	    malloc(sizeof(*row) + key.bytes + field.bytes + value.bytes);
	uint8_t *at = (uint8_t *)(row + 1);
	size_t i = model_find(model, key, field);

	row->key = model_copy(&at, key);
	row->field = model_copy(&at, field);
	row->value = model_copy(&at, value);
	row->score = score;
	row->older = model->newest;
	model->newest = row;
	model->data.rows[i] = row;
	model->data.count += i == model->data.count;
}

/* What has happened becomes something that can be lost. */
static inline void
model_remember(struct model *model)
{
	if (model->past_count == MODEL_PAST)
		memmove(model->past, model->past + 1,
		    --model->past_count * sizeof(model->past[0]));
	model->past[model->past_count++] = model->data;
}

static inline void
model_lose(struct model *model, const struct data_set *to, bool keep)
{
	struct data_set data = *to;

	model->data = model->past[0] = model->replica = data;
	model->past_count = 1;
	model->generation++;
	model->restarts += !keep;
}

static inline void
model_release(struct model *model)
{
	while (model->newest != NULL) {
		struct row *row = model->newest;

		model->newest = row->older;
		free(row);
	}
}

static inline struct reply
model_integer(uint64_t number)
{
	return (struct reply){
	    .type = REPLY_INTEGER, .integer = (int64_t)number};
}

static inline struct reply
model_status(const char *text)
{
	return (struct reply){.type = REPLY_STATUS, .text = slice_of(text)};
}

static inline struct reply
model_text(enum reply_type type, struct slice text)
{
	return (struct reply){
	    .type = type, .text = {(uint8_t *)slice_dup(text), text.bytes}};
}

static inline struct reply
model_decimal(uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return model_text(REPLY_TEXT, slice_of(text));
}

static inline struct reply
model_counter(struct model_conn *conn, const struct model_command *command)
{
	struct model *model = conn->model;
	struct slice key = command->argument[1], none = {0};
	size_t i = model_find(model, key, none);
	uint64_t number =
	    i == model->data.count ? 0 : model->data.rows[i]->score;

	if (slice_is(command->argument[0], "GET")) {
		if (model->fakes_counter)
			return model_decimal(conn->counted);
		return number == 0 ? (struct reply){0} : model_decimal(number);
	}
	conn->counted++;
	model_put(model, key, none, none, number + 1);
	if (slice_is(command->argument[0], "SET"))
		return model_status("OK");
	return model_integer(number + 1);
}

static inline struct reply
model_hash(struct model *model, const struct model_command *command)
{
	struct slice key = command->argument[1], field = command->argument[2];
	size_t i = model_find(model, key, field);

	if (slice_is(command->argument[0], "HGET"))
		return i == model->data.count
		    ? (struct reply){0}
		    : model_text(REPLY_TEXT, model->data.rows[i]->value);
	if (i < model->data.count)
		return model_integer(0);
	model_put(model, key, field, command->argument[3], 0);
	return model_integer(1);
}

static inline struct reply
model_zadd(struct model *model, const struct model_command *command)
{
	struct slice key = command->argument[1], none = {0};
	bool first_wins = slice_is(command->argument[2], "NX");

	for (size_t i = 3; i < command->count; i += 2) {
		uint64_t score = model_number(command->argument[i]);
		struct slice member = command->argument[i + 1];
		size_t at = model_find(model, key, member);

		if (at == model->data.count ||
		    (!first_wins && model->data.rows[at]->score < score))
			model_put(model, key, member, none, score);
	}
	return model_integer(0);
}

/* Of `mark` only, which has one member. */
static inline struct reply
model_zrange(struct model *model, struct slice key)
{
	struct reply reply = {.type = REPLY_ARRAY};

	reply.items = calloc(2, sizeof(*reply.items));
	for (size_t i = 0; i < model->data.count; i++) {
		const struct row *row = model->data.rows[i];

		if (!slice_equal(row->key, key))
			continue;
		reply.items[0] = model_text(REPLY_TEXT, row->field);
		reply.items[1] = model_decimal(row->score);
		reply.count = 2;
	}
	return reply;
}

static inline struct reply
model_hlen(const struct model *model, struct slice key)
{
	uint64_t count = 0;

	for (size_t i = 0; i < model->data.count; i++)
		count += slice_equal(model->data.rows[i]->key, key);
	return model_integer(count);
}

/* A command outside of MULTI, or inside once EXEC is there. */
static inline struct reply
model_run(struct model_conn *conn, const struct model_command *command)
{
	struct model *model = conn->model;
	struct slice name = command->argument[0];

	if (slice_is(name, "WATCH")) {
		conn->watched = model->generation;
		return model_status("OK");
	}
	if (slice_is(name, "WAIT")) {
		if (!model->is_replica_away)
			model->replica = model->data;
		return model_integer(model->is_replica_away ? 0 : 1);
	}
	if (slice_is(name, "EXPIRE"))
		return model_integer(1);
	if (slice_is(name, "HLEN"))
		return model_hlen(model, command->argument[1]);
	if (slice_is(name, "ZRANGE"))
		return model_zrange(model, command->argument[1]);
	if (slice_is(name, "ZADD"))
		return model_zadd(model, command);
	if (name.data[0] == 'H')
		return model_hash(model, command);
	return model_counter(conn, command);
}

#endif
