#!/usr/bin/env bats
# Every error of Kafka's protocol, for each request that the programs make: at
# the first, a middle and the last one, and for good. What is expected stands
# in tests/data/kafka-errors.tsv and tests/lib/error-points.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/errors

teardown_file() {
	stop_mock
}

points_of() {
	error_points | grep -E "^$1 "
}

@test "produce requests" {
	points_of produce | expect_points
}

@test "produce requests of an idempotent producer, and its id" {
	points_of '(idempotent|init-producer-id)' | expect_points
}

@test "commits" {
	points_of offset-commit | expect_points
}

@test "questions for offsets and for the coordinator" {
	points_of '(offset-fetch|list-offsets|find-coordinator)' | expect_points
}

@test "fetches" {
	points_of fetch | expect_points
}

@test "the topic, at the start" {
	points_of 'metadata/.*' | expect_points
}

topic_is_fine() {
	kcat -L -b "$MOCK_BROKERS" -t d | grep 'topic "d" with 1 partitions:$'
}

# mock_with CODE: its topic d is fine, and gets that error by USR2.
mock_with() {
	start_mock -v -t d:1 --topic-error "d=$1"
	kill -USR1 "$MOCK_PID"
	wait_until 30 topic_is_fine
}

@test "a topic that goes while it is read: 69" {
	local pid status=0 out=$BATS_TEST_TMPDIR/out
	mock_with 3
	outbox-read -b "$MOCK_BROKERS" -t d -o beginning \
		-X topic.metadata.refresh.interval.ms=100 >"$out" 3>&- &
	pid=$!
	wait_until 30 test -s "$out"
	kill -USR2 "$MOCK_PID"
	wait "$pid" || status=$?
	[ "$status" -eq 69 ]
}

# A first batch, and when there is its receipt and then the file "go", two more.
dispatches() {
	echo '{"qim":1,"minor":0,"kind":"dispatches","from":"test","run":7,"topic":"o","group":null,"start":[["o",0,0,"first"]],"partitions":1}'
	echo '{"batch":1,"src":[["o",0,0,1]],"at":[],"rec":[[null,0,"k","v",null,[0,0]]]}'
	wait_until 30 test -e "$BATS_TEST_TMPDIR/go"
	echo '{"batch":2,"src":[["o",0,1,2]],"at":[],"rec":[[null,0,"k","v",null,[0,1]]]}'
	echo '{"end":true,"batches":2,"records":2}'
}

questions() {
	grep -c 'Received MetadataRequest' "$(scope_dir)/mock/err"
}

has_questions() {
	(($(questions) >= $1))
}

has_receipt() {
	stream-dump <"$1" 2>/dev/null | grep '"out":1'
}

# librdkafka has the topic's last answer, and its messages wait for a better one;
# for a topic that is gone it may know that before their time is over.
@test "a topic that gets an error while it is written: no receipt more" {
	local code pid out=$BATS_TEST_TMPDIR/out
	for code in 3 5 29; do
		rm -f "$BATS_TEST_TMPDIR/go" "$out"
		mock_with "$code"
		dispatch-produce -b "$MOCK_BROKERS" -t d \
			-X message.timeout.ms=2000 \
			-X topic.metadata.refresh.interval.ms=100 \
			< <(dispatches | stream-make) >"$out" 3>&- &
		pid=$!
		wait_until 30 has_receipt "$out"
		kill -USR2 "$MOCK_PID"
		wait_until 30 has_questions "$(($(questions) + 3))"
		touch "$BATS_TEST_TMPDIR/go"
		status=0
		wait "$pid" || status=$?
		((status == 75 || (code == 3 && status == 69))) ||
			fail "code $code: $status"
		[ "$(stream-dump <"$out" 2>/dev/null | grep -c '"out":')" -eq 1 ]
	done
}
