#include "kafka/gather.h"

#include <stdlib.h>

void
gather_init(struct gather *gather, struct slice topic,
    const struct gather_limits *limits)
{
	*gather = (struct gather){.limits = *limits, .topic = topic};
	buf_init(&gather->records);
}

void
gather_release(struct gather *gather)
{
	free(gather->all);
	free(gather->src);
	buf_release(&gather->records);
	*gather = (struct gather){0};
}

int
gather_add(
    struct gather *gather, int32_t partition, int64_t next, struct err *err)
{
	size_t count = (size_t)gather->count + 1;
	struct gather_partition *all =
	    realloc(gather->all, checked_multiply(count, sizeof(*all)));
	struct range *src;

	if (all == NULL)
		return err_memory(err, "partitions");
	gather->all = all;
	src = realloc(gather->src, checked_multiply(count, sizeof(*src)));
	if (src == NULL)
		return err_memory(err, "partitions");
	gather->src = src;
	all[gather->count++] =
	    (struct gather_partition){partition, next, GATHER_UNMOVED};
	return 0;
}

/* The range of a partition in this batch, begun where it has none. */
static struct range *
range_of(struct gather *gather, uint32_t index, uint64_t now_us)
{
	struct gather_partition *at = &gather->all[index];

	if (at->src != GATHER_UNMOVED)
		return &gather->src[at->src];
	if (gather->src_count == 0)
		gather->first_us = now_us;
	at->src = gather->src_count++;
	gather->src[at->src] =
	    (struct range){gather->topic, at->partition, at->next, at->next};
	return &gather->src[at->src];
}

void
gather_name(struct gather *gather, uint32_t first, uint64_t now_us)
{
	for (uint32_t i = first; i < gather->count; i++)
		range_of(gather, i, now_us);
}

size_t
gather_record_bytes(const struct record *record)
{
	return GATHER_RECORD_OVERHEAD + record->key.bytes +
	    record->value.bytes + record->headers.bytes;
}

bool
gather_has_room(const struct gather *gather, size_t record_bytes)
{
	if (gather->record_count == 0)
		return gather->src_count == 0 ||
		    record_bytes <= gather->limits.bytes;
	return gather->record_count < gather->limits.records &&
	    gather->records.bytes + record_bytes <= gather->limits.bytes;
}

void
gather_cover(
    struct gather *gather, uint32_t index, int64_t next, uint64_t now_us)
{
	if (next <= gather->all[index].next)
		return;
	range_of(gather, index, now_us)->next = next;
	gather->all[index].next = next;
}

void
gather_record(struct gather *gather, uint32_t index, struct record *record,
    uint64_t now_us)
{
	gather_cover(gather, index, record->offset + 1, now_us);
	record->src = gather->all[index].src;
	record_pack(&gather->records, record);
	gather->record_count++;
}

bool
gather_is_open(const struct gather *gather)
{
	return gather->src_count > 0;
}

bool
gather_is_due(const struct gather *gather, uint64_t now_us)
{
	if (gather->src_count == 0)
		return false;
	return gather->record_count >= gather->limits.records ||
	    gather->records.bytes >= gather->limits.bytes ||
	    (gather->limits.wait_us > 0 &&
		now_us - gather->first_us >= gather->limits.wait_us);
}

int
gather_write(struct gather *gather, struct stream_out *out, uint64_t now_us,
    struct err *err)
{
	struct batch batch = {.head = {.number = gather->batches + 1,
				  .src = gather->src,
				  .src_count = gather->src_count}};
	struct step step = {"read", gather->first_us, now_us};

	if (gather->records.failed)
		return err_memory(err, "batch");
	if (stream_out_batch(out, &batch, slice_of_buf(&gather->records),
		gather->record_count, &step, 1, err) < 0)
		return -1;
	gather->batches++;
	for (uint32_t i = 0; i < gather->count; i++)
		gather->all[i].src = GATHER_UNMOVED;
	gather->src_count = gather->record_count = 0;
	buf_reset(&gather->records);
	return 0;
}
