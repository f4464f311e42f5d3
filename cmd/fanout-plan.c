/*
 * fanout-plan - Outbox records into dispatches, one for each dispatch
 * partition that has recipients of a message.
 *
 * Reads a records stream on stdin, writes a dispatches stream on stdout,
 * talks to nothing, stops at the end of its input.  What it writes depends on
 * the records and its options alone (but for the times of the steps), so
 * that it is safe to repeat: the same dispatches come again.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/topic.h"
#include "message/dead.h"
#include "message/plan.h"
#include "stream/figures.h"
#include "stream/pack.h"

static const char synopsis[] =
    "usage: fanout-plan [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                   [-n partitions] [--max-recipients count]\n"
    "                   [--max-bytes bytes] [--dead-letter topic]\n"
    "                   [--stats file] [--prom folder] [--chain name]\n";

/* The records of one frame; a record above it has a frame of its own. */
#define PART_BYTES ((size_t)4 << 20)

/* What a packed record has around its parts, at most. */
#define PACKED_BYTES_AROUND ((size_t)64)

static struct figure *const figures[] = {&stage_batches, &stage_records,
    &stage_bytes_out, &stage_progress, &stage_batches_in, &stage_records_in,
    &stage_bytes_in, &step_plan, &stage_dead_letters, NULL};

static struct options {
	struct opt_common common;
	uint64_t partitions;
	uint64_t max_recipients;
	uint64_t max_bytes;
	const char *dead_letter; /* NULL: stop there */
} options = {.common.figures.table = figures,
    .partitions = 64,
    .max_recipients = 1000,
    .max_bytes = 1000000};

static const struct opt table[] = {
    {'n', "partitions", OPT_NUMBER, &options.partitions, 1, 100000,
	"partitions"},
    {0, "max-recipients", OPT_NUMBER, &options.max_recipients, 1, 100000,
	"recipients"},
    {0, "max-bytes", OPT_NUMBER, &options.max_bytes, 1000, 15 << 20, "bytes"},
    {0, "dead-letter", OPT_TEXT, &options.dead_letter, .unit = "TOPIC"},
    {0},
};

/* A batch on its way from the input, in its parts, to the output, in parts
 * of its own. */
struct planner {
	struct stream_in in;
	struct stream_out out;
	struct outbox outbox;
	struct plan plan;
	struct buf records; /* packed, of the part to be written */
	uint32_t record_count; /* in records */
	uint32_t part; /* written of this batch */
	bool open; /* a part of the batch came, the last one didn't */
	uint64_t start_us; /* of the step */
	struct buf steps; /* of the stages before, raw */
	uint32_t step_count;
	struct buf value, headers; /* of one record */
};

static int
planner_init(struct planner *planner, struct err *err)
{
	*planner = (struct planner){0};
	stream_in_init(&planner->in, STDIN_FILENO, STREAM_RECORDS);
	stream_out_init(&planner->out, STDOUT_FILENO);
	outbox_init(&planner->outbox);
	return plan_init(&planner->plan, (uint32_t)options.partitions,
	    (uint32_t)options.max_recipients, options.max_bytes, err);
}

static void
planner_release(struct planner *planner)
{
	stream_in_release(&planner->in);
	stream_out_release(&planner->out);
	outbox_release(&planner->outbox);
	plan_release(&planner->plan);
	buf_release(&planner->records);
	buf_release(&planner->steps);
	buf_release(&planner->value);
	buf_release(&planner->headers);
}

static int
pass_hello(struct planner *planner, struct err *err)
{
	struct hello hello = planner->in.hello;

	if (options.dead_letter != NULL &&
	    slice_is(hello.topic, options.dead_letter))
		return err_set(err, EX_CONFIG,
		    "--dead-letter: '%s' is the source topic itself",
		    options.dead_letter);
	hello.kind = STREAM_DISPATCHES;
	hello.partitions = (uint32_t)options.partitions;
	hello.max_recipients = (uint32_t)options.max_recipients;
	return stream_out_hello(&planner->out, &hello, err);
}

/* Writes what was gathered as a part; as the whole batch, where it is the
 * first and the last.  The steps go with the last. */
static int
write_part(struct planner *planner, const struct batch *from, bool more,
    struct err *err)
{
	struct step step = {"plan", planner->start_us, clock_us()};
	struct batch batch = {.head = from->head, .more = more};

