#!/usr/bin/env bats
# broker-mock: a Kafka in one process.
# shellcheck disable=SC2016,SC2030,SC2031

bats_require_minimum_version 1.5.0
load lib/common

teardown_file() {
	stop_mock
}

@test "one line of addresses, one for each broker, and stdout is closed" {
	broker-mock -n 3 >"$BATS_TEST_TMPDIR/out" 3>&- &
	local pid=$!
	wait_until 10 grep -q . "$BATS_TEST_TMPDIR/out"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/out")" -eq 1 ]
	grep -Eqx '127\.0\.0\.1:[0-9]+(,127\.0\.0\.1:[0-9]+){2}' \
		"$BATS_TEST_TMPDIR/out"
	wait_until 10 is_output_closed "$pid"
	kill -TERM "$pid"
	wait "$pid"
}

is_output_closed() {
	[ "$(readlink "/proc/$1/fd/1")" = /dev/null ]
}

@test "INT ends it with 0 too" {
	bash -c 'trap - INT; exec broker-mock' >"$BATS_TEST_TMPDIR/out" 3>&- &
	local pid=$!
	wait_until 10 grep -q . "$BATS_TEST_TMPDIR/out"
	kill -INT "$pid"
	wait "$pid"
}

# bats test_tags=slow
@test "topics as asked for, read back by kcat" {
	start_mock -n 2 -t outbox:4 -t dispatch:64:1
	run -0 kcat -L -b "$MOCK_BROKERS"
	[[ "$output" == *'topic "outbox" with 4 partitions'* ]]
	[[ "$output" == *'topic "dispatch" with 64 partitions'* ]]
	printf 'a:1\nb:2\n' | kcat -P -b "$MOCK_BROKERS" -t outbox -p 3 -K :
	run -0 --separate-stderr kcat -C -b "$MOCK_BROKERS" -t outbox -p 3 -e -q -f '%o %k=%s\n'
	[ "$output" = $'0 a=1\n1 b=2' ]
}

@test "a topic that isn't named has 4 partitions once it is asked for" {
	start_mock -t outbox:2
	run -0 kcat -L -b "$MOCK_BROKERS" -t other
	[[ "$output" == *'topic "other" with 4 partitions'* ]]
}

@test "a partition keeps about 5 MiB, older records vanish" {
	start_mock -t big:1
	head -c 9000000 /dev/zero | tr '\0' x | fold -w 90000 |
		kcat -P -b "$MOCK_BROKERS" -t big -p 0
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t big -p 0 -o beginning -e \
		-q -f "%o\n" | sed -n "1p;\$p"'
	[ "${lines[0]}" -gt 20 ]
	[ "${lines[0]}" -lt 60 ]
	[ "${lines[1]}" -eq 99 ]
}

@test "a group's committed offsets are kept" {
	start_mock -t outbox:1
	printf '1\n2\n3\n' | kcat -P -b "$MOCK_BROKERS" -t outbox -p 0
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g g --set outbox=2
	[[ "$output" == 'outbox[0] '*' -> 2' ]]
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g g --set outbox=end
	[ "$output" = 'outbox[0] 2 -> 3' ]
}

# bats test_tags=slow
@test "--error fails so many requests of a kind" {
	start_mock -t t:1 --error produce=TOPIC_AUTHORIZATION_FAILED:1
	run -1 kcat -P -b "$MOCK_BROKERS" -t t -p 0 <<<first
	[[ "$output" == *'Topic authorization failed'* ]]
	run -0 kcat -P -b "$MOCK_BROKERS" -t t -p 0 <<<second
	run -0 --separate-stderr kcat -C -b "$MOCK_BROKERS" -t t -p 0 -e -q
	[ "$output" = second ]
	# By number, and one kind after the other.
	start_mock -t t:1 --error produce=29 --error produce=MSG_SIZE_TOO_LARGE
	run -1 kcat -P -b "$MOCK_BROKERS" -t t -p 0 <<<first
	[[ "$output" == *'Topic authorization failed'* ]]
	run -1 kcat -P -b "$MOCK_BROKERS" -t t -p 0 <<<first
	[[ "$output" == *'Message size too large'* ]]
}

produce_one() {
	kcat -P -b "$MOCK_BROKERS" -t t -p 0 <<<"$1" >/dev/null 2>&1
}

@test "--error after so many good requests, and for good" {
	start_mock -t t:1 --error produce=29:2@1
	produce_one good
	run ! produce_one bad
	run ! produce_one bad
	produce_one good
	# For good: more than are kept ready at once, of an error without a name.
	start_mock -n 2 -t t:1 --error offset-commit=29:forever@1
	run -0 offset-commit -b "$MOCK_BROKERS" -g g --set t=0
	for _ in 1 2 3; do
		run -77 offset-commit -b "$MOCK_BROKERS" -g g --set t=0
	done
	start_mock -t t:1 --error produce=133:forever@1
	produce_one good
	for _ in 1 2 3; do
		run ! produce_one bad
	done
	run -0 --separate-stderr kcat -C -b "$MOCK_BROKERS" -t t -p 0 -e -q
	[ "$output" = good ]
}

