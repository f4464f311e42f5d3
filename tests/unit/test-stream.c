/*
 * The stream's reader against damage: every truncation, every flipped bit,
 * hostile lengths and counts, one byte at a time, wrong orders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/guard.h"
#include "stream/pack.h"
#include "stream/record.h"

static struct buf whole; /* a good stream of two batches, one in parts */

static void
append_frame(struct buf *stream, const struct buf *map)
{
	struct err err;

	assert_int_equal(frame_pack(stream, slice_of_buf(map), true, &err), 0);
}

/* What a stream_out writes, as bytes. */
static void
write_good_stream(int fd)
{
	static struct start starts[] = {
	    {.partition = 0, .offset = 5}, {.partition = 3, .offset = 0}};
	static struct range ranges[] = {{.partition = 0, .from = 5, .next = 5},
	    {.partition = 3, .from = 0, .next = 0}};
	struct hello hello = {.kind = STREAM_RECORDS,
	    .run = 77,
	    .start = starts,
	    .start_count = 2};
	struct batch batch = {
	    .head = {.number = 1, .src = ranges, .src_count = 2}};
	struct step step = {"read", 1000, 2000};
	struct record record = {.src = 0, .offset = 5, .timestamp_ms = 1};
	struct stream_out out;
	struct buf rec;
	struct err err;

	starts[0].topic = starts[1].topic = slice_of("outbox");
	starts[0].how = starts[1].how = slice_of("stored");
	ranges[0].topic = ranges[1].topic = slice_of("outbox");
	ranges[0].from = ranges[0].next = 5;
	hello.topic = slice_of("outbox");
	hello.group = slice_of("g");
	record.key = slice_of("k");
	record.value = slice_of("value");
	buf_init(&rec);
	stream_out_init(&out, fd);
	assert_int_equal(stream_out_hello(&out, &hello, &err), 0);
	assert_int_equal(stream_out_batch(&out, &batch, slice_of_buf(&rec), 0,
			     &step, 1, &err),
	    0);
	record_pack(&rec, &record);
	batch.head.number = 2;
	ranges[0].next = 7;
	batch.part = 1;
	batch.more = true;
	assert_int_equal(stream_out_batch(&out, &batch, slice_of_buf(&rec), 1,
			     NULL, 0, &err),
	    0);
	batch.part = 2;
	batch.more = false;
	assert_int_equal(stream_out_batch(&out, &batch, slice_of_buf(&rec), 1,
			     &step, 1, &err),
	    0);
	assert_int_equal(stream_out_end(&out, &err), 0);
	buf_release(&rec);
	stream_out_release(&out);
}

