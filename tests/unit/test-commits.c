/* The rules of commits.h, by hand and under random schedules against a model
 * of a broker that loses answers, fails in part, and is used by others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kafka/commits.h"

#define PARTITIONS 5
#define SCHEDULES 3000
#define STEPS 120

static struct commits commits;
static struct err err;

static int
forget(void **state)
{
	(void)state;
	commits_release(&commits);
	return 0;
}

static void
add(int32_t partition, int64_t start)
{
	assert_int_equal(
	    commits_add(&commits, slice_of("t"), partition, start, false, &err),
	    0);
}

static int
acknowledge(int32_t partition, int64_t from, int64_t next)
{
	return commits_acknowledge(
	    &commits, slice_of("t"), partition, from, next, &err);
}

static void
set_committed(size_t index, int64_t committed)
{
	assert_int_equal(
	    commits_set_committed(&commits, index, committed, &err), 0);
}

static void
the_start_before_a_receipt(void **state)
{
	(void)state;
	add(0, 7);
	add(1, 3);
	assert_true(commits_must_read(&commits));
	assert_false(commits_are_due(&commits));
	assert_int_equal(commits_begin(&commits), 0);
	assert_int_equal(commits_set_committed(&commits, 0, -1001, &err), 0);
	assert_int_equal(commits_set_committed(&commits, 1, 9, &err), 0);
	assert_false(commits_are_done(&commits));
	assert_int_equal(commits_begin(&commits), 1);
	assert_int_equal(commits.all[0].sent, 7);
	assert_int_equal(commits.all[1].sent, -1);
	commits_succeed(&commits);
	assert_true(commits_are_done(&commits));
	assert_false(commits_are_due(&commits));
}

static void
one_in_flight_and_the_rest_in_the_next(void **state)
{
	(void)state;
	add(0, 0);
	add(1, 0);
	commits_set_committed(&commits, 0, 0, &err);
	commits_set_committed(&commits, 1, 0, &err);
	acknowledge(0, 0, 10);
	set_committed(0, 0);
	assert_int_equal(commits_begin(&commits), 1);
	acknowledge(0, 10, 20);
	acknowledge(0, 20, 30);
	acknowledge(1, 0, 5);
	assert_false(commits_must_read(&commits));
	assert_false(commits_are_due(&commits));
	assert_int_equal(commits_begin(&commits), 0);
	commits_succeed(&commits);
	assert_int_equal(commits.all[0].committed, 10);
	assert_false(commits_are_done(&commits));
	assert_true(commits_must_read(&commits));
	set_committed(0, 10);
	set_committed(1, 0);
	assert_int_equal(commits_begin(&commits), 2);
	assert_int_equal(commits.all[0].sent, 30);
	assert_int_equal(commits.all[1].sent, 5);
	commits_succeed(&commits);
	assert_true(commits_are_done(&commits));
	assert_false(commits_are_due(&commits));
}

static void
replay_is_absorbed(void **state)
{
	(void)state;
	add(0, 3);
	commits_set_committed(&commits, 0, 10, &err);
	acknowledge(0, 3, 10);
	assert_false(commits_are_due(&commits));
	assert_true(commits_are_done(&commits));
	acknowledge(0, 10, 11);
	set_committed(0, 10);
	assert_int_equal(commits_begin(&commits), 1);
	assert_int_equal(commits.all[0].sent, 11);
}

/* Another chain with the same group, ahead of this one. */
static void
others_are_not_moved_back(void **state)
{
	(void)state;
	add(0, 0);
	set_committed(0, 0);
	acknowledge(0, 0, 10);
	set_committed(0, 0);
	commits_begin(&commits);
	commits_succeed(&commits);
	acknowledge(0, 10, 20);
	assert_false(commits_are_due(&commits));
	assert_int_equal(commits_set_committed(&commits, 0, 90, &err), 1);
	assert_false(commits_are_due(&commits));
	assert_false(commits_must_read(&commits));
	assert_true(commits_are_done(&commits));
	/* Below it nothing is asked. */
	acknowledge(0, 20, 30);
	assert_false(commits_must_read(&commits));
	acknowledge(0, 30, 91);
	assert_true(commits_must_read(&commits));
	set_committed(0, 90);
	assert_int_equal(commits_begin(&commits), 1);
	/* Its own, though it failed. */
	commits_fail(&commits);
	set_committed(0, 91);
	assert_true(commits_are_done(&commits));
}

