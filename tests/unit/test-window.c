/*
 * test-window - receipts in batch order whatever the order of the reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "kafka/window.h"

#define RECORDS_MOST 8
#define PARTS_MOST 3
#define BATCHES 2000
#define BATCHES_MOST 5
#define PART_BYTES 100
#define BYTES_MOST 1000

static void
init(struct window *window, uint32_t batches_most, uint64_t bytes_most)
{
	struct err err;

	assert_int_equal(
	    window_init(window, batches_most, bytes_most, &err), 0);
}

static void
test_empty_window_has_room_and_nothing_done(void **state)
{
	struct window window;

	(void)state;
	init(&window, 1, 1);
	assert_true(window_has_room(&window));
	assert_null(window_done(&window));
	assert_false(window_waits(&window));
	window_release(&window);
}

static void
test_batch_without_records_is_done_at_once(void **state)
{
	struct window window;
	struct window_part part;

	(void)state;
	init(&window, 1, 1);
	window_begin(&window, &part, 50, false);
	assert_null(window_done(&window));
	assert_false(window_has_room(&window));
	assert_false(window_report(&window, &part, true));
	assert_ptr_equal(window_done(&window), &part);
	window_pop(&window);
	assert_true(window_has_room(&window));
	assert_int_equal(window.bytes, 0);
	window_release(&window);
}

static void
test_second_batch_waits_for_the_first(void **state)
{
	struct window window;
	struct window_part first, second;

	(void)state;
	init(&window, 2, 1000);
	window_begin(&window, &first, 1, false);
	window_expect(&first);
	window_report(&window, &first, true);
	window_begin(&window, &second, 1, false);
	window_expect(&second);
	window_report(&window, &second, true);
	assert_false(window_has_room(&window));

	window_report(&window, &second, true);
	assert_null(window_done(&window));
	window_report(&window, &first, true);
	assert_ptr_equal(window_done(&window), &first);
	window_pop(&window);
	assert_ptr_equal(window_done(&window), &second);
	window_pop(&window);
	assert_null(window_done(&window));
	window_release(&window);
}

/* A failed batch stays, and so do all behind it; the one before leaves. */
static void
test_failed_record_holds_its_batch_and_those_behind(void **state)
{
	struct window window;
	struct window_part part[3];

	(void)state;
	init(&window, 3, 1000);
	for (int i = 0; i < 3; i++) {
		window_begin(&window, &part[i], 1, false);
		window_expect(&part[i]);
		window_report(&window, &part[i], true);
	}
	window_report(&window, &part[1], false);
	window_report(&window, &part[2], true);
	assert_true(window_waits(&window));
	window_report(&window, &part[0], true);
	assert_ptr_equal(window_done(&window), &part[0]);
	window_pop(&window);
	assert_null(window_done(&window));
	assert_false(window_waits(&window));
	window_release(&window);
}

/* While a part is being filled its reports don't end it. */
static void
test_reports_during_filling_dont_complete(void **state)
{
	struct window window;
	struct window_part part;

	(void)state;
	init(&window, 1, 1000);
	window_begin(&window, &part, 1, false);
	window_expect(&part);
	window_report(&window, &part, true);
	assert_null(window_done(&window));
	window_expect(&part);
	window_report(&window, &part, true);
	assert_null(window_done(&window));
	window_report(&window, &part, true);
	assert_ptr_equal(window_done(&window), &part);
	window_release(&window);
}

/* An open batch takes parts beyond the count of batches, and a part whose
 * records are reported gives its bytes back before the batch is whole. */
static void
test_batch_larger_than_the_window_passes(void **state)
{
	struct window window;
	struct window_part part;

	(void)state;
	init(&window, 1, 250);
	for (int i = 0; i < 100; i++) {
		struct window_part one;

		assert_true(window_has_room(&window));
		window_begin(&window, &one, 300, true);
		window_expect(&one);
		assert_false(window_report(&window, &one, true));
		assert_false(window_has_room(&window));
		assert_true(window_report(&window, &one, true));
		assert_null(window_done(&window));
		assert_false(window_waits(&window));
	}
	window_begin(&window, &part, 10, false);
	assert_false(window_report(&window, &part, true));
	assert_ptr_equal(window_done(&window), &part);
	assert_int_equal(window.bytes, 10);
	window_release(&window);
}

static void
test_bytes_close_the_window_before_the_count(void **state)
{
	struct window window;
	struct window_part first, second;

	(void)state;
	init(&window, 10, 100);
	window_begin(&window, &first, 60, false);
	window_report(&window, &first, true);
	assert_true(window_has_room(&window));
	window_begin(&window, &second, 60, false);
	window_report(&window, &second, true);
	assert_false(window_has_room(&window));
	window_pop(&window);
	assert_true(window_has_room(&window));
	window_release(&window);
}