static int
file_of(const uint8_t *data, size_t bytes)
{
	int fd = memfd_create("stream", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static int
setup(void **state)
{
	uint8_t data[4096];
	int fd = memfd_create("stream", MFD_CLOEXEC);
	ssize_t bytes;

	(void)state;
	write_good_stream(fd);
	bytes = pread(fd, data, sizeof(data), 0);
	assert_in_range(bytes, 1, sizeof(data) - 1);
	buf_append(&whole, data, (size_t)bytes);
	close(fd);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	buf_release(&whole);
	return 0;
}

/* Reads a stream to its end, records too; the exit code a stage has. */
static int
read_all(int fd, enum stream_kind wanted, uint64_t *records)
{
	struct stream_in in;
	struct stream_item item;
	struct record record;
	struct err err = {0};
	int event, more = 1;

	stream_in_init(&in, fd, wanted);
	do {
		event = stream_in_wait(&in, &item, &err);
		while (event == STREAM_BATCH &&
		    (more = record_next(&item.batch, &record, &err)) == 1)
			*records += record.value.bytes > 0;
		if (event >= 0)
			stream_item_release(&item);
	} while (event >= 0 && event != STREAM_END && more >= 0);
	stream_in_release(&in);
	close(fd);
	return event == STREAM_END && more >= 0 ? 0 : err.code;
}

static int
code_of(const uint8_t *data, size_t bytes)
{
	uint64_t records = 0;

	return read_all(file_of(data, bytes), STREAM_RECORDS, &records);
}

static void
test_good(void **state)
{
	uint64_t records = 0;

	(void)state;
	assert_int_equal(read_all(file_of(whole.data, whole.bytes),
			     STREAM_RECORDS, &records),
	    0);
	assert_int_equal(records, 2);
}

static void
test_every_truncation(void **state)
{
	(void)state;
	for (size_t bytes = 0; bytes < whole.bytes; bytes++)
		assert_int_equal(code_of(whole.data, bytes), EX_TEMPFAIL);
}

/* The checksum sees what the walk doesn't; a flip in a length may make the
 * stream end inside a frame. */
static void
test_every_flipped_bit(void **state)
{
	(void)state;
	for (size_t bit = 0; bit < 8 * whole.bytes; bit++) {
		int code;

		whole.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
		code = code_of(whole.data, whole.bytes);
		whole.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
		if (code != EX_DATAERR && code != EX_TEMPFAIL)
			fail_msg("bit %zu: exit code %d", bit, code);
	}
}

static void
test_one_byte_at_a_time(void **state)
{
	uint64_t records = 0;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	if (fork() == 0) {
		for (size_t i = 0; i < whole.bytes; i++)
			if (write(ends[1], whole.data + i, 1) != 1)
				_exit(1);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(read_all(ends[0], STREAM_RECORDS, &records), 0);
	assert_int_equal(records, 2);
}

static void
test_stream_after_stream(void **state)
{
	struct buf twice;

	(void)state;
	buf_init(&twice);
	buf_append(&twice, whole.data, whole.bytes);
	for (size_t more = 1; more <= whole.bytes; more++) {
		twice.bytes = whole.bytes;
		buf_append(&twice, whole.data, more);
		assert_int_equal(code_of(twice.data, twice.bytes), EX_DATAERR);
	}
	buf_release(&twice);
}

static void
test_other_kind(void **state)
{
	uint64_t records = 0;

	(void)state;
	assert_int_equal(read_all(file_of(whole.data, whole.bytes),
			     STREAM_RECEIPTS, &records),
	    EX_PROTOCOL);
}

/* Lengths and counts that would take gigabytes if they were believed. */
static void
test_hostile(void **state)
{
	static const struct {
		const char *bytes;
		size_t count;
		int code;
	} cases[] = {
	    {"\xc6\xff\xff\xff\xff", 5, EX_DATAERR},
	    {"\xc6\x01\x00\x00\x00\x92", 6, EX_TEMPFAIL},
	    {"\xc6\x01\x00\x00\x01\x92", 6, EX_DATAERR},
	    {"\xc6\x00\x00\x00\x05\xdd\xff\x00\x00\x00", 10, EX_DATAERR},
	    {"\xc6\x00\x00\x00\x05\xdf\xff\xff\xff\xff", 10, EX_DATAERR},
	    {"\xc6\x00\x00\x00\x07\x92\xc0\xdf\xff\xff\xff\xff", 12,
		EX_DATAERR},
	    {"\xc6\x00\x00\x00\x05\xdb\xff\xff\xff\xff", 10, EX_DATAERR},
	    {"\xc6\x00\x00\x00\x00", 5, EX_DATAERR},
	    {"\xc4\x02\x92\xc0\x80", 5, EX_DATAERR},
	    {"\xc4\x03\x92\xc0\x80", 5, EX_DATAERR}, /* an empty hello */
	    {"\xc4\x04\x92\xc0\x80\x80", 6, EX_DATAERR}, /* left over */
	    {"\xc4\x03\x92\xc0\xc1", 5, EX_DATAERR}, /* reserved byte */
	    {"\xc4\x03\x93\xc0\x80", 5, EX_DATAERR},
	    {"\xc5\x00\x03\x92\xc0\x80", 6, EX_DATAERR},
	    {"hello, world\n", 13, EX_DATAERR},
	    {"{\"qim\":1}\n", 10, EX_DATAERR},
	    {"", 0, EX_TEMPFAIL},
	};
	struct rlimit old;

	(void)state;
	getrlimit(RLIMIT_AS, &old);
#ifndef __SANITIZE_ADDRESS__
	setrlimit(RLIMIT_AS, &(struct rlimit){200U << 20, old.rlim_max});
#endif
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int code =
		    code_of((const uint8_t *)cases[i].bytes, cases[i].count);

		if (code != cases[i].code)
			fail_msg("case %zu: exit code %d", i, code);
	}
	setrlimit(RLIMIT_AS, &old);
}

static void
test_nesting(void **state)
{
	struct buf deep;
	struct err err;

	(void)state;
	buf_init(&deep);
	for (int depth = 1; depth <= 100; depth++) {
		buf_reset(&deep);
		for (int i = 0; i < depth; i++)
			buf_append(&deep, "\x91", 1);
		buf_append(&deep, "\xc0", 1);
		assert_int_equal(guard_walk(slice_of_buf(&deep), &err),
		    depth <= GUARD_DEPTH_MAX ? 0 : -1);
	}
	buf_release(&deep);
}

/* A frame of a map, by hand, after the hello of the good stream. */
static int
code_after_hello(void (*pack)(struct buf *))
{
	struct buf stream, map;
	struct mp_head head = {0};
	const uint8_t *at = whole.data;
	int code;

	buf_init(&stream);
	buf_init(&map);
	mp_read_head(&at, whole.data + whole.bytes, &head);
	buf_append(&stream, whole.data, (size_t)(at - whole.data) + head.count);
	pack(&map);
	append_frame(&stream, &map);
	code = code_of(stream.data, stream.bytes);
	buf_release(&stream);
	buf_release(&map);
	return code;
}

static void
pack_batch(struct buf *map, uint64_t number, int32_t partition, int64_t from,
    int64_t next)
{
	pack_map(map, 3);
	pack_text(map, "batch");
	pack_u64(map, number);
	pack_text(map, "src");
	pack_array(map, 1);
	pack_array(map, 4);
	pack_text(map, "outbox");
	pack_i64(map, partition);
	pack_i64(map, from);
	pack_i64(map, next);
	pack_text(map, "rec");
	pack_array(map, 0);
}

static void
pack_in_order(struct buf *map)
{
	pack_batch(map, 1, 0, 5, 9);
}

static void
pack_gap(struct buf *map)
{
	pack_batch(map, 1, 0, 6, 9);
}

static void
pack_repeat(struct buf *map)
{
	pack_batch(map, 1, 0, 4, 9);
}

static void
pack_backwards(struct buf *map)
{
	pack_batch(map, 1, 0, 5, 4);
}

static void
pack_unannounced(struct buf *map)
{
	pack_batch(map, 1, 9, 0, 1);
}

static void
pack_joining(struct buf *map)
{
	pack_batch(map, 1, 9, 7, 7);
}

static void
pack_second_first(struct buf *map)
{
	pack_batch(map, 2, 0, 5, 9);
}

static void
pack_wrong_end(struct buf *map)
{
	pack_map(map, 3);
	pack_text(map, "end");
	pack_bool(map, true);
	pack_text(map, "batches");
	pack_u64(map, 1);
	pack_text(map, "records");
	pack_u64(map, 0);
}

static void
pack_twice(struct buf *map)
{
	pack_map(map, 2);
	pack_text(map, "batch");
	pack_u64(map, 1);
	pack_text(map, "batch");
	pack_u64(map, 1);
}

static void
pack_many_ranges(struct buf *map)
{
	pack_map(map, 1);
	pack_text(map, "src");
	pack_array(map, 8U << 20);
	for (size_t i = 0; i < 8U << 20; i++)
		buf_append(map, "\xc0", 1);
}

/* EX_TEMPFAIL: the frame was taken, and the end is missing. */
static void
test_order(void **state)
{
	(void)state;
	assert_int_equal(code_after_hello(pack_in_order), EX_TEMPFAIL);
	assert_int_equal(code_after_hello(pack_joining), EX_TEMPFAIL);
	assert_int_equal(code_after_hello(pack_gap), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_repeat), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_backwards), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_unannounced), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_second_first), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_wrong_end), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_twice), EX_DATAERR);
	assert_int_equal(code_after_hello(pack_many_ranges), EX_DATAERR);
}

