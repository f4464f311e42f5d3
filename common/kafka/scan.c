#include "kafka/scan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/msg.h"

/* The partitions asked for, or all. */
static int
choose_partitions(struct scan *scan, const uint32_t *numbers, size_t count,
    uint32_t topic_count, struct err *err)
{
	if (numbers == NULL)
		count = topic_count;
	else if (numbers[count - 1] >= topic_count)
		return err_set(err, EX_CONFIG,
		    "partition %" PRIu32 ": topic %s has %" PRIu32
		    ", from 0 on",
		    numbers[count - 1], scan->topic, topic_count);
	scan->points = calloc(count, sizeof(*scan->points));
	scan->index = calloc(topic_count, sizeof(*scan->index));
	if (scan->points == NULL || scan->index == NULL)
		return err_memory(err, "partitions");
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = numbers == NULL ? i : numbers[i];

		scan->points[i].partition = (int32_t)number;
		scan->index[number] = i;
	}
	scan->count = (uint32_t)count;
	return 0;
}

static int
begin(struct scan *scan, struct kafka_client *client, struct err *err)
{
	int64_t *ends = calloc(scan->count, sizeof(*ends));
	int result;

	if (ends == NULL)
		return err_memory(err, "partitions");
	for (uint32_t i = 0; i < scan->count; i++) {
		const struct start_point *point = &scan->points[i];

		ends[i] = point->high;
		scan->unfinished += point->offset < point->high;
		msg_write(MSG_INFO,
		    "%s[%d]: from %" PRId64 ", the log holds %" PRId64
		    " to %" PRId64,
		    scan->topic, (int)point->partition, point->offset,
		    point->low, point->high);
	}
	result = consumer_start(&scan->consumer, client, scan->topic,
	    scan->points, ends, scan->count, err);
	free(ends);
	return result;
}

int
scan_start(struct scan *scan, struct kafka_client *client, const char *topic,
    const uint32_t *numbers, size_t count, const struct start_rule *rule,
    uint64_t deadline_us, struct err *err)
{
	uint32_t topic_count;

	*scan = (struct scan){.topic = topic};
	if (kafka_client_partitions(
		client, topic, deadline_us, &topic_count, err) < 0 ||
	    choose_partitions(scan, numbers, count, topic_count, err) < 0 ||
	    start_resolve_explicit(client, rule, topic, deadline_us,
		scan->points, scan->count, err) < 0)
		return -1;
	return begin(scan, client, err);
}

void
scan_release(struct scan *scan)
{
	consumer_release(&scan->consumer);
	free(scan->points);
	free(scan->index);
	*scan = (struct scan){0};
}

int
scan_next(struct scan *scan, int timeout_ms, struct consumer_item *item,
    struct err *err)
{
	struct start_point *point;
	int event;
	bool wanted;

	if (scan->unfinished == 0)
		return SCAN_END;
	event = consumer_poll(&scan->consumer, timeout_ms, item, err);
	if (event < 0)
		return -1;
	if (event == CONSUMER_NOTHING)
		return SCAN_NOTHING;
	point = &scan->points[scan->index[item->partition]];
	if (point->offset >= point->high)
		return SCAN_NOTHING;
	if (item->offset < point->offset)
		return err_bug(
		    err, "a record from before its partition's position");
	wanted = event == CONSUMER_RECORD && item->offset < point->high;
	point->offset = item->offset + wanted;
	if (point->offset >= point->high) {
		scan->unfinished--;
		consumer_pause(&scan->consumer, point->partition);
	}
	return wanted ? SCAN_RECORD : SCAN_NOTHING;
}
