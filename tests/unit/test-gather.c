/* Records into batches, and the ranges that cover every offset once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "kafka/gather.h"

static struct gather gather;
static struct err err;

static const struct gather_limits limits = {3, 1000, 5000};

static int
begin(void **state)
{
	(void)state;
	gather_init(&gather, slice_of("t"), &limits);
	if (gather_add(&gather, 4, 10, &err) < 0)
		return -1;
	return gather_add(&gather, 6, 0, &err);
}

static int
end(void **state)
{
	(void)state;
	gather_release(&gather);
	return 0;
}

static struct record
record_of(int64_t offset, size_t bytes)
{
	static const uint8_t value[2000];

	return (struct record){.offset = offset, .value = {value, bytes}};
}

static void
take(uint32_t index, int64_t offset, uint64_t now_us)
{
	struct record record = record_of(offset, 5);

	gather_record(&gather, index, &record, now_us);
}

static void
write_away(void)
{
	struct stream_out out;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	stream_out_init(&out, fds[1]);
	assert_int_equal(gather_write(&gather, &out, 0, &err), 0);
	stream_out_release(&out);
	close(fds[0]);
	close(fds[1]);
	assert_false(gather_is_open(&gather));
}

static void
check_range(uint32_t src, int32_t partition, int64_t from, int64_t next)
{
	assert_true(src < gather.src_count);
	assert_int_equal(gather.src[src].partition, partition);
	assert_int_equal(gather.src[src].from, from);
	assert_int_equal(gather.src[src].next, next);
}

static void
first_batch_names_all(void **state)
{
	(void)state;
	gather_name(&gather, 0, 1);
	assert_int_equal(gather.src_count, 2);
	check_range(0, 4, 10, 10);
	check_range(1, 6, 0, 0);
	write_away();
	assert_int_equal(gather.batches, 1);
}

/* A batch names who joins, without a record, before its first. */
static void
joins_are_named(void **state)
{
	(void)state;
	gather_name(&gather, 0, 1);
	write_away();
	assert_int_equal(gather_add(&gather, 9, 0, &err), 0);
	assert_int_equal(gather_add(&gather, 7, 3, &err), 0);
	gather_name(&gather, 2, 1);
	assert_int_equal(gather.src_count, 2);
	assert_int_equal(gather.record_count, 0);
	check_range(0, 9, 0, 0);
	check_range(1, 7, 3, 3);
	write_away();
	take(3, 4, 1);
	take(0, 10, 1);
	check_range(0, 7, 3, 5);
	check_range(1, 4, 10, 11);
}

static void
ranges_cover_holes(void **state)
{
	(void)state;
	take(1, 3, 1);
	take(0, 10, 1);
	take(1, 7, 1);
	check_range(0, 6, 0, 8);
	check_range(1, 4, 10, 11);
	write_away();
	gather_cover(&gather, 1, 9, 1);
	gather_cover(&gather, 0, 11, 1); /* it is there already */
	gather_cover(&gather, 0, 5, 1);
	assert_int_equal(gather.src_count, 1);
	check_range(0, 6, 8, 9);
	assert_int_equal(gather.record_count, 0);
}

static void
full_by_count(void **state)
{
	(void)state;
	take(0, 10, 1);
	take(0, 11, 1);
	assert_true(gather_has_room(&gather, 100));
	assert_false(gather_is_due(&gather, 1));
	take(0, 12, 1);
	assert_false(gather_has_room(&gather, 100));
	assert_true(gather_is_due(&gather, 1));
}

static void
full_by_bytes(void **state)
{
	struct record large = record_of(10, 1999);
	size_t bytes = gather_record_bytes(&large);

	(void)state;
	/* One always fits. */
	assert_true(gather_has_room(&gather, bytes));
	gather_record(&gather, 0, &large, 1);
	assert_true(gather_is_due(&gather, 1));
	assert_true(gather.records.bytes <= bytes);
	write_away();
	take(0, 11, 1);
	assert_false(gather_has_room(&gather, bytes));
	assert_true(gather_has_room(&gather, 900));
}

/* The ranges of many partitions and the largest record exceed a frame. */
static void
large_record_waits_for_open_ranges(void **state)
{
	(void)state;
	gather_cover(&gather, 1, 5, 1);
	assert_int_equal(gather.record_count, 0);
	assert_true(gather_has_room(&gather, limits.bytes));
	assert_false(gather_has_room(&gather, limits.bytes + 1));
	write_away();
	assert_true(gather_has_room(&gather, GATHER_RECORD_BYTES_MAX));
}

static void
due_by_time(void **state)
{
	(void)state;
	assert_false(gather_is_due(&gather, 1000000));
	take(0, 10, 1000);
	assert_false(gather_is_due(&gather, 5999));
	assert_true(gather_is_due(&gather, 6000));
	gather.limits.wait_us = 0; /* only the caller knows when */
	assert_false(gather_is_due(&gather, 6000));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(first_batch_names_all, begin, end),
	    cmocka_unit_test_setup_teardown(joins_are_named, begin, end),
	    cmocka_unit_test_setup_teardown(ranges_cover_holes, begin, end),
	    cmocka_unit_test_setup_teardown(full_by_count, begin, end),
	    cmocka_unit_test_setup_teardown(full_by_bytes, begin, end),
	    cmocka_unit_test_setup_teardown(
		large_record_waits_for_open_ranges, begin, end),
	    cmocka_unit_test_setup_teardown(due_by_time, begin, end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
