/*
 * stream-dump - any qim stream as JSON lines, for people and for jq.
 *
 * Reads a stream on stdin and writes a line per frame, per record (--rec) or
 * per batch's times (--time) on stdout.  Talks to nothing, stops at the end
 * of the stream, is safe to repeat.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "stream/jsonl.h"
#include "stream/record.h"
#include "stream/view.h"

static const char synopsis[] =
    "usage: stream-dump [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                   [-d] [--part] [--rec | --time]\n";

static struct options {
	struct opt_common common;
	bool decode; /* -d */
	bool part;
	bool records; /* --rec */
	bool times; /* --time */
} options;

static const struct opt table[] = {
    {'d', "decode", OPT_FLAG, &options.decode},
    {0, "part", OPT_FLAG, &options.part},
    {0, "rec", OPT_FLAG, &options.records},
    {0, "time", OPT_FLAG, &options.times},
    {0},
};

static struct jsonl output;

static enum view_bin
bin_view(void)
{
	return options.decode ? VIEW_BIN_DECODE : VIEW_BIN_TEXT;
}

/* The map as it is.  Only records have their bin shown as text, since only
 * there stream-make knows that it was bin. */
static int
print_map(struct slice map, struct err *err)
{
	struct cursor cursor = cursor_of(map);
	uint32_t pairs = cursor_map(&cursor);
	json_t *object = json_object();

	while (pairs-- > 0) {
		char *key = view_key(&cursor);
		enum view_bin bin = key != NULL && strcmp(key, "rec") == 0
		    ? bin_view()
		    : VIEW_BIN_BASE64;
		int failed = key == NULL ||
		    json_object_set_new(
			object, key, view_msgpack(&cursor, bin)) < 0;

		free(key);
		if (failed) {
			json_decref(object);
			return err_memory(err, "output");
		}
	}
	return jsonl_print(&output, object, err);
}

static json_t *
view_source(const struct item_head *head, uint32_t src, int64_t offset)
{
	const struct range *range = &head->src[src];

	return json_pack("[oiI]", view_bytes(range->topic, "str64"),
	    (int)range->partition, (json_int_t)offset);
}

static json_t *
view_headers(struct slice headers)
{
	struct cursor cursor = cursor_of(headers);

	return headers.data == NULL ? json_null()
				    : view_msgpack(&cursor, bin_view());
}

static int
print_records(struct batch *batch, struct err *err)
{
	struct record record;
	int more;

	while ((more = record_next(batch, &record, err)) == 1)
		if (jsonl_print(&output,
			json_pack("{s:o,s:I,s:o,s:o,s:o}", "src",
			    view_source(
				&batch->head, record.src, record.offset),
			    "timestamp", (json_int_t)record.timestamp_ms, "key",
			    view_bin(record.key, bin_view()), "value",
			    view_bin(record.value, bin_view()), "headers",
			    view_headers(record.headers)),
			err) < 0)
			return -1;
	return more;
}

static int
print_dispatches(struct batch *batch, struct err *err)
{
	struct dispatch_record record;
	int more;

	while ((more = dispatch_record_next(batch, &record, err)) == 1)
		if (jsonl_print(&output,
			json_pack("{s:o,s:o,s:i,s:o,s:o,s:o}", "src",
			    view_source(
				&batch->head, record.src, record.offset),
			    "topic", view_bytes(record.topic, "str64"),
			    "partition", (int)record.partition, "key",
			    view_bin(record.key, bin_view()), "value",
			    view_bin(record.value, bin_view()), "headers",
			    view_headers(record.headers)),
			err) < 0)
			return -1;
	return more;
}

/* Each step as [program, step, start, duration], microseconds, counted from
 * the first start of the batch. */
