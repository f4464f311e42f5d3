/*
 * The ledger: a small world of messages, dispatches and mailboxes has nothing
 * wrong, however often it is told; each fact that is left out or changed is
 * found, and what can't be known any more is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/world.h"

static struct err err;

static void
test_nothing_is_wrong(void **state)
{
	uint64_t entries;

	(void)state;
	change = no_change();
	assert_int_equal(tell(1), 0);
	entries = ledger.counts.entries;
	assert_true(entries > 150);
	assert_true(ledger.counts.repeats > 30);
	assert_int_equal(ledger.counts.unchecked, 0);
	assert_int_equal(ledger.counts.messages, MESSAGES);
	ledger_release(&ledger);
	/* A scan may give a member twice. */
	assert_int_equal(tell(2), 0);
	assert_int_equal(ledger.counts.entries, entries);
	ledger_release(&ledger);
}

/* Changes the number at `at` through all its values; each is found, as
 * `kind`. */
static void
find_each(int *at, int count, enum ledger_kind kind)
{
	for (int i = 0; i < count; i++) {
		*at = i;
		assert_true(tell(1) > 0);
		assert_true(ledger.kinds[kind] > 0);
		ledger_release(&ledger);
	}
	*at = -1;
}

static void
test_each_change_is_found(void **state)
{
	int first_copies = 0;

	(void)state;
	change = no_change();
	while (!copies[first_copies].is_repeat)
		first_copies++;
	find_each(&change.skip_entry, 150, LEDGER_MISSING);
	find_each(&change.move_entry, 150, LEDGER_SEQ);
	find_each(&change.own_entry, 150, LEDGER_OWN);
	find_each(&change.extra_entry, 150, LEDGER_EXTRA);
	find_each(&change.skip_claim, first_copies, LEDGER_MISSING);
	find_each(&change.other_digest, first_copies, LEDGER_DIGEST);
	find_each(&change.late_top, first_copies, LEDGER_ORDER);
	find_each(&change.skip_plan, MESSAGES, LEDGER_EXTRA);
}

/* Only where the newest one is left out. */
static void
test_conv_behind(void **state)
{
	uint64_t found = 0;

	(void)state;
	change = no_change();
	for (change.skip_conv = 0; change.skip_conv < 150; change.skip_conv++) {
		tell(1);
		found += ledger.kinds[LEDGER_ORDER];
		ledger_release(&ledger);
	}
	assert_true(found > 10);
}

/* Where no repeat takes its place: found at both ends. */
static void
test_undispatched(void **state)
{
	(void)state;
	change = no_change();
	change.skip_copy = 1;
	assert_true(tell(1) > 0);
	assert_int_equal(ledger.kinds[LEDGER_UNDISPATCHED], 1);
	assert_true(ledger.kinds[LEDGER_EXTRA] > 0);
	ledger_release(&ledger);
	change.undue = true;
	tell(1);
	assert_int_equal(ledger.kinds[LEDGER_UNDISPATCHED], 0);
	assert_int_equal(ledger.counts.pending, 1);
	ledger_release(&ledger);
}

/* Above the mark nothing is missing, and what stands there is no finding. */
static void
test_marks(void **state)
{
	(void)state;
	change = no_change();
	for (change.mark = 0; change.mark < 60; change.mark++) {
		assert_int_equal(tell(1), 0);
		assert_true(change.mark > 0 || ledger.counts.entries == 0);
		ledger_release(&ledger);
	}
	/* The applier is ahead of its mark. */
	change.mark = UINT64_MAX;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	tell_mailboxes();
	assert_int_equal(ledger_end(&ledger, &err), 0);
	assert_true(ledger.counts.above > 150);
	ledger_release(&ledger);
}

/* Kafka has deleted what it held first: entries are compared with the Outbox
 * and their claims. */
static void
test_retention(void **state)
{
	(void)state;
	change = no_change();
	for (change.low = 0; change.low < 60; change.low += 5) {
		assert_int_equal(tell(1), 0);
		ledger_release(&ledger);
	}
	change.low = 1000;
	find_each(&change.skip_entry, 150, LEDGER_MISSING);
	find_each(&change.move_entry, 150, LEDGER_SEQ);
	find_each(&change.other_digest, 50, LEDGER_DIGEST);
}

