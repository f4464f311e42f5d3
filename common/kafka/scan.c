#include "kafka/scan.h"

int
scan_start(struct scan *scan, uint64_t deadline_us, struct err *err)
{
	struct source *source = &scan->source;

	source->at_end = true;
	if (source_find(source, deadline_us, err) < 0)
		return -1;
	for (uint32_t i = 0; i < source->count; i++)
		scan->unfinished += source->points[i].offset < source->ends[i];
	if (consumer_start(&scan->consumer, source->client, source->topic,
		source->points, source->ends, source->count, err) < 0)
		return -1;
	scan->consumer.watch.partitions = source->topic_count;
	return 0;
}

void
scan_release(struct scan *scan)
{
	consumer_release(&scan->consumer);
	source_release(&scan->source);
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
	point = &scan->source.points[scan->source.index[item->partition]];
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
