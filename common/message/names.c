#include "message/names.h"

#include <stdlib.h>
#include <xxhash.h>

struct name {
	struct table_key key;
	uint64_t number;
};

void
names_init(struct names *names, uint64_t seed)
{
	*names = (struct names){.seed = seed};
	table_init(&names->table, sizeof(struct name), seed);
	buf_init(&names->bytes);
}

void
names_release(struct names *names)
{
	table_release(&names->table);
	buf_release(&names->bytes);
	free(names->ends);
	names_init(names, names->seed);
}

static int
keep(struct names *names, uint64_t number, struct slice name)
{
	size_t room = names->room == 0 ? 64 : 2 * names->room;
	uint32_t *ends;

	if (number > names->room) {
		ends =
		    realloc(names->ends, checked_multiply(room, sizeof(*ends)));
		if (ends == NULL)
			return -1;
		names->ends = ends;
		names->room = room;
	}
	buf_append(&names->bytes, name.data, name.bytes);
	names->ends[number - 1] = (uint32_t)names->bytes.bytes;
	return names->bytes.failed ? -1 : 0;
}

uint32_t
names_take(struct names *names, struct slice name)
{
	XXH128_hash_t hash =
	    XXH3_128bits_withSeed(name.data, name.bytes, names->seed);
	/* One key in 2^128 would be 0, which is none. */
	struct table_key key = {hash.high64, hash.low64 | !hash.high64};
	struct name *entry;
	bool added;

	entry = table_take(&names->table, key, &added);
	if (entry == NULL)
		return 0;
	if (added) {
		entry->number = names->table.count;
		if (entry->number > UINT32_MAX ||
		    keep(names, entry->number, name) < 0)
			return 0;
	}
	return (uint32_t)entry->number;
}

struct slice
names_get(const struct names *names, uint32_t number)
{
	uint32_t start = number == 1 ? 0 : names->ends[number - 2];

	return (struct slice){
	    names->bytes.data + start, names->ends[number - 1] - start};
}