static void
skip_is_refused(void **state)
{
	(void)state;
	add(0, 11);
	assert_int_equal(commits_set_committed(&commits, 0, 10, &err), -1);
	assert_int_equal(err.code, EX_DATAERR);
	assert_string_equal(err.text,
	    "t[0]: the stream starts at 11, committed is 10: that would skip "
	    "what lies between (only --set moves a group over it)");
	assert_true(commits_must_read(&commits));
}

/* A late commit of another chain, between the reading of the first stage and
 * that of the last. */
static void
moved_back_before_the_first_reading(void **state)
{
	(void)state;
	assert_int_equal(
	    commits_add(&commits, slice_of("t"), 0, 11, true, &err), 0);
	assert_int_equal(commits_set_committed(&commits, 0, 10, &err), -1);
	assert_int_equal(err.code, EX_TEMPFAIL);
	assert_string_equal(err.text,
	    "t[0]: committed is 10, was 11, the stream starts at 11: somebody "
	    "else has moved the group back: start again");
	/* A rewind isn't anybody else's. */
	set_committed(0, 90);
}

/* Moved back below the start by another host, or read from a broker that was
 * frozen: a new start of the chain mends it. */
static void
moved_back_is_not_a_skip(void **state)
{
	(void)state;
	add(0, 11);
	set_committed(0, 11);
	acknowledge(0, 11, 20);
	assert_int_equal(commits_set_committed(&commits, 0, 10, &err), -1);
	assert_int_equal(err.code, EX_TEMPFAIL);
	assert_string_equal(err.text,
	    "t[0]: committed is 10, was 11, the stream starts at 11: somebody "
	    "else has moved the group back: start again");
}

/* As when a topic is deleted and created again under a chain. */
static void
what_stood_and_is_gone_ends_it(void **state)
{
	(void)state;
	add(0, 0);
	set_committed(0, -1);
	acknowledge(0, 0, 20);
	set_committed(0, -1);
	assert_int_equal(commits_begin(&commits), 1);
	commits_fail(&commits);
	set_committed(0, -1);
	assert_int_equal(commits_begin(&commits), 1);
	commits_succeed(&commits);
	acknowledge(0, 20, 30);
	assert_int_equal(commits_set_committed(&commits, 0, -1, &err), -1);
	assert_int_equal(err.code, EX_CONFIG);
	assert_string_equal(err.text,
	    "t[0]: committed was 20, now nothing is: the topic was deleted and "
	    "created again, or the group's offsets were deleted or expired");
}

static void
gap_is_refused(void **state)
{
	(void)state;
	add(0, 0);
	assert_int_equal(acknowledge(0, 0, 5), 0);
	assert_int_equal(acknowledge(0, 6, 7), -1);
	assert_int_equal(err.code, EX_DATAERR);
	assert_int_equal(acknowledge(0, 4, 7), -1);
	assert_int_equal(acknowledge(0, 5, 4), -1);
	assert_int_equal(acknowledge(1, 0, 4), -1);
	assert_int_equal(commits.coverage.all[0].next, 5);
	assert_int_equal(
	    commits_add(&commits, slice_of("t"), 0, 0, false, &err), -1);
}

