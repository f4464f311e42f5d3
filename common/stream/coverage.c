#include "stream/coverage.h"

#include <stdlib.h>

static int
compare(const struct covered *covered, struct slice topic, int32_t partition)
{
	int order = slice_compare(slice_of(covered->topic), topic);

	if (order != 0)
		return order;
	return (covered->partition > partition) -
	    (covered->partition < partition);
}

/* The index of the first entry that isn't less. */
static size_t
lower_bound(
    const struct coverage *coverage, struct slice topic, int32_t partition)
{
	size_t low = 0, high = coverage->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&coverage->all[middle], topic, partition) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t
coverage_find(
    const struct coverage *coverage, struct slice topic, int32_t partition)
{
	size_t i = lower_bound(coverage, topic, partition);

	return i < coverage->count &&
		compare(&coverage->all[i], topic, partition) == 0
	    ? i
	    : coverage->count;
}

static int
grow(struct coverage *coverage, struct err *err)
{
	size_t room = coverage->room == 0 ? 64 : 2 * coverage->room;
	struct covered *all =
	    realloc(coverage->all, checked_multiply(room, sizeof(*all)));

	if (all == NULL)
		return err_memory(err, "partitions");
	coverage->all = all;
	coverage->room = room;
	return 0;
}

int
coverage_start(struct coverage *coverage, struct slice topic, int32_t partition,
    int64_t offset, struct err *err)
{
	size_t i = lower_bound(coverage, topic, partition);
	char *name;

	if (i < coverage->count &&
	    compare(&coverage->all[i], topic, partition) == 0)
		return err_set(err, EX_DATAERR, "input: %s[%d] starts twice",
		    coverage->all[i].topic, (int)partition);
	if (coverage->count == coverage->room && grow(coverage, err) < 0)
		return -1;
	name = slice_dup(topic);
	if (name == NULL)
		return err_memory(err, "topic");
	memmove(coverage->all + i + 1, coverage->all + i,
	    (coverage->count - i) * sizeof(*coverage->all));
	coverage->all[i] = (struct covered){name, partition, offset};
	coverage->count++;
	return 0;
}

int
coverage_advance(struct coverage *coverage, struct slice topic,
    int32_t partition, int64_t from, int64_t next, struct err *err)
{
	size_t i = coverage_find(coverage, topic, partition);
	struct covered *covered;

	if (i == coverage->count && from == next)
		return coverage_start(coverage, topic, partition, from, err);
	if (i == coverage->count)
		return err_set(err, EX_DATAERR,
		    "input: %.*s[%d]: offsets %lld to %lld of a partition "
		    "that wasn't announced",
		    (int)topic.bytes, (const char *)topic.data, (int)partition,
		    (long long)from, (long long)next);
	covered = &coverage->all[i];
	if (from != covered->next || next < from)
		return err_set(err, EX_DATAERR,
		    "input: %s[%d]: offsets %lld to %lld, wants them from "
		    "%lld on",
		    covered->topic, (int)partition, (long long)from,
		    (long long)next, (long long)covered->next);
	covered->next = next;
	return 0;
}

void
coverage_release(struct coverage *coverage)
{
	for (size_t i = 0; i < coverage->count; i++)
		free(coverage->all[i].topic);
	free(coverage->all);
	*coverage = (struct coverage){0};
}
