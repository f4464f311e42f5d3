#include <unistd.h>

#include "base/failpoint.h"
#include "base/msg.h"
#include "stream/figures.h"
#include "stream/pack.h"
#include "stream/stream.h"

void
stream_out_init(struct stream_out *out, int fd)
{
	*out = (struct stream_out){.fd = fd};
	buf_init(&out->head);
}

void
stream_out_release(struct stream_out *out)
{
	buf_release(&out->head);
}

static int
write_frame(struct stream_out *out, struct slice rest, struct err *err)
{
	if (out->head.failed)
		return err_memory(err, "output: frame");
	if (frame_write(out->fd, slice_of_buf(&out->head), rest, err) < 0)
		return -1;
	figure_add(
	    &stage_bytes_out, FRAME_HEAD_BYTES + out->head.bytes + rest.bytes);
	return 0;
}

/* What has gone out as a batch, a part of one, or a receipt. */
static void
note_written(uint64_t records, bool is_last, const struct step *steps,
    uint32_t step_count)
{
	figure_add(&stage_records, records);
	if (!is_last)
		return;
	figure_add(&stage_batches, 1);
	for (uint32_t i = 0; i < step_count; i++)
		step_observe(
		    steps[i].name, steps[i].end_us - steps[i].start_us);
	if (step_count > 0)
		figure_set(&stage_progress, steps[step_count - 1].end_us);
}

static void
pack_starts(struct buf *buf, const struct hello *hello)
{
	pack_array(buf, hello->start_count);
	for (uint32_t i = 0; i < hello->start_count; i++) {
		pack_array(buf, 4);
		pack_str(buf, hello->start[i].topic);
		pack_i64(buf, hello->start[i].partition);
		pack_i64(buf, hello->start[i].offset);
		pack_str(buf, hello->start[i].how);
	}
}

int
stream_out_check(int fd, struct err *err)
{
	if (!isatty(fd))
		return 0;
	return err_set(err, EX_USAGE,
	    "output: a terminal can't show a stream: pipe it to the next "
	    "stage or to stream-dump");
}

int
stream_out_hello(
    struct stream_out *out, const struct hello *hello, struct err *err)
{
	struct buf *buf = &out->head;
	bool receipts = hello->kind == STREAM_RECEIPTS;
	uint32_t pairs = 8 + hello->extra_count;

	pairs += hello->partitions > 0 ? 1 : 0;
	pairs += hello->max_recipients > 0 ? 1 : 0;
	pairs += receipts ? 1 : 0;
	if (stream_out_check(out->fd, err) < 0)
		return -1;
	buf_reset(buf);
	pack_map(buf, pairs);
	pack_text(buf, "qim");
	pack_u64(buf, STREAM_MAJOR);
	pack_text(buf, "minor");
	pack_u64(buf, STREAM_MINOR);
	pack_text(buf, "kind");
	pack_text(buf, stream_kind_name(hello->kind));
	pack_text(buf, "from");
	pack_text(buf, msg_program());
	pack_text(buf, "run");
	pack_u64(buf, hello->run);
	pack_text(buf, "topic");
	pack_str(buf, hello->topic);
	pack_text(buf, "group");
	pack_str(buf, hello->group);
	pack_text(buf, "start");
	pack_starts(buf, hello);
	if (hello->partitions > 0) {
		pack_text(buf, "partitions");
		pack_u64(buf, hello->partitions);
	}
	if (hello->max_recipients > 0) {
		pack_text(buf, "max_recipients");
		pack_u64(buf, hello->max_recipients);
	}
	if (receipts) {
		pack_text(buf, "durable");
		pack_bool(buf, hello->durable);
	}
	pack_raw(buf, hello->extra);
	out->kind = hello->kind;
	return write_frame(out, (struct slice){0}, err);
}

static void
pack_number_and_src(struct buf *buf, const struct item_head *head)
{
	pack_text(buf, "batch");
	pack_u64(buf, head->number);
	pack_text(buf, "src");
	pack_array(buf, head->src_count);
	for (uint32_t i = 0; i < head->src_count; i++) {
		pack_array(buf, 4);
		pack_str(buf, head->src[i].topic);
		pack_i64(buf, head->src[i].partition);
		pack_i64(buf, head->src[i].from);
		pack_i64(buf, head->src[i].next);
	}
}

static void
pack_steps(struct buf *buf, const struct item_head *head,
    const struct step *steps, uint32_t step_count)
{
	pack_text(buf, "at");
	pack_array(buf, head->at_count + step_count);
	pack_raw(buf, head->at);
	for (uint32_t i = 0; i < step_count; i++) {
		pack_array(buf, 4);
		pack_text(buf, msg_program());
		pack_text(buf, steps[i].name);
		pack_u64(buf, steps[i].start_us);
		pack_u64(buf, steps[i].end_us);
	}
}

int
stream_out_batch(struct stream_out *out, const struct batch *batch,
    struct slice records, uint32_t count, const struct step *steps,
    uint32_t step_count, struct err *err)
{
	struct buf *buf = &out->head;

	buf_reset(buf);
	pack_map(buf, batch->part > 0 ? 6 : 4);
	pack_number_and_src(buf, &batch->head);
	if (batch->part > 0) {
		pack_text(buf, "part");
		pack_u64(buf, batch->part);
		pack_text(buf, "more");
		pack_bool(buf, batch->more);
	}
	pack_steps(buf, &batch->head, steps, step_count);
	pack_text(buf, "rec"); /* last, so that a reader needn't pass it */
	pack_array(buf, count);
	out->batches += !batch->more;
	out->records += count;
	FAILPOINT_HALF("after-frame-write-half");
	if (write_frame(out, records, err) < 0)
		return -1;
	note_written(count, !batch->more, steps, step_count);
	return 0;
}

int
stream_out_receipt(struct stream_out *out, const struct receipt *receipt,
    const struct step *steps, uint32_t step_count, struct err *err)
{
	struct buf *buf = &out->head;
	int result;

	buf_reset(buf);
	pack_map(buf, 7);
	pack_number_and_src(buf, &receipt->head);
	pack_text(buf, "in");
	pack_u64(buf, receipt->in);
	pack_text(buf, "out");
	pack_u64(buf, receipt->out);
	pack_text(buf, "dead");
	pack_u64(buf, receipt->dead);
	pack_text(buf, "bytes");
	pack_u64(buf, receipt->bytes);
	pack_steps(buf, &receipt->head, steps, step_count);
	out->batches++;
	out->records += receipt->in;
	FAILPOINT("before-receipt");
	FAILPOINT_HALF("after-receipt-half");
	result = write_frame(out, (struct slice){0}, err);
	FAILPOINT("after-receipt");
	if (result == 0)
		note_written(receipt->in, true, steps, step_count);
	return result;
}

int
stream_out_end(struct stream_out *out, struct err *err)
{
	struct buf *buf = &out->head;

	buf_reset(buf);
	pack_map(buf, 3);
	pack_text(buf, "end");
	pack_bool(buf, true);
	pack_text(buf, "batches");
	pack_u64(buf, out->batches);
	pack_text(buf, "records");
	pack_u64(buf, out->records);
	return write_frame(out, (struct slice){0}, err);
}
