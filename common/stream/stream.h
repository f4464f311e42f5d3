/*
 * stream - hello, batches or receipts, end: what flows between two stages.
 *
 * A reader that got an item from stream_in_next() knows: the hello was of the
 * kind it wants; batches are numbered from 1 without gaps and their parts are
 * in order; each range continues its partition where the one before ended
 * (or where hello said it starts, or is an empty first one); the end came
 * last, counted what there was, and nothing follows it.  Anything else is an
 * error with the exit code of qim(7).
 *
 * Of a part of a stream (`partial`), which begins with the hello and goes on
 * anywhere, the first batch may have any number and part, each partition may
 * begin anywhere, and there needn't be an end.
 *
 * Slices point into the frame's memory.  An item belongs to whoever took it,
 * until stream_item_release(); the hello belongs to the stream_in.
 */
#ifndef QIM_STREAM_STREAM_H
#define QIM_STREAM_STREAM_H

#include "base/buf.h"
#include "base/err.h"
#include "stream/coverage.h"
#include "stream/cursor.h"
#include "stream/frame.h"

#define STREAM_MAJOR 1
#define STREAM_MINOR 0

/* Records in one frame: a reader keeps some bytes for each, so that millions
 * of empty ones would take much more than the frame. */
#define STREAM_RECORDS_MAX 100000

enum stream_kind {
	STREAM_RECORDS,
	STREAM_DISPATCHES,
	STREAM_RECEIPTS,
	STREAM_ANY, /* only to ask for */
};

struct start {
	struct slice topic;
	int32_t partition;
	int64_t offset;
	struct slice how; /* "stored", "file", "first", "explicit" */
};

struct hello {
	enum stream_kind kind;
	struct slice from; /* the program that wrote it */
	uint64_t run; /* random, made by the first stage */
	struct slice topic; /* source topic */
	struct slice group; /* of the source; nil: none */
	struct start *start;
	uint32_t start_count;
	uint32_t partitions; /* of the dispatch topic; 0: not said */
	uint32_t max_recipients; /* 0: not said */
	bool durable; /* receipts: what was acknowledged is durable */
	struct slice extra; /* pairs this version doesn't know, raw */
	uint32_t extra_count;
};

/* Source offsets [from, next) of one partition. */
struct range {
	struct slice topic;
	int32_t partition;
	int64_t from, next;
};

/* A time in a batch's life, microseconds of clock_us(). */
struct step {
	const char *name; /* "read", "plan", "enqueue", "acks", "apply" */
	uint64_t start_us, end_us;
};

/* The common head of a batch (a part of one) and of a receipt. */
struct item_head {
	uint64_t number; /* from 1 */
	struct range *src;
	uint32_t src_count;
	struct slice at; /* steps of the stages before, raw */
	uint32_t at_count;
};

struct batch {
	struct item_head head;
	uint32_t part; /* from 1; 0: the batch is whole in this frame */
	bool more; /* another part follows */
	struct cursor rec; /* at the next record */
	uint32_t rec_count; /* records not yet taken */
	uint32_t rec_taken;
};

struct receipt {
	struct item_head head;
	uint64_t in; /* records read */
	uint64_t out; /* dispatches or entries made durable */
	uint64_t dead; /* dead letters among them */
	uint64_t bytes;
};

enum stream_event {
	STREAM_AGAIN, /* nothing whole yet */
	STREAM_HELLO, /* in->hello is set */
	STREAM_BATCH, /* item->batch */
	STREAM_RECEIPT, /* item->receipt */
	STREAM_END, /* the end was seen and nothing follows it */
};

struct stream_item {
	struct frame frame; /* holds what the slices point into */
	struct batch batch;
	struct receipt receipt;
};

struct stream_in {
	struct frame_reader reader;
	enum stream_kind wanted;
	struct hello hello;
	struct frame hello_frame;
	struct buf extra;
	struct coverage coverage;
	struct buf part_src; /* ranges of the batch whose parts are coming */
	uint32_t part; /* the last part seen of it; 0: none is open */
	uint64_t batches, records;
	bool has_hello, has_end;
	bool partial; /* set after the init: a part, as stream_copy makes it */
	bool has_place; /* a batch or receipt was seen */
	uint32_t parts_missing; /* of the first batch of a part */
};

void stream_in_init(struct stream_in *in, int fd, enum stream_kind wanted);
void stream_in_release(struct stream_in *in);

/*
 * Makes at most one read(2) and returns an enum stream_event.
 * -1: EX_DATAERR damaged or out of order, EX_PROTOCOL another kind or
 * version, EX_TEMPFAIL torn (no end), EX_IOERR, EX_OSERR.
 */
int stream_in_next(
    struct stream_in *in, struct stream_item *item, struct err *err);

/* The same, but waits for an event: never STREAM_AGAIN. */
int stream_in_wait(
    struct stream_in *in, struct stream_item *item, struct err *err);

void stream_item_release(struct stream_item *item);

struct stream_out {
	int fd;
	enum stream_kind kind;
	struct buf head;
	uint64_t batches, records;
};

void stream_out_init(struct stream_out *out, int fd);
void stream_out_release(struct stream_out *out);

/* -1 EX_USAGE where the output is a terminal; stream_out_hello() asks. */
int stream_out_check(int fd, struct err *err);

/* Each writes one frame; 0, or -1 as frame_write(). */

/* `from` is the name of this program, whatever hello says.  -1 EX_USAGE too,
 * as stream_out_check(). */
int stream_out_hello(
    struct stream_out *out, const struct hello *hello, struct err *err);

/* A batch of `count` packed records; number, ranges, part and earlier steps
 * are those of `batch`, `steps` are this program's own. */
int stream_out_batch(struct stream_out *out, const struct batch *batch,
    struct slice records, uint32_t count, const struct step *steps,
    uint32_t step_count, struct err *err);

int stream_out_receipt(struct stream_out *out, const struct receipt *receipt,
    const struct step *steps, uint32_t step_count, struct err *err);

/* Only when all that came before was passed on. */
int stream_out_end(struct stream_out *out, struct err *err);

/* "records", "dispatches", "receipts". */
const char *stream_kind_name(enum stream_kind kind);

/* Decoders of one map, used by stream_in_next(): -1 EX_DATAERR (hello also
 * EX_PROTOCOL).  hello_decode() and head fill arrays that the caller frees. */
int hello_decode(
    struct slice map, struct hello *hello, struct buf *extra, struct err *err);
int batch_decode(struct slice map, struct batch *batch, struct slice *src_raw,
    struct err *err);
int receipt_decode(struct slice map, struct receipt *receipt, struct err *err);

#endif