	if (planner->records.failed || planner->steps.failed)
		return err_memory(err, "output: records");
	if (more || planner->part > 0)
		batch.part = ++planner->part;
	batch.head.at = slice_of_buf(&planner->steps);
	batch.head.at_count = planner->step_count;
	if (more) {
		batch.head.at = (struct slice){NULL, 0};
		batch.head.at_count = 0;
	}
	if (stream_out_batch(&planner->out, &batch,
		slice_of_buf(&planner->records), planner->record_count, &step,
		more ? 0 : 1, err) < 0)
		return -1;
	buf_reset(&planner->records);
	planner->record_count = 0;
	return 0;
}

/* Adds a record to the part, or to the next one where it has no room. */
static int
gather(struct planner *planner, const struct batch *batch,
    const struct dispatch_record *record, struct err *err)
{
	size_t bytes = record->topic.bytes + record->key.bytes +
	    record->value.bytes + record->headers.bytes + PACKED_BYTES_AROUND;

	if (planner->record_count > 0 &&
	    planner->records.bytes + bytes > PART_BYTES &&
	    write_part(planner, batch, true, err) < 0)
		return -1;
	dispatch_record_pack(&planner->records, record);
	planner->record_count++;
	return 0;
}

static int
gather_dispatches(struct planner *planner, const struct batch *batch,
    const struct record *record, struct err *err)
{
	struct dispatch_record dispatch = {
	    .key = planner->plan.dispatch.conversation.bytes,
	    .headers = record->headers,
	    .src = record->src,
	    .offset = record->offset};
	uint32_t partition;
	int taken;

	for (;;) {
		buf_reset(&planner->value);
		taken =
		    plan_next(&planner->plan, &partition, &planner->value, err);
		if (taken <= 0)
			return taken;
		dispatch.partition = (int32_t)partition;
		dispatch.value = slice_of_buf(&planner->value);
		if (gather(planner, batch, &dispatch, err) < 0)
			return -1;
	}
}

/* What can't be planned becomes a dead letter, or ends the program. */
static int
bury(struct planner *planner, const struct batch *batch,
    const struct record *record, struct err *err)
{
	const struct range *source = &batch->head.src[record->src];
	struct dispatch_record letter;

	if (options.dead_letter == NULL)
		return err_prefix(err, "%.*s[%ld] offset %lld",
		    (int)source->topic.bytes, (const char *)source->topic.data,
		    (long)source->partition, (long long)record->offset);
	if (dead_make(record, source, options.dead_letter, err->text,
		options.max_bytes, &planner->headers, &letter, err) < 0)
		return -1;
	figure_add(&stage_dead_letters, 1);
	return gather(planner, batch, &letter, err);
}

static int
take_record(struct planner *planner, const struct batch *batch,
    const struct record *record, struct err *err)
{
	if (plan_record(&planner->plan, &planner->outbox, record, err) == 0)
		return gather_dispatches(planner, batch, record, err);
	if (err->code == EX_DATAERR)
		return bury(planner, batch, record, err);
	return -1;
}

static int
plan_batch(struct planner *planner, struct batch *batch, struct err *err)
{
	struct record record;
	int taken;

	if (!planner->open) {
		planner->start_us = clock_us();
		planner->part = planner->step_count = 0;
		buf_reset(&planner->steps);
	}
	planner->open = batch->more;
	pack_raw(&planner->steps, batch->head.at);
	planner->step_count += batch->head.at_count;
	while ((taken = record_next(batch, &record, err)) == 1)
		if (take_record(planner, batch, &record, err) < 0)
			return -1;
	if (taken < 0 || batch->more)
		return taken;
	return write_part(planner, batch, false, err);
}

static int
run(struct planner *planner, struct err *err)
{
	struct stream_item item;
	int event, result = 0;

	do {
		event = stream_in_wait(&planner->in, &item, err);
		if (event == STREAM_HELLO)
			result = pass_hello(planner, err);
		else if (event == STREAM_BATCH)
			result = plan_batch(planner, &item.batch, err);
		if (event >= 0)
			stream_item_release(&item);
	} while (event >= 0 && event != STREAM_END && result == 0);
	if (event < 0 || result < 0)
		return -1;
	if (stream_out_end(&planner->out, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

int
main(int argc, char **argv)
{
	static struct planner planner;
	struct err err;
	int result;

	result = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (result == OPT_SHOWN)
		return EX_OK;
	if (result < 0 ||
	    (options.dead_letter != NULL &&
		topic_check("--dead-letter", options.dead_letter, &err) < 0))
		return program_end(-1, &err);
	if (options.common.check)
		return EX_OK;
	if (program_signals(&options.common, &err) < 0)
		return program_end(-1, &err);
	result = planner_init(&planner, &err);
	if (result == 0)
		result = run(&planner, &err);
	planner_release(&planner);
	return program_end(result, &err);
}
