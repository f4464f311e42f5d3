#include "kafka/commits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void
commits_release(struct commits *commits)
{
	for (uint32_t i = 0; i < commits->count; i++)
		free(commits->all[i].topic);
	free(commits->all);
	*commits = (struct commits){0};
}

static int
compare(
    const struct commits_entry *entry, struct slice topic, int32_t partition)
{
	int order = slice_compare(slice_of(entry->topic), topic);

	if (order != 0)
		return order;
	return (entry->partition > partition) - (entry->partition < partition);
}

/* The index of the first entry that isn't less. */
static uint32_t
lower_bound(
    const struct commits *commits, struct slice topic, int32_t partition)
{
	uint32_t low = 0, high = commits->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(&commits->all[middle], topic, partition) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int
grow(struct commits *commits, struct err *err)
{
	uint32_t room = commits->room == 0 ? 64 : 2 * commits->room;
	struct commits_entry *all =
	    realloc(commits->all, checked_multiply(room, sizeof(*all)));

	if (all == NULL)
		return err_memory(err, "partitions");
	commits->all = all;
	commits->room = room;
	return 0;
}

int
commits_add(struct commits *commits, struct slice topic, int32_t partition,
    int64_t start, struct err *err)
{
	uint32_t i = lower_bound(commits, topic, partition);
	char *name;

	if (i < commits->count &&
	    compare(&commits->all[i], topic, partition) == 0)
		return err_set(err, EX_DATAERR, "%s[%d]: it starts twice",
		    commits->all[i].topic, (int)partition);
	if (commits->count == commits->room && grow(commits, err) < 0)
		return -1;
	name = slice_dup(topic);
	if (name == NULL)
		return err_memory(err, "topic");
	memmove(commits->all + i + 1, commits->all + i,
	    (commits->count - i) * sizeof(*commits->all));
	commits->all[i] = (struct commits_entry){.topic = name,
	    .partition = partition,
	    .start = start,
	    .next = start,
	    .committed = -1,
	    .sent = -1};
	commits->count++;
	return 0;
}

int
commits_acknowledge(struct commits *commits, struct slice topic,
    int32_t partition, int64_t from, int64_t next, struct err *err)
{
	uint32_t i = lower_bound(commits, topic, partition);
	struct commits_entry *entry;

	if (i == commits->count ||
	    compare(&commits->all[i], topic, partition) != 0) {
		if (from != next)
			return err_set(err, EX_DATAERR,
			    "%.*s[%d]: offsets of a partition that wasn't "
			    "announced",
			    (int)topic.bytes, (const char *)topic.data,
			    (int)partition);
		if (commits_add(commits, topic, partition, from, err) < 0)
			return -1;
	}
	entry = &commits->all[i];
	if (from != entry->next || next < from)
		return err_set(err, EX_DATAERR,
		    "%s[%d]: offsets %" PRId64 " to %" PRId64
		    " acknowledged, wants them from %" PRId64 " on",
		    entry->topic, (int)partition, from, next, entry->next);
	entry->next = next;
	entry->acknowledged = true;
	return 0;
}

bool
commits_must_read(const struct commits *commits)
{
	for (uint32_t i = 0; i < commits->count; i++)
		if (!commits->all[i].known)
			return true;
	return false;
}

int
commits_set_committed(
    struct commits *commits, uint32_t index, int64_t committed, struct err *err)
{
	struct commits_entry *entry = &commits->all[index];

	if (committed >= 0 && entry->start > committed)
		return err_set(err, EX_DATAERR,
		    "%s[%d]: the stream starts at %" PRId64 ", committed is "
		    "%" PRId64 ": that would skip what lies between (only "
		    "--set moves a group over it)",
		    entry->topic, (int)entry->partition, entry->start,
		    committed);
	entry->committed = committed < 0 ? -1 : committed;
	entry->known = true;
	return 0;
}

/* What is to be committed of an entry; -1: nothing. */
static int64_t
wanted(const struct commits_entry *entry)
{
	if (entry->acknowledged && entry->next > entry->committed)
		return entry->next;
	return entry->renew ? entry->committed : -1;
}

bool
commits_are_due(const struct commits *commits)
{
	if (commits->in_flight || commits_must_read(commits))
		return false;
	for (uint32_t i = 0; i < commits->count; i++)
		if (wanted(&commits->all[i]) >= 0)
			return true;
	return false;
}

uint32_t
commits_begin(struct commits *commits)
{
	uint32_t count = 0;

	if (!commits_are_due(commits))
		return 0;
	for (uint32_t i = 0; i < commits->count; i++) {
		commits->all[i].sent = wanted(&commits->all[i]);
		count += commits->all[i].sent >= 0;
	}
	commits->in_flight = true;
	return count;
}

void
commits_succeed(struct commits *commits)
{
	for (uint32_t i = 0; i < commits->count; i++) {
		struct commits_entry *entry = &commits->all[i];

		if (entry->sent < 0)
			continue;
		entry->committed = entry->sent;
		entry->sent = -1;
		entry->renew = false;
	}
	commits->in_flight = false;
}

void
commits_fail(struct commits *commits)
{
	for (uint32_t i = 0; i < commits->count; i++) {
		commits->all[i].sent = -1;
		commits->all[i].known = false;
	}
	commits->in_flight = false;
}

void
commits_renew(struct commits *commits)
{
	for (uint32_t i = 0; i < commits->count; i++) {
		commits->all[i].renew = true;
		commits->all[i].known = false;
	}
}

bool
commits_are_done(const struct commits *commits)
{
	if (commits->in_flight)
		return false;
	for (uint32_t i = 0; i < commits->count; i++)
		if (commits->all[i].acknowledged &&
		    commits->all[i].next > commits->all[i].committed)
			return false;
	return true;
}
