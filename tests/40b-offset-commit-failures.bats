#!/usr/bin/env bats
# offset-commit: a broker that refuses a commit, doesn't answer, or dies; each
# test has a mock of its own.

# shellcheck disable=SC2030,SC2031,SC2154  # a subshell each; lib sets them
bats_require_minimum_version 1.5.0
load lib/common
load lib/committer

# bats test_tags=slow
@test "an error that passes: what is committed is read again, then 0" {
	mock --error offset-commit=NOT_COORDINATOR:1 \
		--error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:2
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 0 -v
	expect_message 't[0] '
	[ "$(committed)" = '0 5, 1 none' ]
}

# bats test_tags=slow
@test "an error that doesn't: 77, and members in the group: 78 in words" {
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	mock --error offset-commit=GROUP_AUTHORIZATION_FAILED:50
	commits 77
	expect_message 'commit: Broker: Group authorization failed'
	mock --error offset-commit=UNKNOWN_MEMBER_ID:50
	commits 78
	expect_message 'commit: refused, the group has members: some consumer has subscribed with its name (UNKNOWN_MEMBER_ID)'
	mock --error offset-fetch=GROUP_AUTHORIZATION_FAILED:50
	commits 77
	expect_message 'committed offsets of the group: Broker: Group authorization failed'
}

@test "damaged input, then a commit refused: the first is told: 65" {
	# Between two answers the input is read, so that the refusal, which is the
	# second (librdkafka itself asks three times for the first), comes after
	# the damage.
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:3 \
		--error offset-commit=GROUP_AUTHORIZATION_FAILED:50
	{ hello '[[0,0]]' && receipt 1 0,0,5; } | makes
	echo garbage >>"$stream"
	commits 65
	expect_message 'offset-commit: warning: commit: Broker: Group authorization failed'
	expect_message 'offset-commit: error: input: '
}

# bats test_tags=slow
@test "errors without an end: 75 at the deadline, with what wasn't committed" {
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 75 --connect-ms 1500
	expect_message 'not committed within 1500 ms: '
	expect_message 't[0] none -> '
}

# bats test_tags=slow
@test "a topic that isn't there: 69 at the deadline" {
	mock --error offset-commit=UNKNOWN_TOPIC_OR_PART:1000
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 69 --connect-ms 2000
	expect_message 'not committed within 2000 ms: Broker: Unknown topic or partition: t[0] none -> '
}

# bats test_tags=slow
@test "--set without an answer: 75, and how to find out" {
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	run -75 offset_commit --set t=0 --connect-ms 1000
	expect_message '--set: no success within 1000 ms: Broker: Coordinator load in progress: it may be done: --set with --dry-run tells'
}

told_to_wait() {
	grep -q 'again in' "$BATS_TEST_TMPDIR/err"
}

# bats test_tags=slow
@test "while it waits for a commit a first TERM ends nothing, a second all: 75" {
	local status=0
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	opens -v --connect-ms 60000
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | stream-make >&7
	exec 7>&-
	wait_until 10 told_to_wait
	kill -TERM "$pid"
	sleep 0.3
	kill -0 "$pid"
	kill -INT "$pid" # two of one signal may be one
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	[ "$(tail -n 1 "$BATS_TEST_TMPDIR/err")" = 'offset-commit: error: abandoned: second signal' ]
}

@test "--set while there is no answer: a TERM ends it: 75" {
	local status=0
	mock -v --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	offset-commit -b "$MOCK_BROKERS" -g "$group" --set t=0 \
		--connect-ms 60000 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	wait_until 20 grep -q 'Received OffsetCommitRequest' \
		"$(scope_dir)/mock/err"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -q 'told to stop before an answer' "$BATS_TEST_TMPDIR/err"
}

# bats test_tags=slow
@test "the broker dies before a commit: 75 within the deadline" {
	local status=0
	mock
	opens --connect-ms 2000
	{ hello '[[0,0]]' && receipt 1 0,0,5; } | stream-make >"$stream.first"
	{ hello '[[0,0]]' && receipt 1 0,0,5 && receipt 2 0,5,9 && finish 2; } | makes
	cat "$stream.first" >&7
	wait_until 10 is_committed '0 5, 1 none'
	kill -KILL "$MOCK_PID"
	tail -c "+$(($(stat -c %s "$stream.first") + 1))" "$stream" >&7
	exec 7>&-
	wait_until 30 gone "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -q 'not committed within 2000 ms: .*t\[0\] 5 -> 9' \
		"$BATS_TEST_TMPDIR/err"
}
