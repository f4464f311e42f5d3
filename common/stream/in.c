#include <stdlib.h>

#include "base/io.h"
#include "stream/figures.h"
#include "stream/stream.h"

void
stream_in_init(struct stream_in *in, int fd, enum stream_kind wanted)
{
	*in = (struct stream_in){.wanted = wanted};
	frame_reader_init(&in->reader, fd);
}

void
stream_in_release(struct stream_in *in)
{
	frame_reader_release(&in->reader);
	frame_release(&in->hello_frame);
	buf_release(&in->extra);
	buf_release(&in->part_src);
	coverage_release(&in->coverage);
	free(in->hello.start);
	in->hello.start = NULL;
}

void
stream_item_release(struct stream_item *item)
{
	frame_release(&item->frame);
	free(item->batch.head.src);
	free(item->receipt.head.src);
	item->batch.head.src = item->receipt.head.src = NULL;
}

/* What is likely missing, or too much, before this program. */
static const char *
hint(enum stream_kind found, enum stream_kind wanted)
{
	if (wanted == STREAM_RECEIPTS && found == STREAM_RECORDS)
		return "is fanout-plan with dispatch-produce, or "
		       "mailbox-apply, missing before it?";
	if (wanted == STREAM_RECEIPTS)
		return "is dispatch-produce missing before it?";
	if (wanted == STREAM_DISPATCHES && found == STREAM_RECORDS)
		return "is fanout-plan, or another stage that writes "
		       "dispatches, missing before it?";
	if (wanted == STREAM_RECORDS)
		return "it comes right after outbox-read";
	return "receipts go to offset-commit";
}

static int
take_hello(struct stream_in *in, struct frame *frame, struct err *err)
{
	struct hello *hello = &in->hello;

	in->hello_frame = *frame;
	*frame = (struct frame){0};
	if (hello_decode(in->hello_frame.map, hello, &in->extra, err) < 0)
		return -1;
	if (hello->kind == STREAM_ANY)
		return err_set(err, EX_PROTOCOL,
		    "input: a kind of stream that this version doesn't know");
	if (in->wanted != STREAM_ANY && hello->kind != in->wanted)
		return err_set(err, EX_PROTOCOL,
		    "input: '%s' from %.*s, wants '%s': %s",
		    stream_kind_name(hello->kind), (int)hello->from.bytes,
		    (const char *)hello->from.data,
		    stream_kind_name(in->wanted),
		    hint(hello->kind, in->wanted));
	for (uint32_t i = 0; i < hello->start_count && !in->partial; i++)
		if (coverage_start(&in->coverage, hello->start[i].topic,
			hello->start[i].partition, hello->start[i].offset,
			err) < 0)
			return -1;
	in->has_hello = true;
	return STREAM_HELLO;
}

static int
advance_coverage(
    struct stream_in *in, const struct item_head *head, struct err *err)
{
	for (uint32_t i = 0; i < head->src_count; i++) {
		const struct range *range = &head->src[i];

		if (in->partial &&
		    coverage_find(&in->coverage, range->topic,
			range->partition) == in->coverage.count &&
		    coverage_start(&in->coverage, range->topic,
			range->partition, range->from, err) < 0)
			return -1;
		if (coverage_advance(&in->coverage, range->topic,
			range->partition, range->from, range->next, err) < 0)
			return -1;
	}
	return 0;
}

/* Of a part of a stream, its first frame says where it begins. */
static void
take_place(struct stream_in *in, uint64_t number, uint32_t part)
{
	if (in->partial && !in->has_place) {
		in->batches = number > 0 ? number - 1 : 0;
		in->parts_missing = part > 1 ? part - 1 : 0;
	}
	in->has_place = true;
}

static int
check_number(struct stream_in *in, uint64_t number, struct err *err)
{
	if (number == in->batches + 1)
		return 0;
	return err_set(err, EX_DATAERR, "input: batch %llu, wants %llu",
	    (unsigned long long)number, (unsigned long long)in->batches + 1);
}

/* Parts come in order, and all with the ranges of the first. */
static int
check_part(struct stream_in *in, const struct batch *batch, struct slice src,
    struct err *err)
{
	bool first = in->part == 0;
	uint32_t wanted = 1 + (first ? in->parts_missing : in->part);

	in->parts_missing = 0;
	if (batch->part != (first && batch->part == 0 ? 0 : wanted) ||
	    (batch->part == 0 && batch->more))
		return err_set(err, EX_DATAERR,
		    "input: batch %llu: part %lu, wants %lu",
		    (unsigned long long)batch->head.number,
		    (unsigned long)batch->part, (unsigned long)wanted);
	if (!first && !slice_equal(src, slice_of_buf(&in->part_src)))
		return err_set(err, EX_DATAERR,
		    "input: batch %llu: part %lu has other ranges than the "
		    "first",
		    (unsigned long long)batch->head.number,
		    (unsigned long)batch->part);
	if (first && advance_coverage(in, &batch->head, err) < 0)
		return -1;
	if (first && batch->more) {
		buf_reset(&in->part_src);
		buf_append(&in->part_src, src.data, src.bytes);
		if (in->part_src.failed)
			return err_memory(err, "input: batch");
	}
	return 0;
}

