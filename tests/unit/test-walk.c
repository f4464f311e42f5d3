/*
 * walk: frames in bytes that pass by, however they are cut, and which frame is
 * the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream/pack.h"
#include "stream/walk.h"

static struct buf whole; /* hello, a batch of 5,000 bytes, end */
static uint64_t ends[3]; /* where its frames end */

static void
append_map(struct buf *stream, const char *key, const char *value, bool end)
{
	struct buf map = {0};
	struct err err;

	pack_map(&map, end ? 2 : 1);
	pack_text(&map, key);
	pack_text(&map, value);
	if (end) {
		pack_text(&map, "end");
		pack_bool(&map, true);
	}
	assert_int_equal(frame_pack(stream, slice_of_buf(&map), !end, &err), 0);
	buf_release(&map);
}

static int
make_stream(void **state)
{
	static char value[5001];

	(void)state;
	memset(value, 'v', sizeof(value) - 1);
	append_map(&whole, "qim", "1", false);
	ends[0] = whole.bytes;
	append_map(&whole, "batch", value, false);
	ends[1] = whole.bytes;
	append_map(&whole, "batches", "1", true);
	ends[2] = whole.bytes;
	return 0;
}

static int
release_stream(void **state)
{
	(void)state;
	buf_release(&whole);
	return 0;
}

/* Walks over the bytes, given in pieces of at most `piece`; the code. */
static int
walk_all(struct slice bytes, size_t piece, struct frame_walk *walk)
{
	struct err err = {0};
	size_t at = 0;

	frame_walk_init(walk);
	while (at < bytes.bytes) {
		size_t left = bytes.bytes - at, used;
		struct slice next = {
		    bytes.data + at, left < piece ? left : piece};

		if (frame_walk(walk, next, &used, &err) < 0)
			return err.code;
		assert_in_range(used, 1, next.bytes);
		at += used;
	}
	return frame_walk_eof(walk, &err) < 0 ? err.code : 0;
}

static void
test_pieces(void **state)
{
	struct frame_walk walk;

	(void)state;
	for (size_t piece = 1; piece <= whole.bytes; piece++) {
		assert_int_equal(
		    walk_all(slice_of_buf(&whole), piece, &walk), 0);
		assert_int_equal(walk.frames, 3);
		assert_int_equal(walk.at, whole.bytes);
	}
}

static void
test_truncations(void **state)
{
	struct frame_walk walk;

	(void)state;
	for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
		uint64_t begin = 0;

		for (size_t i = 0; i < 2; i++)
			begin = bytes >= ends[i] ? ends[i] : begin;
		assert_int_equal(walk_all((struct slice){whole.data, bytes},
				     whole.bytes, &walk),
		    EX_TEMPFAIL);
		assert_int_equal(walk.at, begin);
	}
}

/* What isn't a frame is told at its place. */
static void
test_bad_heads(void **state)
{
	static const uint8_t bad[][5] = {{0x78}, {0xc3}, {0xc7}, {0xc4, 2},
	    {0xc5, 0, 2}, {0xc6, 0, 0, 0, 2}, {0xc6, 1, 0, 0, 1},
	    {0xc6, 0xff, 0xff, 0xff, 0xff}};
	struct frame_walk walk;
	struct buf stream = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t piece = 1; piece < 2000; piece += 200) {
			buf_reset(&stream);
			buf_append(&stream, whole.data, ends[1]);
			buf_append(&stream, bad[i], sizeof(bad[i]));
			assert_int_equal(
			    walk_all(slice_of_buf(&stream), piece, &walk),
			    EX_DATAERR);
			assert_int_equal(walk.at, ends[1]);
		}
	buf_reset(&stream);
	buf_append(&stream, whole.data, whole.bytes);
	buf_append(&stream, whole.data, 1);
	assert_int_equal(
	    walk_all(slice_of_buf(&stream), whole.bytes, &walk), EX_DATAERR);
	buf_release(&stream);
}

/* The code of a hello and one more frame whose content is `text`. */
static int
code_of_last(const char *text, size_t bytes)
{
	struct frame_walk walk;
	struct buf stream = {0};
	uint8_t head[2] = {0xc4, (uint8_t)bytes};
	int code;

	buf_append(&stream, whole.data, ends[0]);
	buf_append(&stream, head, 2);
	buf_append(&stream, text, bytes);
	code = walk_all(slice_of_buf(&stream), 7, &walk);
	buf_release(&stream);
	return code;
}

#define CODE_OF_LAST(text) code_of_last(text, sizeof(text) - 1)

static void
test_ends(void **state)
{
	(void)state;
	assert_int_equal(CODE_OF_LAST("\x92\xc0\x81\xa3"
				      "end\xc3"),
	    0);
	assert_int_equal(CODE_OF_LAST("\x92\xc0\x82\xa1"
				      "x\x91\xc0\xa3"
				      "end\xc3"),
	    0);
	assert_int_equal(CODE_OF_LAST("\x92\xc0\x81\xa3"
				      "end\xc2"),
	    EX_TEMPFAIL);
	assert_int_equal(CODE_OF_LAST("\x92\xc0\x82\xa5"
				      "batch\x01\xa3"
				      "end\xc3"),
	    EX_TEMPFAIL);
	assert_int_equal(CODE_OF_LAST("\x91\x81\xa3"
				      "end\xc3"),
	    EX_TEMPFAIL);
	assert_int_equal(CODE_OF_LAST("\x92\xc0\x81\xa3"
				      "end"),
	    EX_TEMPFAIL);
	assert_int_equal(CODE_OF_LAST("\xdd\xff\xff\xff\xff"), EX_TEMPFAIL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pieces),
	    cmocka_unit_test(test_truncations),
	    cmocka_unit_test(test_bad_heads),
	    cmocka_unit_test(test_ends),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name(
	    "walk", tests, make_stream, release_stream);
}
