#include "message/audit.h"

#include <stdlib.h>
#include <xxhash.h>

struct group_entry {
	struct table_key key; /* a hash of the name */
	uint64_t number; /* from 1 */
};

/* A group in a partition. */
struct lane_entry {
	struct table_key key; /* the group's number, the partition */
	uint64_t seq; /* of the last record that was no duplicate */
	int64_t offset;
};

/* 64 numbers of a group. */
struct seen_entry {
	struct table_key key; /* the group's number, seq / 64 */
	uint64_t bits; /* those that were seen */
};

void
audit_init(struct audit *audit, uint64_t seed)
{
	*audit = (struct audit){.seed = seed};
	table_init(&audit->groups, sizeof(struct group_entry), seed);
	table_init(&audit->lanes, sizeof(struct lane_entry), seed);
	table_init(&audit->seen, sizeof(struct seen_entry), seed);
	table_init(&audit->ids, sizeof(struct table_key), seed);
	buf_init(&audit->names);
}

void
audit_release(struct audit *audit)
{
	table_release(&audit->groups);
	table_release(&audit->lanes);
	table_release(&audit->seen);
	table_release(&audit->ids);
	buf_release(&audit->names);
	free(audit->all);
	audit_init(audit, audit->seed);
}

/* Bytes as a key, another one for each salt.  The salt is added to the hash:
 * as its seed it would give equal hashes to some pairs of short bytes and
 * near seeds.  One key in 2^128 would be 0, which is none. */
static struct table_key
key_of(const struct audit *audit, struct slice bytes, uint64_t salt)
{
	XXH128_hash_t hash =
	    XXH3_128bits_withSeed(bytes.data, bytes.bytes, audit->seed);
	struct table_key key = {hash.high64, hash.low64 + salt};

	if (key.high == 0 && key.low == 0)
		key.low = 1;
	return key;
}

static int
keep_group(struct audit *audit, uint64_t number, struct slice name)
{
	size_t room = audit->room == 0 ? 64 : 2 * audit->room;
	struct audit_group *all;

	if (name.bytes > AUDIT_NAME_BYTES)
		name.bytes = AUDIT_NAME_BYTES;
	if (number > audit->room) {
		all = realloc(audit->all, checked_multiply(room, sizeof(*all)));
		if (all == NULL)
			return -1;
		audit->all = all;
		audit->room = room;
	}
	audit->all[number - 1] = (struct audit_group){
	    audit->names.bytes, name.bytes, name.data == NULL};
	buf_append(&audit->names, name.data, name.bytes);
	return audit->names.failed ? -1 : 0;
}

/* The number of a group; 0: no memory. */
static uint64_t
find_group(struct audit *audit, struct slice name)
{
	bool added, is_nil = name.data == NULL;
	struct group_entry *entry =
	    table_take(&audit->groups, key_of(audit, name, is_nil), &added);

	if (entry == NULL)
		return 0;
	if (added) {
		entry->number = audit->groups.count;
		if (keep_group(audit, entry->number, name) < 0)
			return 0;
	}
	return entry->number;
}

/* Marks the number as seen; `added` where it wasn't.  -1: no memory. */
static int
see(struct audit *audit, uint64_t group, uint64_t seq, bool *added)
{
	struct seen_entry *entry = table_take(
	    &audit->seen, (struct table_key){group, seq / 64}, added);
	uint64_t bit = (uint64_t)1 << seq % 64;

	if (entry == NULL)
		return -1;
	*added = (entry->bits & bit) == 0;
	entry->bits |= bit;
	return 0;
}

/* The same of an id. */
static int
see_id(struct audit *audit, uint64_t group, struct slice id, bool *added)
{
	struct table_key key = key_of(audit, id, group);

	return table_take(&audit->ids, key, added) == NULL ? -1 : 0;
}

static int
follow(struct audit *audit, uint64_t group, const struct audit_record *record,
    struct audit_before *before)
{
	bool added;
	struct lane_entry *lane = table_take(&audit->lanes,
	    (struct table_key){group, (uint32_t)record->partition}, &added);

	if (lane == NULL)
		return -1;
	*before = (struct audit_before){lane->seq, lane->offset};
	lane->seq = record->seq;
	lane->offset = record->offset;
	return added || record->seq >= before->seq ? AUDIT_FINE
						   : AUDIT_INVERSION;
}

static int
add(struct audit *audit, const struct audit_record *record,
    struct audit_before *before)
{
	uint64_t group = find_group(audit, record->group);
	bool added;

	if (group == 0 || see(audit, group, record->seq, &added) < 0)
		return -1;
	if (record->id.data != NULL &&
	    see_id(audit, group, record->id, &added) < 0)
		return -1;
	return added ? follow(audit, group, record, before) : AUDIT_DUPLICATE;
}

int
audit_add(struct audit *audit, const struct audit_record *record,
    struct audit_before *before, struct err *err)
{
	int result = add(audit, record, before);

	if (result < 0)
		return err_memory(err, "records");
	audit->duplicates += result == AUDIT_DUPLICATE;
	audit->inversions += result == AUDIT_INVERSION;
	return result;
}

void
audit_end(struct audit *audit)
{
	table_sort(&audit->seen);
}

/* The next number that was seen, by group, ascending. */
static bool
next_seen(struct audit *audit, uint64_t *seq)
{
	const struct seen_entry *entry = (const void *)audit->seen.slots;

	if (audit->bits == 0) {
		if (audit->at == audit->seen.count)
			return false;
		entry += audit->at++;
		audit->group = entry->key.high;
		audit->base = entry->key.low * 64;
		audit->bits = entry->bits;
	}
	*seq = audit->base + (unsigned)__builtin_ctzll(audit->bits);
	audit->bits &= audit->bits - 1;
	return true;
}

static struct slice
group_name(const struct audit *audit, uint64_t number)
{
	const struct audit_group *group = &audit->all[number - 1];
	const uint8_t *names = audit->names.data;

	if (group->is_nil)
		return (struct slice){NULL, 0};
	if (group->name_bytes == 0)
		return slice_of("");
	return (struct slice){names + group->name, group->name_bytes};
}

int
audit_next_gap(struct audit *audit, struct audit_gap *gap)
{
	uint64_t seq, due;

	while (next_seen(audit, &seq)) {
		if (audit->walked != audit->group) {
			audit->walked = audit->group;
			audit->due = audit->has_first ? audit->first : seq;
		}
		due = audit->due;
		if (seq < due)
			continue;
		audit->due = seq + 1;
		if (seq == due)
			continue;
		*gap = (struct audit_gap){
		    group_name(audit, audit->group), due, seq - 1};
		return 1;
	}
	return 0;
}