static void
test_part_that_grows_gives_all_of_it_back(void **state)
{
	struct window window;
	struct window_part first, last;

	(void)state;
	init(&window, 1, 100);
	window_begin(&window, &first, 60, true);
	assert_true(window_has_room(&window));
	window_grow(&window, &first, 40);
	assert_false(window_has_room(&window));
	assert_true(window_report(&window, &first, true));
	assert_int_equal(window.bytes, 0);
	window_begin(&window, &last, 60, false);
	window_grow(&window, &last, 1);
	window_report(&window, &last, true);
	assert_int_equal(window.bytes, 61);
	window_pop(&window);
	assert_int_equal(window.bytes, 0);
	window_release(&window);
}

/* A part in the random run below. */
struct fake {
	struct window_part part;
	uint32_t batch;
	bool last;
	uint32_t reports_due;
};

/* Everything in flight, in the order it came in. */
struct pool {
	struct fake *all[BATCHES_MOST * PARTS_MOST + 1];
	uint32_t count;
};

static void
drop(struct pool *pool, const struct fake *fake)
{
	uint32_t i = 0;

	while (pool->all[i] != fake)
		i++;
	free(pool->all[i]);
	for (pool->count--; i < pool->count; i++)
		pool->all[i] = pool->all[i + 1];
}

static void
bring_part(
    struct window *window, struct pool *pool, uint32_t *batch, uint32_t *parts)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	bool more = *parts + 1 < PARTS_MOST && rand() % 3 == 0;

	fake->batch = *batch;
	fake->last = !more;
	fake->reports_due = (uint32_t)rand() % (RECORDS_MOST + 1);
	window_begin(window, &fake->part, PART_BYTES, more);
	for (uint32_t i = 0; i < fake->reports_due; i++)
		window_expect(&fake->part);
	pool->all[pool->count++] = fake;
	*parts = more ? *parts + 1 : 0;
	*batch += !more;
	if (window_report(window, &fake->part, true))
		drop(pool, fake);
}

static void
report_any(struct window *window, struct pool *pool)
{
	struct fake *fake = pool->all[(uint32_t)rand() % pool->count];

	if (fake->reports_due == 0)
		return;
	fake->reports_due--;
	if (window_report(window, &fake->part, true)) {
		assert_false(fake->last);
		assert_int_equal(fake->reports_due, 0);
		drop(pool, fake);
	}
}

/* True where no part of a batch up to `batch` waits for a report. */
static bool
is_settled(const struct pool *pool, uint32_t batch)
{
	for (uint32_t i = 0; i < pool->count; i++)
		if (pool->all[i]->batch <= batch && pool->all[i]->reports_due)
			return false;
	return true;
}

static void
leave(struct window *window, struct pool *pool, uint32_t *left)
{
	struct window_part *done;

	while ((done = window_done(window)) != NULL) {
		struct fake *fake = (struct fake *)done;

		assert_true(fake->last);
		assert_int_equal(fake->batch, *left);
		assert_true(is_settled(pool, *left));
		window_pop(window);
		drop(pool, fake);
		(*left)++;
	}
	/* And nothing is held back that could go. */
	if (window->count > 0 && !window->ring[window->head].open)
		assert_false(is_settled(pool, *left));
}

static void
test_random_reports_leave_in_order(void **state)
{
	struct window window;
	struct pool pool = {.count = 0};
	uint32_t batch = 0, parts = 0, left = 0;

	(void)state;
	srand(7);
	init(&window, BATCHES_MOST, BYTES_MOST);
	while (left < BATCHES) {
		bool may =
		    window_has_room(&window) && (batch < BATCHES || parts > 0);

		assert_true(window.count <= BATCHES_MOST);
		assert_true(window.bytes < BYTES_MOST + PART_BYTES);
		assert_true(may || pool.count > 0);
		if (may && (pool.count == 0 || rand() % 4 == 0))
			bring_part(&window, &pool, &batch, &parts);
		else
			report_any(&window, &pool);
		leave(&window, &pool, &left);
	}
	assert_int_equal(pool.count, 0);
	assert_int_equal(window.bytes, 0);
	window_release(&window);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty_window_has_room_and_nothing_done),
	    cmocka_unit_test(test_batch_without_records_is_done_at_once),
	    cmocka_unit_test(test_second_batch_waits_for_the_first),
	    cmocka_unit_test(
		test_failed_record_holds_its_batch_and_those_behind),
	    cmocka_unit_test(test_reports_during_filling_dont_complete),
	    cmocka_unit_test(test_batch_larger_than_the_window_passes),
	    cmocka_unit_test(test_bytes_close_the_window_before_the_count),
	    cmocka_unit_test(test_part_that_grows_gives_all_of_it_back),
	    cmocka_unit_test(test_random_reports_leave_in_order),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
