/*
 * table - a hash table of entries of one size that begin with a 16-byte key.
 *
 * Entries are found by open addressing and never leave.  The seed is the
 * caller's secret, so that nobody can choose keys that all fall on one place.
 */
#ifndef QIM_MESSAGE_TABLE_H
#define QIM_MESSAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not both 0: that is a free place. */
struct table_key {
	uint64_t high, low;
};

struct table {
	uint8_t *slots; /* room entries */
	size_t room; /* 0 or a power of two; at most 3/4 of it is used */
	size_t count;
	size_t entry_bytes; /* a multiple of 8, the key included */
	uint64_t seed;
};

void table_init(struct table *table, size_t entry_bytes, uint64_t seed);
void table_release(struct table *table);

/* The entry of a key.  Where there was none, `added` and all but its key is
 * zero.  It stays where it is until the next call.  NULL: no memory. */
void *table_take(struct table *table, struct table_key key, bool *added);

/* The entry of a key; NULL: there is none. */
void *table_find(const struct table *table, struct table_key key);

/* The entries one after the other: *at is 0 at first; NULL: no more.  None may
 * be added meanwhile. */
void *table_next(const struct table *table, size_t *at);

/* Moves the entries together and sorts them by their keys, high before low.
 * After that it is an array of `count`, no key is found any more. */
void table_sort(struct table *table);

#endif
