#include "kafka/source.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/msg.h"

/* Makes room for `count` partitions, of `topic_count`. */
static int
make_room(
    struct source *source, size_t count, size_t topic_count, struct err *err)
{
	struct start_point *points =
	    realloc(source->points, checked_multiply(count, sizeof(*points)));
	int64_t *ends;
	uint32_t *index;

	if (points != NULL)
		source->points = points;
	ends = realloc(source->ends, checked_multiply(count, sizeof(*ends)));
	if (ends != NULL)
		source->ends = ends;
	index = realloc(
	    source->index, checked_multiply(topic_count, sizeof(*index)));
	if (index != NULL)
		source->index = index;
	return points == NULL || ends == NULL || index == NULL
	    ? err_memory(err, "partitions")
	    : 0;
}

/* Partition `number` is the next of the points, at place `i`. */
static void
place(struct source *source, uint32_t i, uint32_t number)
{
	source->points[i] = (struct start_point){.partition = (int32_t)number};
	source->index[number] = i;
}

int
source_check_chosen(
    const struct source *source, uint32_t topic_count, struct err *err)
{
	if (source->chosen == NULL ||
	    source->chosen[source->chosen_count - 1] < topic_count)
		return 0;
	return err_set(err, EX_CONFIG,
	    "-p %s: topic %s has %" PRIu32 " partitions, from 0 on",
	    source->chosen_text, source->topic, topic_count);
}

static int
choose(struct source *source, struct err *err)
{
	const uint32_t *numbers = source->chosen;
	size_t count =
	    numbers == NULL ? source->topic_count : source->chosen_count;

	if (source_check_chosen(source, source->topic_count, err) < 0)
		return -1;
	if (make_room(source, count, source->topic_count, err) < 0)
		return -1;
	source->count = (uint32_t)count;
	for (uint32_t i = 0; i < source->count; i++)
		place(source, i, numbers == NULL ? i : numbers[i]);
	return 0;
}

static void
say(const struct source *source, enum msg_level level, const char *what,
    const struct start_point *point)
{
	msg_write(level,
	    "%s[%d]: %sfrom %" PRId64 " (%s), the log holds %" PRId64
	    " to %" PRId64,
	    source->topic, (int)point->partition, what, point->offset,
	    point->how, point->low, point->high);
}

int
source_find(struct source *source, uint64_t deadline_us, struct err *err)
{
	if (kafka_client_partitions(source->client, source->topic, deadline_us,
		&source->topic_count, err) < 0 ||
	    choose(source, err) < 0 ||
	    start_resolve(source->client, source->rule, source->positions,
		source->topic, source->topic_count, deadline_us, source->points,
		source->count, err) < 0)
		return -1;
	for (uint32_t i = 0; i < source->count; i++) {
		say(source, MSG_INFO, "", &source->points[i]);
		source->ends[i] =
		    source->at_end ? source->points[i].high : INT64_MAX;
	}
	return 0;
}

void
source_release(struct source *source)
{
	free(source->points);
	free(source->ends);
	free(source->index);
}

bool
source_can_grow(const struct source *source)
{
	return source->chosen == NULL && !source->at_end;
}

int
source_join(struct source *source, uint32_t topic_count, uint64_t deadline_us,
    struct err *err)
{
	uint32_t old = source->count;

	if (make_room(source, topic_count, topic_count, err) < 0)
		return -1;
	for (uint32_t i = old; i < topic_count; i++)
		place(source, i, i);
	if (start_resolve_joined(source->client, source->rule, source->topic,
		topic_count, deadline_us, source->points + old,
		topic_count - old, err) < 0)
		return -1;
	for (uint32_t i = old; i < topic_count; i++) {
		say(source, MSG_NOTICE, "a new partition, ",
		    &source->points[i]);
		source->ends[i] = INT64_MAX;
	}
	source->count = source->topic_count = topic_count;
	return 0;
}
