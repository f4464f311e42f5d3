#include "message/table.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"

#define ROOM_FIRST ((size_t)64)

void
table_init(struct table *table, size_t entry_bytes, uint64_t seed)
{
	*table = (struct table){.entry_bytes = entry_bytes, .seed = seed};
}

void
table_release(struct table *table)
{
	free(table->slots);
	table_init(table, table->entry_bytes, table->seed);
}

static struct table_key *
slot(const struct table *table, size_t i)
{
	return (
	    struct table_key *)(void *)(table->slots + i * table->entry_bytes);
}

static bool
is_free(const struct table_key *key)
{
	return (key->high | key->low) == 0;
}

/* The place of a key, or the free one where it would go. */
static struct table_key *
find(const struct table *table, struct table_key key)
{
	size_t mask = table->room - 1;
	size_t i = XXH3_64bits_withSeed(&key, sizeof(key), table->seed) & mask;
	struct table_key *at = slot(table, i);

	while (!is_free(at) && (at->high != key.high || at->low != key.low)) {
		i = (i + 1) & mask;
		at = slot(table, i);
	}
	return at;
}

static bool
grow(struct table *table)
{
	struct table larger = *table;

	larger.room =
	    table->room == 0 ? ROOM_FIRST : checked_multiply(table->room, 2);
	larger.slots = calloc(larger.room, table->entry_bytes);
	if (larger.slots == NULL)
		return false;
	for (size_t i = 0; i < table->room; i++)
		if (!is_free(slot(table, i)))
			memcpy(find(&larger, *slot(table, i)), slot(table, i),
			    table->entry_bytes);
	free(table->slots);
	*table = larger;
	return true;
}

void *
table_take(struct table *table, struct table_key key, bool *added)
{
	struct table_key *at;

	if (table->count >= table->room / 4 * 3 && !grow(table))
		return NULL;
	at = find(table, key);
	*added = is_free(at);
	if (*added) {
		*at = key;
		table->count++;
	}
	return at;
}

void *
table_find(const struct table *table, struct table_key key)
{
	struct table_key *at;

	if (table->room == 0)
		return NULL;
	at = find(table, key);
	return is_free(at) ? NULL : at;
}

void *
table_next(const struct table *table, size_t *at)
{
	while (*at < table->room) {
		struct table_key *key = slot(table, (*at)++);

		if (!is_free(key))
			return key;
	}
	return NULL;
}

static int
compare_keys(const void *a, const void *b)
{
	const struct table_key *left = a, *right = b;

	if (left->high != right->high)
		return left->high < right->high ? -1 : 1;
	return (left->low > right->low) - (left->low < right->low);
}

void
table_sort(struct table *table)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->room; i++)
		if (!is_free(slot(table, i)))
			memmove(slot(table, kept++), slot(table, i),
			    table->entry_bytes);
	if (kept > 1)
		qsort(table->slots, kept, table->entry_bytes, compare_keys);
}