/* The cursor and msgpack-c agree on every head. */
static void
test_numbers(void **state)
{
	static const int64_t numbers[] = {0, 1, 127, 128, 255, 256, 65535,
	    65536, UINT32_MAX, (int64_t)UINT32_MAX + 1, INT64_MAX, -1, -32, -33,
	    -128, -129, -32768, -32769, INT32_MIN, (int64_t)INT32_MIN - 1,
	    INT64_MIN};
	struct buf buf;
	struct cursor cursor;

	(void)state;
	buf_init(&buf);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		pack_i64(&buf, numbers[i]);
	pack_u64(&buf, UINT64_MAX);
	pack_f64(&buf, -1.5);
	cursor = cursor_of(slice_of_buf(&buf));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_int_equal(cursor_i64(&cursor), numbers[i]);
	assert_true(cursor_u64(&cursor) == UINT64_MAX);
	assert_true(cursor_f64(&cursor) == -1.5);
	assert_true(cursor_done(&cursor));
	assert_int_equal(cursor_u64(&cursor), 0);
	assert_true(cursor.bad);
	buf_release(&buf);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_every_truncation),
	    cmocka_unit_test(test_every_flipped_bit),
	    cmocka_unit_test(test_one_byte_at_a_time),
	    cmocka_unit_test(test_stream_after_stream),
	    cmocka_unit_test(test_other_kind),
	    cmocka_unit_test(test_hostile),
	    cmocka_unit_test(test_nesting),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_numbers),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("stream", tests, setup, teardown);
}