static json_t *
view_steps(const struct item_head *head)
{
	struct cursor cursor = cursor_of(head->at);
	json_t *steps = json_array();
	uint64_t zero = UINT64_MAX;

	for (uint32_t i = 0; i < head->at_count; i++) {
		uint32_t beyond = cursor_array_of(&cursor, 4);
		struct slice program = cursor_str(&cursor);
		struct slice name = cursor_str(&cursor);
		uint64_t start_us = cursor_u64(&cursor);
		uint64_t end_us = cursor_u64(&cursor);

		cursor_skip(&cursor, beyond);
		if (cursor.bad)
			break;
		zero = start_us < zero ? start_us : zero;
		if (json_array_append_new(steps,
			json_pack("[ooII]", view_bytes(program, "str64"),
			    view_bytes(name, "str64"),
			    (json_int_t)(start_us - zero),
			    (json_int_t)(end_us - start_us))) < 0) {
			json_decref(steps);
			return NULL;
		}
	}
	return steps;
}

static int
print_times(const struct item_head *head, uint64_t records, struct err *err)
{
	return jsonl_print(&output,
	    json_pack("{s:I,s:I,s:o}", "batch", (json_int_t)head->number,
		"records", (json_int_t)records, "steps_us", view_steps(head)),
	    err);
}

/* The records of a batch in parts are counted with its last part. */
static int
print_item(
    int event, struct stream_item *item, enum stream_kind kind, struct err *err)
{
	static uint64_t part_records;

	if (!options.records && !options.times)
		return print_map(item->frame.map, err);
	if (event == STREAM_RECEIPT)
		return options.times
		    ? print_times(&item->receipt.head, item->receipt.in, err)
		    : 0;
	if (options.records)
		return kind == STREAM_RECORDS
		    ? print_records(&item->batch, err)
		    : print_dispatches(&item->batch, err);
	part_records += item->batch.rec_count;
	if (item->batch.more)
		return 0;
	if (print_times(&item->batch.head, part_records, err) < 0)
		return -1;
	part_records = 0;
	return 0;
}

static int
print_end(const struct stream_in *in, struct err *err)
{
	if (options.records || options.times || !in->has_end)
		return 0;
	return jsonl_print(&output,
	    json_pack("{s:b,s:I,s:I}", "end", true, "batches",
		(json_int_t)in->batches, "records", (json_int_t)in->records),
	    err);
}

/* A tail that waits must not hold back what has come. */
static int
flush_when_idle(struct err *err)
{
	if (output.lines.bytes == 0)
		return 0;
	return io_wait_readable(STDIN_FILENO, 0, err) == 0
	    ? jsonl_flush(&output, err)
	    : 0;
}

static int
run(struct stream_in *in, struct err *err)
{
	struct stream_item item;
	int event, result = 0;

	do {
		if (flush_when_idle(err) < 0)
			return -1;
		event = stream_in_next(in, &item, err);
		if (event == STREAM_HELLO && !options.records && !options.times)
			result = print_map(in->hello_frame.map, err);
		else if (event == STREAM_BATCH || event == STREAM_RECEIPT)
			result = print_item(event, &item, in->hello.kind, err);
		else if (event == STREAM_END)
			result = print_end(in, err);
		if (event >= 0)
			stream_item_release(&item);
	} while (event >= 0 && event != STREAM_END && result == 0);
	return event < 0 || result < 0 ? -1 : 0;
}

static int
dump(struct err *err)
{
	struct stream_in in;
	struct err flush_err;
	int result;

	stream_in_init(&in, STDIN_FILENO, STREAM_ANY);
	in.partial = options.part;
	jsonl_init(&output, STDOUT_FILENO);
	result = run(&in, err);
	/* What came before an error is shown. */
	if (jsonl_flush(&output, &flush_err) < 0 && result == 0) {
		*err = flush_err;
		result = -1;
	}
	if (result == 0)
		result = io_close_output(STDOUT_FILENO, err);
	jsonl_release(&output);
	stream_in_release(&in);
	return result;
}

int
main(int argc, char **argv)
{
	struct err err;
	int parsed;

	json_set_alloc_funcs(program_alloc, free);
	parsed = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (parsed == OPT_SHOWN)
		return EX_OK;
	if (parsed < 0)
		return msg_fail(&err);
	if (options.records && options.times) {
		err_set(&err, EX_USAGE, "--rec, --time: one or the other");
		return msg_fail(&err);
	}
	if (options.common.check)
		return EX_OK;
	if (program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	return dump(&err) < 0 ? msg_fail(&err) : EX_OK;
}
