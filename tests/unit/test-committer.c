/* The committer's times, on a mock broker: offsets that don't move are
 * committed again, and a deadline is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "kafka/committer.h"
#include "kafka/mock.h"

static struct mock *mock;
static struct kafka_client client;
static struct committer committer;
static struct err err;

static void
begin(uint64_t deadline_us, uint64_t renew_us)
{
	const struct committer_settings settings = {
	    .deadline_us = deadline_us, .renew_us = renew_us};
	struct kafka_options options = {.group = "g"};

	mock = mock_start(1, &err);
	assert_non_null(mock);
	assert_int_equal(mock_add_topic(mock, 1, "t:3", &err), 0);
	options.brokers = mock_brokers(mock);
	assert_int_equal(
	    kafka_client_open(&client, &options, KAFKA_COMMITTER, 10000, &err),
	    0);
	assert_int_equal(
	    committer_open(&committer, &client, &settings, &err), 0);
	for (int32_t i = 0; i < 3; i++)
		assert_int_equal(commits_add(&committer.commits, slice_of("t"),
				     i, 7, true, &err),
		    0);
	assert_int_equal(
	    committer_read(&committer, clock_us() + 10000000, &err), 0);
}

/* A handle is never destroyed: kafka/client.h. */
static void
end(void)
{
	committer_release(&committer);
	mock_stop(mock);
}

static void
rest(void)
{
	struct pollfd wait = {.fd = committer.wake_fd, .events = POLLIN};

	poll(&wait, 1, committer_wait_ms(&committer));
}

/* Works until a commit is sent. */
static void
wait_for_commit(void)
{
	assert_false(committer.commits.in_flight);
	for (;;) {
		assert_int_equal(committer_work(&committer, &err), 0);
		if (committer.commits.in_flight)
			return;
		rest();
	}
}

static void
idle_partitions_are_committed_again(void **state)
{
	(void)state;
	begin(10000000, 300000);
	assert_int_equal(committer_finish(&committer, &err), 0);
	assert_int_equal(commits_acknowledge(
			     &committer.commits, slice_of("t"), 1, 7, 9, &err),
	    0);
	assert_int_equal(committer_finish(&committer, &err), 0);
	for (int round = 0; round < 2; round++) {
		wait_for_commit();
		assert_int_equal(committer.commits.all[0].sent, 7);
		assert_int_equal(committer.commits.all[1].sent, 9);
		assert_int_equal(committer.commits.all[2].sent, 7);
		/* The end waits for it, but not for the next renewal. */
		assert_int_equal(committer_finish(&committer, &err), 0);
		assert_false(committer.commits.in_flight);
	}
	end();
}

static void
nothing_to_do_is_waited_for(void **state)
{
	(void)state;
	begin(10000000, UINT64_C(3600000000));
	assert_int_equal(committer_finish(&committer, &err), 0);
	assert_in_range(committer_wait_ms(&committer), 3500000, 3600000);
	end();
}

static void
a_deadline_with_what_was_not_committed(void **state)
{
	(void)state;
	begin(500000, UINT64_C(3600000000));
	assert_int_equal(
	    mock_add_error(
		mock, "offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000", &err),
	    0);
	assert_int_equal(committer_finish(&committer, &err), -1);
	assert_int_equal(err.code, EX_TEMPFAIL);
	assert_memory_equal(err.text, "not committed within 500 ms: ", 29);
	assert_non_null(strstr(err.text, ": t[0] none -> 7, "));
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(idle_partitions_are_committed_again),
	    cmocka_unit_test(nothing_to_do_is_waited_for),
	    cmocka_unit_test(a_deadline_with_what_was_not_committed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	_exit(cmocka_run_group_tests(tests, NULL, NULL));
}
