/* outbox-read and fanout-plan: what their main loops do, over gather and the
 * stream's modules. */
#include "world.h"

static uint64_t now_us;

/* At what is committed, or lower; or as a person says, which may be above. */
static struct start
choose_start(struct chain *chain, uint32_t s)
{
	const struct source *source = &world.source[s];
	int64_t committed = source->committed;
	struct start start = {
	    slice_of(SOURCE_TOPIC), (int32_t)s, committed, slice_of("stored")};

	if (committed < 0) {
		start.offset = 0;
		start.how = slice_of("first");
	} else if (committed > 0 && fault(100)) {
		world.tally.rewinds++;
		start.offset = random_below((uint32_t)committed);
	} else if (committed < source->end && !world.ordered && fault(50)) {
		chain->is_odd = true;
		start.offset +=
		    random_below((uint32_t)(source->end - committed) + 1);
		start.how = slice_of("explicit");
	}
	return start;
}

static int
write_batch(struct chain *chain, struct err *err)
{
	return gather_write(&chain->gather, &chain->out[READER], ++now_us, err);
}

int
reader_begin(struct chain *chain, struct err *err)
{
	const struct gather_limits limits = {3, 1000, 0};
	struct start start[SOURCES];
	struct hello hello = {.kind = STREAM_RECORDS,
	    .topic = slice_of(SOURCE_TOPIC),
	    .group = slice_of(GROUP),
	    .start = start,
	    .start_count = world.source_count};

	gather_init(&chain->gather, slice_of(SOURCE_TOPIC), &limits);
	for (uint32_t s = 0; s < world.source_count; s++) {
		start[s] = choose_start(chain, s);
		if (gather_add(
			&chain->gather, (int32_t)s, start[s].offset, err) < 0)
			return -1;
	}
	if (stream_out_hello(&chain->out[READER], &hello, err) < 0)
		return -1;
	gather_name(&chain->gather, 0, ++now_us);
	return write_batch(chain, err);
}

/* Partitions that the topic has got. */
static int
join(struct chain *chain, struct err *err)
{
	struct gather *gather = &chain->gather;
	uint32_t first = gather->count;

	world.tally.joins++;
	chain->is_odd = true;
	if (gather_is_open(gather) && write_batch(chain, err) < 0)
		return -1;
	for (uint32_t s = first; s < world.source_count; s++) {
		int64_t committed = world.source[s].committed;

		if (gather_add(gather, (int32_t)s,
			committed < 0 ? 0 : committed, err) < 0)
			return -1;
	}
	gather_name(gather, first, ++now_us);
	return write_batch(chain, err);
}

/* The next record of a partition, or what lies behind its last one. */
static int
read_one(struct chain *chain, uint32_t s, struct err *err)
{
	struct gather *gather = &chain->gather;
	const struct source *source = &world.source[s];
	uint32_t r = 0;
	struct record record;

	while (r < source->count && source->offset[r] < gather->all[s].next)
		r++;
	if (r == source->count) {
		gather_cover(gather, s, source->end, ++now_us);
		return 0;
	}
	record = (struct record){.offset = source->offset[r],
	    .timestamp_ms = -1,
	    .value = slice_of_buf(&source->value[r])};
	if (!gather_has_room(gather, gather_record_bytes(&record)) &&
	    write_batch(chain, err) < 0)
		return -1;
	gather_record(gather, s, &record, ++now_us);
	return 0;
}

static bool
is_read(const struct chain *chain)
{
	for (uint32_t s = 0; s < chain->gather.count; s++)
		if (chain->gather.all[s].next < world.source[s].end)
			return false;
	return true;
}

enum life
reader_turn(struct chain *chain, struct err *err)
{
	struct gather *gather = &chain->gather;
	uint32_t s = random_below(gather->count);
	int result = 0;

	if (gather->count < world.source_count && chance(20))
		return join(chain, err) < 0 ? DEAD : ALIVE;
	if (gather->all[s].next < world.source[s].end)
		result = read_one(chain, s, err);
	if (result == 0 && gather_is_open(gather) &&
	    (gather_is_due(gather, ++now_us) || chance(20) || is_read(chain)))
		result = write_batch(chain, err);
	if (result < 0)
		return DEAD;
	if (!is_read(chain) || gather_is_open(gather))
		return ALIVE;
	return stream_out_end(&chain->out[READER], err) < 0 ? DEAD : DONE;
}

static int
write_part(struct chain *chain, const struct item_head *head, uint32_t part,
    bool more, struct buf *records, uint32_t count, struct err *err)
{
	struct batch batch = {.head = *head, .part = part, .more = more};
	int result;

	batch.head.at = (struct slice){0};
	batch.head.at_count = 0;
	result = stream_out_batch(&chain->out[PLANNER], &batch,
	    slice_of_buf(records), count, NULL, 0, err);
	buf_reset(records);
	return result;
}

/* In a part for each record, or whole. */
static int
plan_batch(struct chain *chain, struct batch *batch, struct err *err)
{
	static struct buf records;
	bool in_parts = batch->rec_count > 1 && chance(20);
	struct record record;
	uint32_t count = 0, part = 0;
	int more, planned;

	buf_reset(&records);
	while ((more = record_next(batch, &record, err)) == 1) {
		if (world.flaw == FLAW_FORGOTTEN && chance(3))
			continue;
		planned = outbox_plan(
		    &record, &batch->head.src[record.src], &records, err);
		if (planned < 0)
			return -1;
		count += (uint32_t)planned;
		if (!in_parts || batch->rec_count == 0)
			continue;
		world.tally.parts++;
		if (write_part(chain, &batch->head, ++part, true, &records,
			count, err) < 0)
			return -1;
		count = 0;
	}
	if (more < 0)
		return -1;
	return write_part(chain, &batch->head, part > 0 ? part + 1 : 0, false,
	    &records, count, err);
}

enum life
planner_turn(struct chain *chain, struct err *err)
{
	struct stream_item item;
	int event = stream_in_next(&chain->in[PLANNER], &item, err);
	struct hello hello = chain->in[PLANNER].hello;
	int result = 0;

	if (event == STREAM_HELLO) {
		hello.kind = STREAM_DISPATCHES;
		hello.partitions = TARGETS;
		hello.max_recipients = RECIPIENTS_MAX;
		result = stream_out_hello(&chain->out[PLANNER], &hello, err);
	} else if (event == STREAM_BATCH) {
		result = plan_batch(chain, &item.batch, err);
	}
	if (event >= 0)
		stream_item_release(&item);
	if (event < 0 || result < 0)
		return DEAD;
	if (event != STREAM_END)
		return ALIVE;
	return stream_out_end(&chain->out[PLANNER], err) < 0 ? DEAD : DONE;
}
