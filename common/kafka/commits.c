#include "kafka/commits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/topic.h"

void
commits_release(struct commits *commits)
{
	coverage_release(&commits->coverage);
	free(commits->all);
	*commits = (struct commits){0};
}

int
commits_add(struct commits *commits, struct slice topic, int32_t partition,
    int64_t start, bool was_committed, struct err *err)
{
	size_t count = commits->coverage.count;
	struct commits_entry *all =
	    realloc(commits->all, checked_multiply(count + 1, sizeof(*all)));
	size_t i;

	if (all == NULL)
		return err_memory(err, "partitions");
	commits->all = all;
	if (coverage_start(&commits->coverage, topic, partition, start, err) <
	    0)
		return -1;
	i = coverage_find(&commits->coverage, topic, partition);
	memmove(all + i + 1, all + i, (count - i) * sizeof(*all));
	all[i] = (struct commits_entry){.start = start,
	    .committed = -1,
	    .most = -1,
	    .sent = -1,
	    .was_committed = was_committed};
	return 0;
}

int
commits_acknowledge(struct commits *commits, struct slice topic,
    int32_t partition, int64_t from, int64_t next, struct err *err)
{
	const struct coverage *coverage = &commits->coverage;
	struct commits_entry *entry;

	if (coverage_find(coverage, topic, partition) == coverage->count &&
	    from == next &&
	    commits_add(commits, topic, partition, from, false, err) < 0)
		return -1;
	if (coverage_advance(
		&commits->coverage, topic, partition, from, next, err) < 0)
		return -1;
	entry = &commits->all[coverage_find(coverage, topic, partition)];
	entry->acknowledged = true;
	entry->known = false;
	return 0;
}

int
commits_set_committed(
    struct commits *commits, size_t index, int64_t committed, struct err *err)
{
	const struct covered *covered = &commits->coverage.all[index];
	struct commits_entry *entry = &commits->all[index];
	bool is_others;

	entry->gone = committed < 0 && entry->stands;
	if (entry->gone)
		return err_set(err, EX_CONFIG,
		    "%s[%d]: committed was %" PRId64 ", now nothing is: the "
		    "topic was deleted and created again, or the group's "
		    "offsets were deleted or expired",
		    covered->topic, (int)covered->partition, entry->most);
	/* It was at the start or above it: nothing is wrong with the stream. */
	if (committed >= 0 && entry->start > committed &&
	    (entry->was_committed || entry->most >= entry->start))
		return err_set(err, EX_TEMPFAIL,
		    "%s[%d]: committed is %" PRId64 ", was %" PRId64
		    ", the stream starts at %" PRId64 ": somebody else has "
		    "moved the group back: start again",
		    covered->topic, (int)covered->partition, committed,
		    entry->most < 0 ? entry->start : entry->most, entry->start);
	if (committed >= 0 && entry->start > committed)
		return err_set(err, EX_DATAERR,
		    "%s[%d]: the stream starts at %" PRId64 ", committed is "
		    "%" PRId64 ": that would skip what lies between (only "
		    "--set moves a group over it)",
		    covered->topic, (int)covered->partition, entry->start,
		    committed);
	is_others = entry->most >= 0 && committed > entry->most;
	entry->committed = committed < 0 ? -1 : committed;
	entry->stands = committed >= 0;
	if (entry->committed > entry->most)
		entry->most = entry->committed;
	entry->known = true;
	return is_others;
}

bool
commits_miss_some(const struct commits *commits)
{
	for (size_t i = 0; i < commits->coverage.count; i++)
		if (commits->all[i].gone)
			return true;
	return false;
}

/* What is to be committed of an entry; -1: nothing. */
static int64_t
wanted(const struct commits *commits, size_t index)
{
	const struct commits_entry *entry = &commits->all[index];
	int64_t next = commits->coverage.all[index].next;

	if (entry->acknowledged && next > entry->committed)
		return next;
	if (entry->committed < 0)
		return entry->start;
	return entry->renew ? entry->committed : -1;
}

bool
commits_must_read(const struct commits *commits)
{
	for (size_t i = 0; i < commits->coverage.count; i++)
		if (wanted(commits, i) >= 0 && !commits->all[i].known)
			return !commits->in_flight;
	return false;
}

bool
commits_are_due(const struct commits *commits)
{
	if (commits->in_flight || commits_must_read(commits))
		return false;
	for (size_t i = 0; i < commits->coverage.count; i++)
		if (wanted(commits, i) >= 0)
			return true;
	return false;
}

uint32_t
commits_begin(struct commits *commits)
{
	uint32_t count = 0;

	if (!commits_are_due(commits))
		return 0;
	for (size_t i = 0; i < commits->coverage.count; i++) {
		struct commits_entry *entry = &commits->all[i];

		entry->sent = wanted(commits, i);
		if (entry->sent > entry->most)
			entry->most = entry->sent;
		count += entry->sent >= 0;
	}
	commits->in_flight = true;
	return count;
}

void
commits_succeed(struct commits *commits)
{
	for (size_t i = 0; i < commits->coverage.count; i++) {
		struct commits_entry *entry = &commits->all[i];

		if (entry->sent < 0)
			continue;
		entry->committed = entry->sent;
		entry->stands = true;
		entry->sent = -1;
		entry->known = false;
		entry->renew = false;
	}
	commits->in_flight = false;
}

void
commits_fail(struct commits *commits)
{
	for (size_t i = 0; i < commits->coverage.count; i++) {
		commits->all[i].sent = -1;
		commits->all[i].known = false;
	}
	commits->in_flight = false;
}

void
commits_renew(struct commits *commits)
{
	for (size_t i = 0; i < commits->coverage.count; i++) {
		commits->all[i].renew = true;
		commits->all[i].known = false;
	}
}

/* "topic[7] none -> 9223372036854775807", and ", " before it. */
#define MOVE_BYTES (TOPIC_BYTES_MAX + 64)
#define MORE_BYTES 24

static size_t
describe_one(const struct commits *commits, size_t index, int64_t to,
    const char *before, char *text)
{
	const struct covered *covered = &commits->coverage.all[index];
	char old[24] = "none";

	if (commits->all[index].committed >= 0)
		snprintf(old, sizeof(old), "%" PRId64,
		    commits->all[index].committed);
	return (size_t)snprintf(text, MOVE_BYTES, "%s%s[%d] %s -> %" PRId64,
	    before, covered->topic, (int)covered->partition, old, to);
}

void
commits_describe(const struct commits *commits, char *text, size_t bytes)
{
	size_t used = 0, more = 0;

	text[0] = '\0';
	for (size_t i = 0; i < commits->coverage.count; i++) {
		int64_t to = commits->in_flight ? commits->all[i].sent
						: wanted(commits, i);

		if (to < 0)
			continue;
		if (bytes - used < MOVE_BYTES + MORE_BYTES)
			more++;
		else
			used += describe_one(
			    commits, i, to, used > 0 ? ", " : "", text + used);
	}
	if (more > 0)
		snprintf(text + used, bytes - used, ", %zu more", more);
}

bool
commits_are_done(const struct commits *commits)
{
	if (commits->in_flight)
		return false;
	for (size_t i = 0; i < commits->coverage.count; i++)
		if (commits->coverage.all[i].next > commits->all[i].committed &&
		    (commits->all[i].acknowledged ||
			commits->all[i].committed < 0))
			return false;
	return true;
}