/* Without the whole Outbox nobody knows. */
static void
test_unchecked(void **state)
{
	(void)state;
	change = no_change();
	change.low = 1000;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		ledger.parts[p] =
		    (struct ledger_part){.mark = mark_of(p), .low = 1000};
	tell_mailboxes();
	assert_int_equal(ledger_end(&ledger, &err), 0);
	assert_int_equal(ledger.counts.unchecked, ledger.counts.entries);
	ledger_release(&ledger);
}

static void
test_trimmed(void **state)
{
	(void)state;
	change = no_change();
	change.trimmed = true;
	assert_int_equal(tell(1), 0);
	assert_true(ledger.counts.trimmed > 150);
	ledger_release(&ledger);
	change.trimmed = false;
	change.old = true;
	change.skip_claim = 3;
	assert_int_equal(tell(1), 0);
	assert_int_equal(ledger.counts.trimmed, 1);
	ledger_release(&ledger);
}

static void
test_letters(void **state)
{
	const struct ledger_source source = {2, 7, true}, other = {2, 8, true};

	(void)state;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	assert_int_equal(ledger_letter(&ledger, 2, 7, &err), 0);
	assert_int_equal(ledger_unplanned(&ledger, &source, "no", &err), 0);
	assert_int_equal(ledger.counts.dead, 1);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 0);
	assert_int_equal(ledger_unplanned(&ledger, &other, "no", &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 1);
	assert_int_equal(last_kind, LEDGER_LOST);
	ledger_release(&ledger);
}

/* Found where it is due, unless it is dead; other headers than Kafka's can't
 * be planned either. */
static void
test_unplannable(void **state)
{
	const struct ledger_source source = {2, 7, true};
	struct record record = {.value = slice_of("{\"message_id\":\"1\"}")};

	(void)state;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 1);
	record.value = slice_of_buf(&messages[0]);
	record.headers = slice_of("\x91\x01");
	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 2);
	assert_int_equal(ledger.counts.messages, 0);
	assert_int_equal(ledger_letter(&ledger, 2, 7, &err), 0);
	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 2);
	assert_int_equal(ledger.counts.dead, 1);
	ledger_release(&ledger);
}

/* What is planned for a part that isn't looked at isn't told. */
static void
test_skipped_parts(void **state)
{
	uint64_t all = 0;

	(void)state;
	change = no_change();
	for (uint32_t skip = 0; skip <= PARTITIONS; skip++) {
		assert_int_equal(
		    ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
		for (uint32_t p = 0; p < skip; p++)
			ledger.parts[p].skip = true;
		for (unsigned i = 0; i < MESSAGES; i++)
			tell_message(i);
		assert_int_equal(ledger.counts.messages, MESSAGES);
		assert_true(
		    skip == 0 || ledger.kinds[LEDGER_UNDISPATCHED] < all);
		all = ledger.kinds[LEDGER_UNDISPATCHED];
		assert_true((all == 0) == (skip == PARTITIONS));
		ledger_release(&ledger);
	}
}

/* A topic that was planned for another count of partitions. */
static void
test_other_count(void **state)
{
	int result = 0;

	(void)state;
	assert_int_equal(ledger_init(&ledger, 3, SEED, note, &err), 0);
	for (size_t i = 0; i < copy_count && result == 0; i++)
		result = ledger_copy(&ledger, copies[i].partition % 3,
		    copies[i].offset, slice_of_buf(&copies[i].value), &err);
	assert_int_equal(result, -1);
	assert_int_equal(err.code, EX_CONFIG);
	ledger_release(&ledger);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing_is_wrong),
	    cmocka_unit_test(test_each_change_is_found),
	    cmocka_unit_test(test_conv_behind),
	    cmocka_unit_test(test_undispatched),
	    cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_retention),
	    cmocka_unit_test(test_unchecked),
	    cmocka_unit_test(test_trimmed),
	    cmocka_unit_test(test_letters),
	    cmocka_unit_test(test_unplannable),
	    cmocka_unit_test(test_skipped_parts),
	    cmocka_unit_test(test_other_count),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, world_start, world_stop);
}
