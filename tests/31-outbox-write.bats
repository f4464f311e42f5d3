#!/usr/bin/env bats
# outbox-write: JSON lines into the Outbox.
# shellcheck disable=SC2016,SC2030,SC2031,SC2119,SC2120,SC2154

bats_require_minimum_version 1.5.0
load lib/common

teardown_file() {
	stop_mock
}

setup() {
	lines_in=$BATS_TEST_TMPDIR/lines.jsonl
}

mock() {
	start_mock -t outbox:4 "$@"
}

# message SEQ [FIELD:VALUE,...]: one line of conversation c1.
message() {
	jq -nc --argjson seq "$1" "{message_id: \"m\(\$seq)\",
		conversation_id: \"c1\", conversation_seq: \$seq, sender: \"ann\",
		created_at: 1700000000000, payload: {text: \"t\(\$seq)\"},
		recipients: [\"bob\", \"ann\"]} + {${2-}}"
}

write_lines() {
	outbox-write -b "$MOCK_BROKERS" -t outbox "$@"
}

# What is on the topic: key and the value as JSON, a line each, by partition.
topic() {
	outbox-read -b "$MOCK_BROKERS" -t outbox -o beginning -e |
		stream-dump -d --rec | jq -c "${1:-.value}"
}

@test "each line is a record: msgpack, keyed by its conversation, in order" {
	mock
	{ message 1; message 2; message 3; } | write_lines
	run -0 --separate-stderr kcat -C -b "$MOCK_BROKERS" -t outbox -e -q -f '%k %p %o\n'
	[ "${#lines[@]}" -eq 3 ]
	[[ "${lines[0]}" == 'c1 '*' 0' && "${lines[2]}" == 'c1 '*' 2' ]]
	run -0 topic
	[ "${lines[0]}" = '{"message_id":"m1","conversation_id":"c1","conversation_seq":1,"sender":"ann","created_at":1700000000000,"payload":{"text":"t1"},"recipients":["ann","bob"]}' ] ||
		[ "$(jq -cS . <<<"${lines[0]}")" = "$(message 1 'recipients: ["ann", "bob"]' | jq -cS .)" ]
	[ "$(jq .conversation_seq <<<"${lines[2]}")" -eq 3 ]
}

# bats test_tags=slow
@test "conversations spread over the partitions as Kafka's own partitioner does" {
	mock -t reference:4
	seq 30 | jq -c '{message_id: "m", conversation_id: "conv-\(.)",
		conversation_seq: 1, sender: "a", created_at: 1, payload: null,
		recipients: ["b"]}' | write_lines
	seq 30 | sed 's/.*/conv-&:x/' | kcat -P -b "$MOCK_BROKERS" -t reference \
		-K : -p -1 -X topic.partitioner=murmur2_random
	placed() {
		kcat -C -b "$MOCK_BROKERS" -t "$1" -e -q -f '%k %p\n' | sort
	}
	placed outbox >"$BATS_TEST_TMPDIR/outbox"
	[ "$(cut -d ' ' -f 2 "$BATS_TEST_TMPDIR/outbox" | sort -u | wc -l)" -eq 4 ]
	diff "$BATS_TEST_TMPDIR/outbox" <(placed reference)
}

@test "unknown fields, text in any script and large numbers are kept" {
	mock
	message 1 'extra: {a: [1, null, true]}, payload: {text: "h\u00f6 \ud83d\ude00", n: 9007199254740993, f: 1.5}' |
		sed 's/9007199254740992/9007199254740993/' | write_lines
	run -0 topic '.value | [.extra, .payload.text, .payload.f]'
	[ "$output" = '[{"a":[1,null,true]},"hö 😀",1.5]' ]
	topic . >/dev/null
	run -0 bash -c 'outbox-read -b "$MOCK_BROKERS" -t outbox -o beginning -e |
		stream-dump -d --rec | grep -c 9007199254740993'
}

@test "a bad line is refused with its number, nothing else is lost: 65" {
	mock
	{
		message 1
		echo 'not json'
		echo '{"message_id":"m2"}'
		message 2 'conversation_seq: 0'
		message 2 'recipients: []'
		message 2
		echo '{"message_id":"m3",'
	} >"$lines_in"
	run -65 --separate-stderr write_lines <"$lines_in"
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 6 ]
	[[ "${stderr_lines[0]}" == 'outbox-write: error: line 2: '* ]]
	[[ "${stderr_lines[1]}" == "outbox-write: error: line 3: "*conversation_id* ]]
	[[ "${stderr_lines[2]}" == 'outbox-write: error: line 4: '*conversation_seq* ]]
	[[ "${stderr_lines[3]}" == 'outbox-write: error: line 5: '*recipients* ]]
	[[ "${stderr_lines[4]}" == 'outbox-write: error: line 7: '* ]]
	[ "${stderr_lines[5]}" = 'outbox-write: error: lines refused: 5 (2 written)' ]
	run -0 topic .value.conversation_seq
	[ "$output" = $'1\n2' ]
}