# ask_coordinator COUNT: so many requests, and the errors of the answers.
ask_coordinator() {
	python3 - "${MOCK_BROKERS#*:}" "$1" <<'EOF' | sort | uniq -c
import socket, struct, sys
mock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
answers = mock.makefile("rb")
for number in range(int(sys.argv[2])):
    request = struct.pack(">hhih", 10, 0, number, -1) + struct.pack(">h", 1) + b"g"
    mock.sendall(struct.pack(">i", len(request)) + request)
    answer = answers.read(struct.unpack(">i", answers.read(4))[0])
    print(struct.unpack(">h", answer[4:6])[0])
EOF
}

# bats test_tags=slow
@test "an error that comes forever outlasts what is kept ready of it" {
	start_mock --error find-coordinator=15:forever@2
	run -0 ask_coordinator 12000
	[ "$(tr -s '[:space:]' ' ' <<<"$output")" = ' 2 0 11998 15 ' ]
}

@test "-v tells each request and each committed offset" {
	start_mock -v -t t:1
	run -0 offset-commit -b "$MOCK_BROKERS" -g g --set t=0
	grep -q 'Received OffsetCommitRequest' "$(scope_dir)/mock/err"
	grep -q 'Topic t \[0\] committing offset 0 for group g' \
		"$(scope_dir)/mock/err"
}

topic_has_partitions() {
	kcat -L -b "$MOCK_BROKERS" -t gone | grep "topic \"gone\" with $1 "
}

@test "--topic-error answers for a topic, USR1 and USR2 switch it" {
	start_mock -t t:1 --topic-error gone=UNKNOWN_TOPIC_OR_PART
	run -0 kcat -L -b "$MOCK_BROKERS" -t gone
	[[ "$output" == *'topic "gone" with 0 partitions: Broker: Unknown topic'* ]]
	kill -USR1 "$MOCK_PID"
	wait_until 10 topic_has_partitions 4
	kill -USR2 "$MOCK_PID"
	wait_until 10 topic_has_partitions 0
}

# bats test_tags=slow
@test "what isn't a topic, an error or a count: 64" {
	run -64 --separate-stderr broker-mock -t outbox
	expect_message "broker-mock: error: -t: 'outbox': wants name:partitions or name:partitions:replication"
	run -64 --separate-stderr broker-mock -t 'out box:1'
	expect_message "-t: 'out box:1': wants name:partitions"
	run -64 --separate-stderr broker-mock -t outbox:0
	expect_message "-t: '0': wants a number from 1 to 10000 partitions"
	run -64 --separate-stderr broker-mock -n 2 -t outbox:1:3
	expect_message "-t: '3': wants a number from 1 to 2 replicas"
	run -64 --separate-stderr broker-mock -t outbox:1 -t outbox:2
	expect_message "-t: 'outbox:2'"
	run -64 --separate-stderr broker-mock -n 17
	expect_message "-n: '17': wants a number from 1 to 16 brokers"
	run -64 --separate-stderr broker-mock --error produce
	expect_message "--error: 'produce': wants api=CODE[:count][@good], api one of produce, fetch"
	run -64 --separate-stderr broker-mock --error cook=3
	expect_message "--error: 'cook=3': wants api=CODE"
	run -64 --separate-stderr broker-mock --error produce=NONSENSE
	expect_message "--error: 'NONSENSE': wants an error of Kafka"
	run -64 --separate-stderr broker-mock --error produce=3:0
	expect_message "--error: '0': wants a number from 1 to 100000 requests, or forever"
	run -64 --separate-stderr broker-mock --error produce=3:1@-1
	expect_message "--error: '-1': wants a number from 0 to 100000 good requests"
	run -64 --separate-stderr broker-mock --error produce=3@
	expect_message "--error: 'produce=3@': wants api=CODE[:count][@good]"
	run -64 --separate-stderr broker-mock --error produce=32768
	expect_message "--error: '32768': wants an error of Kafka"
	for second in produce=3 produce=3:forever; do
		run -64 --separate-stderr broker-mock \
			--error produce=3:forever --error "$second"
		expect_message "--error: '$second': an error that comes forever is the only one of its api"
	done
	run -64 --separate-stderr broker-mock --error produce=3 \
		--error produce=3:forever
	expect_message "--error: 'produce=3:forever': an error that comes"
	run -64 --separate-stderr broker-mock --topic-error t
	expect_message "--topic-error: 't': wants name=CODE"
	run -64 --separate-stderr broker-mock --topic-error t=NONSENSE
	expect_message "--topic-error: 'NONSENSE': wants an error of Kafka"
}

@test "--check answers and leaves" {
	run -0 --separate-stderr broker-mock --check -t outbox:4
	[ -z "$output$stderr" ]
}

@test "an output that takes nothing: 74, that nobody reads: 75" {
	run -74 bash -c 'broker-mock >/dev/full'
	expect_message 'broker-mock: error: write to fd 1'
	run -75 to_nobody broker-mock
	expect_message 'broker-mock: error: output: the reader is gone'
}