static void
failure_reads_again(void **state)
{
	(void)state;
	add(0, 0);
	commits_set_committed(&commits, 0, 0, &err);
	acknowledge(0, 0, 10);
	set_committed(0, 0);
	assert_int_equal(commits_begin(&commits), 1);
	commits_fail(&commits);
	assert_false(commits_are_due(&commits));
	assert_false(commits_are_done(&commits));
	/* It had been committed after all. */
	commits_set_committed(&commits, 0, 10, &err);
	assert_false(commits_are_due(&commits));
	assert_true(commits_are_done(&commits));
}

static void
partition_that_joins_later(void **state)
{
	(void)state;
	add(0, 0);
	commits_set_committed(&commits, 0, 0, &err);
	assert_int_equal(acknowledge(3, 20, 20), 0);
	assert_true(commits_must_read(&commits));
	assert_int_equal(commits_set_committed(&commits, 1, -1, &err), 0);
	assert_int_equal(commits_begin(&commits), 1);
	assert_int_equal(commits.all[1].sent, 20);
}

/* What is known of a partition stays with it when one comes in before it. */
static void
partition_that_joins_in_the_middle(void **state)
{
	(void)state;
	add(0, 0);
	add(9, 0);
	commits_set_committed(&commits, 0, 0, &err);
	commits_set_committed(&commits, 1, 4, &err);
	assert_int_equal(acknowledge(9, 0, 5), 0);
	assert_int_equal(acknowledge(3, 20, 20), 0);
	set_committed(1, -1);
	set_committed(2, 4);
	assert_int_equal(commits.all[2].committed, 4);
	assert_int_equal(commits_begin(&commits), 2);
	assert_int_equal(commits.all[0].sent, -1);
	assert_int_equal(commits.all[1].sent, 20);
	assert_int_equal(commits.all[2].sent, 5);
}

static void
renewal_commits_what_is_there(void **state)
{
	(void)state;
	add(0, 5);
	add(1, 0);
	commits_set_committed(&commits, 0, 5, &err);
	commits_set_committed(&commits, 1, -1, &err);
	commits_renew(&commits);
	assert_true(commits_must_read(&commits));
	assert_false(commits_are_due(&commits));
	/* Somebody moved it on meanwhile: it isn't moved back. */
	commits_set_committed(&commits, 0, 8, &err);
	commits_set_committed(&commits, 1, -1, &err);
	assert_int_equal(commits_begin(&commits), 2);
	assert_int_equal(commits.all[0].sent, 8);
	assert_int_equal(commits.all[1].sent, 0);
	commits_succeed(&commits);
	assert_false(commits_are_due(&commits));
}

static void
what_a_message_says(void **state)
{
	char text[1000];

	(void)state;
	add(0, 5);
	add(1, 7);
	add(2, 0);
	set_committed(0, 5);
	set_committed(1, -1);
	set_committed(2, 9);
	acknowledge(0, 5, 6);
	acknowledge(2, 0, 8);
	commits_describe(&commits, text, sizeof(text));
	assert_string_equal(text, "t[0] 5 -> 6, t[1] none -> 7");
	set_committed(0, 5);
	assert_int_equal(commits_begin(&commits), 2);
	/* What is in flight, not what came after it. */
	acknowledge(0, 6, 90);
	commits_describe(&commits, text, sizeof(text));
	assert_string_equal(text, "t[0] 5 -> 6, t[1] none -> 7");
	commits_describe(&commits, text, COMMITS_TEXT_BYTES);
	assert_string_equal(text, "t[0] 5 -> 6, 1 more");
	commits_succeed(&commits);
	commits_describe(&commits, text, sizeof(text));
	assert_string_equal(text, "t[0] 6 -> 90");
}

/* The model: what the broker has, and what was acknowledged. */
static int64_t broker[PARTITIONS];
static int64_t acked[PARTITIONS];
static int64_t least[PARTITIONS]; /* a committed offset never falls below */
static bool named[PARTITIONS];

static int
chance(int percent)
{
	return rand() % 100 < percent;
}