@test "blank lines are passed over, the last line needs no newline" {
	mock
	printf '\n  \t\r\n%s\n\n%s' "$(message 1)" "$(message 2)" |
		write_lines
	run -0 topic .value.conversation_seq
	[ "$output" = $'1\n2' ]
	run -0 write_lines </dev/null
}

@test "-v says how many lines were written" {
	mock
	message 1 >"$lines_in"
	run -0 --separate-stderr write_lines -v <"$lines_in"
	expect_message 'outbox-write: info: 1 written, 0 refused'
	run -0 --separate-stderr write_lines <"$lines_in"
	[ -z "$stderr" ]
}

@test "a line too long is refused without being held in memory" {
	mock
	{
		message 1
		head -c 200000000 /dev/zero | tr '\0' x
		echo
		message 2
	} >"$lines_in"
	run -65 --separate-stderr env time -f %M -o "$BATS_TEST_TMPDIR/kib" \
		outbox-write -b "$MOCK_BROKERS" -t outbox <"$lines_in"
	expect_message 'outbox-write: error: line 2: longer than 1048576 bytes (--max-bytes)'
	expect_message 'lines refused: 1 (2 written)'
	[[ $QIM_BIN == */asan/* ||
		$(tail -n 1 "$BATS_TEST_TMPDIR/kib") -lt 40000 ]]
	message 3 >"$lines_in"
	run -65 --separate-stderr write_lines --max-bytes 100 <"$lines_in"
	expect_message 'line 1: longer than 100 bytes (--max-bytes)'
}

@test "a message too large for Kafka is a refused line" {
	mock
	{
		message 1
		message 2 | jq -c '.payload = "x" * 1000000'
		message 3
	} >"$lines_in"
	run -65 --separate-stderr write_lines <"$lines_in"
	expect_message 'outbox-write: error: line 2: 1000'
	expect_message 'bytes: larger than message.max.bytes, 1000000'
	expect_message 'lines refused: 1 (2 written)'
}

# bats test_tags=slow
@test "a record that isn't delivered: the exit code says what to do" {
	local seq
	for seq in 1 2 3; do
		message "$seq"
	done >"$lines_in"
	mock --error produce=TOPIC_AUTHORIZATION_FAILED:1000
	run -77 --separate-stderr write_lines <"$lines_in"
	expect_message 'outbox-write: error: line 1: to outbox ['
	expect_message ']: Broker: Topic authorization failed (not persisted) (0 written, 0 refused)'
	mock --error produce=NOT_ENOUGH_REPLICAS:100000
	run -75 --separate-stderr write_lines -X message.timeout.ms=1000 \
		<"$lines_in"
	expect_message 'line 1: to outbox ['
	expect_message 'Local: Message timed out (not persisted) (0 written, 0 refused)'
	mock --error produce=MSG_SIZE_TOO_LARGE:1000
	run -65 --separate-stderr write_lines <"$lines_in"
	expect_message 'outbox-write: error: line 1: '
	expect_message "bytes: larger than the topic's max.message.bytes (not persisted)"
	expect_message 'lines refused: 3 (0 written)'
}

@test "errors that pass: 0, or 75 where a delivery isn't proven, then again" {
	local seq
	mock --error produce=NOT_LEADER_FOR_PARTITION:2 \
		--error produce=NOT_ENOUGH_REPLICAS:2
	for seq in $(seq 20); do
		message "$seq"
	done >"$lines_in"
	if ! write_lines <"$lines_in" 2>"$BATS_TEST_TMPDIR/err"; then
		grep -q 'reported without an offset (unproven) (' \
			"$BATS_TEST_TMPDIR/err"
		write_lines <"$lines_in"
	fi
	topic .value.conversation_seq >"$BATS_TEST_TMPDIR/have"
	diff <(seq 20) <(sort -nu "$BATS_TEST_TMPDIR/have")
}

# bats test_tags=slow
@test "no broker, no topic: 69; a topic that is forbidden: 77" {
	run -69 --separate-stderr outbox-write -b 127.0.0.1:1 -t outbox \
		--connect-ms 300 </dev/null
	expect_message 'outbox-write: error: topic outbox: not within 300 ms: '
	mock --topic-error gone=UNKNOWN_TOPIC_OR_PART \
		--topic-error secret=TOPIC_AUTHORIZATION_FAILED
	run -69 --separate-stderr outbox-write -b "$MOCK_BROKERS" -t gone \
		--connect-ms 2000 </dev/null
	expect_message 'topic gone: not within 2000 ms: Broker: Unknown topic or partition'
	run -77 --separate-stderr outbox-write -b "$MOCK_BROKERS" -t secret \
		</dev/null
	expect_message 'topic secret: Broker: Topic authorization failed'
	run -69 --separate-stderr outbox-write -b "$MOCK_BROKERS" -t gone \
		--connect-ms 300 --check </dev/null
	run -0 --separate-stderr write_lines --check </dev/null
	[ -z "$output$stderr" ]
}

@test "wrong options: 64" {
	run -64 --separate-stderr outbox-write -b x:1
	expect_message 'outbox-write: error: -t: missing'
	run -64 --separate-stderr outbox-write -b x:1 -t a/b
	expect_message "outbox-write: error: -t: 'a/b': wants a topic's name, 1 to 249 of letters, digits and ._-"
	run -64 --separate-stderr outbox-write -t outbox
	expect_message 'outbox-write: error: -b: missing'
	run -64 --separate-stderr outbox-write -b x:1 -t outbox --max-bytes 1
	expect_message "--max-bytes: '1': wants a number from 2 to 16777216 bytes"
}

@test "acks and in flight that an idempotent producer can't have: 78" {
	local property
	for property in acks=1 max.in.flight=6 retries=0; do
		run -78 --separate-stderr outbox-write -b x:1 -t outbox \
			-X "$property" </dev/null
		expect_message "-X ${property%=*}: '${property#*=}': refused: an idempotent producer wants"
	done
}

@test "an input that can't be read: 74" {
	mock
	run -74 --separate-stderr write_lines </
	expect_message 'outbox-write: error: read of fd 0: Is a directory'
}

is_written() {
	[ "$(kcat -C -b "$MOCK_BROKERS" -t outbox -e -q -f x)" = x ]
}

# bats test_tags=slow
@test "TERM and INT: what was read is delivered, 75 as input is left" {
	local signal pid status
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	for signal in TERM INT; do
		mock
		(
			trap - INT
			exec outbox-write -v -b "$MOCK_BROKERS" -t outbox
		) <"$BATS_TEST_TMPDIR/pipe" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
		pid=$!
		exec 9>"$BATS_TEST_TMPDIR/pipe"
		message 1 >&9
		wait_until 20 is_written
		kill "-$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		exec 9>&-
		[ "$status" -eq 75 ]
		grep -Fq 'outbox-write: error: stopped by a signal before the end of the input (1 written, 0 refused)' \
			"$BATS_TEST_TMPDIR/err"
	done
}

@test "told to stop while it looks for its topic: 75" {
	local pid status=0
	outbox-write -b 127.0.0.1:1 -t outbox </dev/null \
		2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	wait_until 10 has_handlers "$pid"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" -eq 75 ]
	[ "$(<"$BATS_TEST_TMPDIR/err")" = 'outbox-write: error: topic outbox: told to stop before an answer' ]
}

# bats test_tags=slow
@test "memory stays bounded, however much comes" {
	mock
	# 100 MB against a broker that answers every 44 ms.
	python3 -c '
import json
for n in range(2000):
    print(json.dumps({"message_id": "m", "conversation_id": "c%d" % (n % 7),
        "conversation_seq": n + 1, "sender": "a", "created_at": 1,
        "payload": "x" * 50000, "recipients": ["b"]}))' >"$lines_in"
	env time -f %M -o "$BATS_TEST_TMPDIR/kib" \
		outbox-write -b "$MOCK_BROKERS" -t outbox <"$lines_in"
	[[ $QIM_BIN == */asan/* || $(<"$BATS_TEST_TMPDIR/kib") -lt 160000 ]]
}

@test "a line of NUL bytes isn't blank" {
	mock
	run -65 --separate-stderr bash -c \
		'printf "\0\0\n" | outbox-write -b "$MOCK_BROKERS" -t outbox'
	expect_message 'outbox-write: error: line 1: '
}
