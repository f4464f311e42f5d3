/*
 * Commands of the model on sorted sets, whose scores are whole numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* The number of a score's bound, as it is by itself and as "(5". */
static uint64_t
read_bound(struct slice text, bool is_least)
{
	uint64_t number;

	if (slice_is(text, "-inf"))
		return 0;
	if (slice_is(text, "+inf"))
		return UINT64_MAX;
	if (text.data[0] != '(')
		return read_number(text);
	number = read_number((struct slice){text.data + 1, text.bytes - 1});
	if (number == 0 && !is_least)
		abort(); /* no whole number is below */
	return is_least ? number + 1 : number - 1;
}

/* An index as it is by itself and counted from the end. */
static size_t
read_index(struct slice text, size_t count)
{
	size_t index;

	if (text.data[0] != '-')
		return read_number(text);
	index = read_number((struct slice){text.data + 1, text.bytes - 1});
	return index > count ? 0 : count - index;
}

/* Which of the rows in order: [from, to). */
struct part {
	size_t from, to;
};

static struct part
part_by_score(
    const struct row *const *rows, size_t count, struct slice a, struct slice b)
{
	uint64_t least = read_bound(a, true), most = read_bound(b, false);
	struct part part = {0, count};

	while (part.from < count && rows[part.from]->score < least)
		part.from++;
	while (part.to > part.from && rows[part.to - 1]->score > most)
		part.to--;
	return part;
}

static struct part
part_by_rank(size_t count, struct slice a, struct slice b)
{
	struct part part = {read_index(a, count), read_index(b, count) + 1};

	if (part.to > count)
		part.to = count;
	if (part.from > part.to)
		part.from = part.to;
	return part;
}

struct range_options {
	bool by_score, reverse, with_scores;
	size_t offset, most;
};

static struct range_options
read_options(const struct model_command *command)
{
	struct range_options options = {.most = SIZE_MAX};

	for (size_t i = 4; i < command->count; i++) {
		struct slice text = command->argument[i];

		if (slice_is(text, "BYSCORE"))
			options.by_score = true;
		else if (slice_is(text, "REV"))
			options.reverse = true;
		else if (slice_is(text, "WITHSCORES"))
			options.with_scores = true;
		else {
			options.offset = read_number(command->argument[++i]);
			text = command->argument[++i];
			if (text.data[0] != '-')
				options.most = read_number(text);
		}
	}
	return options;
}

static struct reply
run_zrange(struct model *model, const struct model_command *command)
{
	static const struct row *rows[MODEL_ROWS];
	struct range_options options = read_options(command);
	struct slice a = command->argument[2], b = command->argument[3];
	size_t count = model_rows(model, command->argument[1], rows);
	struct reply reply = reply_array(2 * count);
	struct part part;

	if (!options.by_score)
		part = part_by_rank(count, a, b);
	else if (options.reverse)
		part = part_by_score(rows, count, b, a);
	else
		part = part_by_score(rows, count, a, b);
	for (size_t i = options.offset; i < part.to - part.from; i++) {
		const struct row *row = rows[part.from + i];

		if (options.reverse)
			row = rows[part.to - 1 - i];
		if (i - options.offset >= options.most)
			break;
		reply.items[reply.count++] = reply_copy(REPLY_TEXT, row->field);
		if (options.with_scores)
			reply.items[reply.count++] = reply_decimal(row->score);
	}
	return reply;
}

static struct reply
run_zadd(struct model *model, const struct model_command *command)
{
	struct slice key = command->argument[1], none = {0};
	bool first_wins = slice_is(command->argument[2], "NX");

	if (model->flaw == FLAW_NO_FLOOR && key_is(key, "floor"))
		return reply_integer(0);
	for (size_t i = 3; i < command->count; i += 2) {
		uint64_t score = read_number(command->argument[i]);
		struct slice member = command->argument[i + 1];
		size_t at = model_find(model, key, member);

		if (model->flaw == FLAW_NO_AGES && key_is(key, "times"))
			score = 1;
		if (at == model->data.count ||
		    (!first_wins && model->data.slots[at].row->score < score))
			model_put(model, key, member, none, score);
	}
	return reply_integer(0);
}

static struct reply
run_zscore(const struct model *model, const struct model_command *command)
{
	size_t at =
	    model_find(model, command->argument[1], command->argument[2]);

	return at == model->data.count
	    ? (struct reply){0}
	    : reply_decimal(model->data.slots[at].row->score);
}

/* ZCOUNT, and what removes. */
static struct reply
run_part(struct model *model, const struct model_command *command)
{
	static const struct row *rows[MODEL_ROWS];
	struct slice name = command->argument[0], key = command->argument[1];
	struct slice a = command->argument[2], b = command->argument[3];
	size_t count = model_rows(model, key, rows);
	struct part part = slice_is(name, "ZREMRANGEBYRANK")
	    ? part_by_rank(count, a, b)
	    : part_by_score(rows, count, a, b);

	for (size_t i = part.from; i < part.to; i++)
		if (!slice_is(name, "ZCOUNT"))
			model_remove(model, key, rows[i]->field);
	return reply_integer(part.to - part.from);
}

struct reply
model_run_zset(struct model *model, const struct model_command *command)
{
	struct slice name = command->argument[0];

	if (slice_is(name, "ZADD"))
		return run_zadd(model, command);
	if (slice_is(name, "ZSCORE"))
		return run_zscore(model, command);
	if (slice_is(name, "ZRANGE"))
		return run_zrange(model, command);
	if (slice_is(name, "ZCOUNT") || slice_is(name, "ZREMRANGEBYRANK") ||
	    slice_is(name, "ZREMRANGEBYSCORE"))
		return run_part(model, command);
	fprintf(stderr, "the model has no %.*s\n", (int)name.bytes,
	    (const char *)name.data);
	abort();
}