static void
land(uint32_t i)
{
	int64_t sent = commits.all[i].sent;

	if (sent < 0)
		return;
	assert_true(sent >= broker[i]);
	/* Never beyond what was acknowledged, unless it was there before. */
	assert_true(sent <= acked[i] || sent == broker[i]);
	assert_true(named[i] || sent == broker[i] || broker[i] < 0);
	broker[i] = sent;
}

static void
answer(int percent_fails)
{
	bool fails = chance(percent_fails);

	for (uint32_t i = 0; i < PARTITIONS; i++)
		if (!fails || chance(50)) /* an error may be of some only */
			land(i);
	if (fails)
		commits_fail(&commits);
	else
		commits_succeed(&commits);
}

static void
read_all(void)
{
	for (uint32_t i = 0; i < PARTITIONS; i++)
		assert_true(
		    commits_set_committed(&commits, i, broker[i], &err) >= 0);
}

static void
random_step(void)
{
	int32_t i = rand() % PARTITIONS;
	int64_t next = acked[i] + rand() % 4;

	if (chance(60)) {
		assert_int_equal(acknowledge(i, acked[i], next), 0);
		acked[i] = next;
		named[i] = true;
	}
	if (commits.in_flight) {
		if (chance(30))
			answer(30);
	} else if (chance(50)) {
		if (commits_must_read(&commits))
			read_all();
		commits_begin(&commits);
	} else if (chance(5)) {
		commits_renew(&commits);
	}
	/* Another one commits, except between a reading and its commit. */
	if (chance(10) && !commits.in_flight && !commits_are_due(&commits) &&
	    broker[i] >= 0)
		broker[i] += rand() % 5;
	for (i = 0; i < PARTITIONS; i++) {
		assert_true(broker[i] >= least[i]);
		least[i] = broker[i];
	}
}

static void
begin_schedule(unsigned seed)
{
	srand(seed);
	for (int32_t i = 0; i < PARTITIONS; i++) {
		broker[i] = least[i] = chance(30) ? -1 : rand() % 20;
		acked[i] = broker[i] < 0 ? rand() % 20
		    : broker[i] == 0	 ? 0
					 : rand() % broker[i];
		named[i] = false;
		add(i, acked[i]);
	}
	read_all();
}

static void
end_schedule(void)
{
	for (int i = 0; i < 4; i++) {
		if (commits.in_flight)
			answer(0);
		if (commits_must_read(&commits))
			read_all();
		commits_begin(&commits);
	}
	assert_true(commits_are_done(&commits));
	for (int i = 0; i < PARTITIONS; i++)
		assert_true(broker[i] >= acked[i]);
	commits_release(&commits);
}

static void
random_schedules(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < SCHEDULES; seed++) {
		begin_schedule(seed);
		for (int i = 0; i < STEPS; i++)
			random_step();
		end_schedule();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(the_start_before_a_receipt, forget),
	    cmocka_unit_test_teardown(
		one_in_flight_and_the_rest_in_the_next, forget),
	    cmocka_unit_test_teardown(replay_is_absorbed, forget),
	    cmocka_unit_test_teardown(others_are_not_moved_back, forget),
	    cmocka_unit_test_teardown(skip_is_refused, forget),
	    cmocka_unit_test_teardown(
		moved_back_before_the_first_reading, forget),
	    cmocka_unit_test_teardown(moved_back_is_not_a_skip, forget),
	    cmocka_unit_test_teardown(what_stood_and_is_gone_ends_it, forget),
	    cmocka_unit_test_teardown(gap_is_refused, forget),
	    cmocka_unit_test_teardown(failure_reads_again, forget),
	    cmocka_unit_test_teardown(partition_that_joins_later, forget),
	    cmocka_unit_test_teardown(
		partition_that_joins_in_the_middle, forget),
	    cmocka_unit_test_teardown(renewal_commits_what_is_there, forget),
	    cmocka_unit_test_teardown(what_a_message_says, forget),
	    cmocka_unit_test_teardown(random_schedules, forget),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
