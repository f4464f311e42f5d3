#include "model.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "dice.h"
#include "server.h"

/* Some day; the scripts know times of before as their own. */
#define START_MS UINT64_C(1700000000000)

#define DAY_MS UINT64_C(86400000)

uint64_t dice_state;

static const struct data_set empty;

void
model_init(struct model *model, enum flaw flaw, struct server *server)
{
	/* Not the 700 KB of its past. */
	model->data.count = model->replica.count = 0;
	model->is_replica_away = false;
	model->past_count = model->script_count = 0;
	model->newest = NULL;
	model->generation = model->restarts = 0;
	model->now_ms = START_MS;
	model->changed = false;
	model->flaw = flaw;
	model->server = server;
	if (server != NULL)
		server_clear(server);
}

void
model_release(struct model *model)
{
	while (model->newest != NULL) {
		struct row *row = model->newest;

		model->newest = row->older;
		free(row);
	}
}

static uint32_t
hash_of(struct slice slice, uint32_t seed)
{
	return XXH32(slice.data, slice.bytes, seed);
}

size_t
model_find(const struct model *model, struct slice key, struct slice field)
{
	const struct slot *slots = model->data.slots;
	uint32_t hash = hash_of(field, hash_of(key, 0));
	size_t i = 0;

	while (i < model->data.count &&
	    !(slots[i].hash == hash && slice_equal(slots[i].row->key, key) &&
		slice_equal(slots[i].row->field, field)))
		i++;
	return i;
}

static struct slice
copy_slice(uint8_t **at, struct slice from)
{
	struct slice copy = {*at, from.bytes};

	if (from.bytes > 0)
		memcpy(*at, from.data, from.bytes);
	*at += from.bytes;
	return copy;
}

void
model_put(struct model *model, struct slice key, struct slice field,
    struct slice value, uint64_t score)
{
	struct row *row =
	    malloc(sizeof(*row) + key.bytes + field.bytes + value.bytes);
	uint8_t *at = (uint8_t *)(row + 1);
	size_t i = model_find(model, key, field);

	if (i == MODEL_ROWS)
		abort();
	row->key = copy_slice(&at, key);
	row->field = copy_slice(&at, field);
	row->value = copy_slice(&at, value);
	row->score = score;
	row->older = model->newest;
	model->changed = true;
	model->newest = row;
	model->data.slots[i] = (struct slot){
	    hash_of(key, 0), hash_of(field, hash_of(key, 0)), row};
	model->data.count += i == model->data.count;
}

bool
model_remove(struct model *model, struct slice key, struct slice field)
{
	size_t i = model_find(model, key, field);

	if (i == model->data.count)
		return false;
	model->changed = true;
	model->data.slots[i] = model->data.slots[--model->data.count];
	return true;
}

static int
compare_rows(const void *a, const void *b)
{
	const struct row *left = *(const struct row *const *)a;
	const struct row *right = *(const struct row *const *)b;

	if (left->score != right->score)
		return left->score < right->score ? -1 : 1;
	return slice_compare(left->field, right->field);
}

size_t
model_rows(const struct model *model, struct slice key,
    const struct row *rows[MODEL_ROWS])
{
	uint32_t hash = hash_of(key, 0);
	size_t count = 0;

	for (size_t i = 0; i < model->data.count; i++) {
		const struct slot *slot = &model->data.slots[i];

		if (slot->key_hash == hash && slice_equal(slot->row->key, key))
			rows[count++] = slot->row;
	}
	if (count > 1)
		qsort(rows, count, sizeof(rows[0]), compare_rows);
	return count;
}

static void
copy_set(struct data_set *to, const struct data_set *from)
{
	memcpy(to->slots, from->slots, from->count * sizeof(from->slots[0]));
	to->count = from->count;
}

void
model_read(struct model *model)
{
	if (model->server != NULL)
		server_read(model->server, model);
}

void
model_remember(struct model *model)
{
	if (!model->changed)
		return;
	model->changed = false;
	if (model->past_count == MODEL_PAST)
		memmove(model->past, model->past + 1,
		    --model->past_count * sizeof(model->past[0]));
	copy_set(&model->past[model->past_count++], &model->data);
	if (!model->is_replica_away && chance(30))
		copy_set(&model->replica, &model->data);
}

uint64_t
model_wait(struct model *model)
{
	if (!model->is_replica_away)
		copy_set(&model->replica, &model->data);
	return !model->is_replica_away;
}

/* Another data set; all that holds one has it. */
static void
become(struct model *model, const struct data_set *to, bool keep)
{
	if (to != &model->data)
		copy_set(&model->data, to);
	copy_set(&model->replica, &model->data);
	model->past_count = 0;
	model->changed = true;
	model_remember(model);
	model->generation++;
	if (keep)
		return;
	model->restarts++;
	model->script_count = 0;
}

void
model_lose(struct model *model, bool may_be_empty, bool keep)
{
	const struct data_set *to = may_be_empty ? &empty : &model->data;

	if (model->server != NULL) {
		server_lose(model->server, may_be_empty, keep);
		return;
	}
	if (model->past_count > 0 && (!may_be_empty || chance(80)))
		to = &model->past[random_below((uint32_t)model->past_count)];
	become(model, to, keep);
}

void
model_fail_over(struct model *model, bool keep)
{
	become(model, &model->replica, keep);
}

void
model_pass_days(struct model *model, uint32_t days)
{
	if (model->server != NULL) {
		server_pass_days(model->server, days);
		return;
	}
	model->now_ms += days * DAY_MS;
	for (size_t i = model->data.count; i-- > 0;)
		if (key_is(model->data.slots[i].row->key, "round:"))
			model->data.slots[i] =
			    model->data.slots[--model->data.count];
	become(model, &model->data, true);
}