static int
take_batch(struct stream_in *in, struct stream_item *item, struct err *err)
{
	struct batch *batch = &item->batch;
	struct slice src = {0};

	if (batch_decode(item->frame.map, batch, &src, err) < 0)
		return -1;
	take_place(in, batch->head.number, batch->part);
	if (check_number(in, batch->head.number, err) < 0 ||
	    check_part(in, batch, src, err) < 0)
		return -1;
	in->part = batch->more ? batch->part : 0;
	in->batches += !batch->more;
	in->records += batch->rec_count;
	return STREAM_BATCH;
}

static int
take_receipt(struct stream_in *in, struct stream_item *item, struct err *err)
{
	struct receipt *receipt = &item->receipt;

	if (receipt_decode(item->frame.map, receipt, err) < 0)
		return -1;
	take_place(in, receipt->head.number, 0);
	if (check_number(in, receipt->head.number, err) < 0 ||
	    advance_coverage(in, &receipt->head, err) < 0)
		return -1;
	in->batches++;
	in->records += receipt->in;
	return STREAM_RECEIPT;
}

/* A part counts its batches only from where it began, its records never:
 * there the end's word is taken. */
static bool
end_counts(struct stream_in *in, uint64_t batches, uint64_t records)
{
	if (in->partial) {
		if (!in->has_place)
			in->batches = batches;
		in->records = records;
	}
	return in->part == 0 && batches == in->batches &&
	    records == in->records;
}

/* 1: it is an end frame that counts right, 0: another frame. */
static int
take_end(struct stream_in *in, struct slice map, struct err *err)
{
	struct cursor cursor = cursor_of(map);
	uint32_t pairs = cursor_map(&cursor);
	bool is_end = false;
	uint64_t batches = UINT64_MAX, records = UINT64_MAX;

	for (; pairs > 0 && !cursor.bad; pairs--) {
		struct slice key = cursor_str(&cursor);

		if (slice_is(key, "end"))
			is_end = cursor_bool(&cursor);
		else if (slice_is(key, "batches") &&
		    cursor_peek(&cursor) == MP_UINT)
			batches = cursor_u64(&cursor);
		else if (slice_is(key, "records") &&
		    cursor_peek(&cursor) == MP_UINT)
			records = cursor_u64(&cursor);
		else if (!is_end && slice_is(key, "batch"))
			return 0;
		else
			cursor_skip(&cursor, 1);
	}
	if (!is_end)
		return 0;
	if (cursor.bad || !end_counts(in, batches, records))
		return err_set(err, EX_DATAERR,
		    "input: end of %llu batches with %llu records, there "
		    "were %llu with %llu",
		    (unsigned long long)batches, (unsigned long long)records,
		    (unsigned long long)in->batches,
		    (unsigned long long)in->records);
	return 1;
}

static int
take_frame(struct stream_in *in, struct stream_item *item, struct err *err)
{
	int end;

	if (in->has_end)
		return err_set(err, EX_DATAERR, "input: a frame after the end");
	if (!in->has_hello)
		return take_hello(in, &item->frame, err);
	end = take_end(in, item->frame.map, err);
	if (end < 0)
		return -1;
	if (end == 1) {
		in->has_end = true;
		frame_release(&item->frame);
		return STREAM_AGAIN;
	}
	if (in->hello.kind == STREAM_RECEIPTS)
		return take_receipt(in, item, err);
	return take_batch(in, item, err);
}

static int
at_eof(const struct stream_in *in, struct err *err)
{
	if (in->has_end || (in->partial && in->has_hello))
		return STREAM_END;
	return err_set(err, EX_TEMPFAIL, "input: torn: it ends %s",
	    in->has_hello ? "without an end frame" : "before the hello");
}

static void
note_taken(const struct stream_in *in)
{
	figure_set(&stage_batches_in, in->batches);
	figure_set(&stage_records_in, in->records);
	figure_set(&stage_bytes_in, in->reader.at);
}

int
stream_in_next(struct stream_in *in, struct stream_item *item, struct err *err)
{
	int result;

	*item = (struct stream_item){0};
	result = frame_read(&in->reader, &item->frame, err);
	if (result == FRAME_AGAIN)
		return STREAM_AGAIN;
	if (result == FRAME_EOF)
		return at_eof(in, err);
	if (result == FRAME_READY) {
		result = take_frame(in, item, err);
		note_taken(in);
	}
	if (result < 0)
		stream_item_release(item);
	/* A torn frame after the end is still a frame after the end. */
	if (result < 0 && in->has_end && err->code == EX_TEMPFAIL)
		err->code = EX_DATAERR;
	return result;
}

int
stream_in_wait(struct stream_in *in, struct stream_item *item, struct err *err)
{
	int event;

	do
		event = stream_in_next(in, item, err);
	while (event == STREAM_AGAIN);
	return event;
}
