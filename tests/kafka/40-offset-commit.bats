#!/usr/bin/env bats
# offset-commit on a real broker: what it has committed as others see it, a
# group with members, the broker stopped and back.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
	group=$(unique group)
	err=$BATS_TEST_TMPDIR/err
	kafka_create_topic "$topic" 2
	seq 100 | kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" -p 0
	seq 50 | kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" -p 1
}

# receipts: records in, receipts out, as if each batch were durable.
receipts() {
	stream-dump | jq -c --unbuffered 'if .qim then
			.kind = "receipts" | .from = "made-up" | .durable = true
		elif .batch then {batch, src, in: (.rec | length),
			out: (.rec | length), dead: 0, bytes: 0, at: []}
		else . end' | stream-make
}

reads() {
	timeout -k 5 60 outbox-read -b "$KAFKA_BROKERS" -t "$topic" -g "$group" "$@"
}

commits() {
	timeout -k 5 60 offset-commit -b "$KAFKA_BROKERS" -g "$group" "$@"
}

@test "to the end of the log, and a second run has nothing to do" {
	reads --first beginning -e | receipts | commits
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 50' ]
	reads -e | receipts | commits -v 2>"$err"
	run ! grep -q 'committed in' "$err"
}

@test "--set back, then only what lies between is read again" {
	reads --first end -e | receipts | commits
	commits -q --set "$topic:1=48"
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 48' ]
	reads -e | tee "$BATS_TEST_TMPDIR/read" | receipts | commits
	[ "$(stream-dump --rec <"$BATS_TEST_TMPDIR/read" | jq -r .value | xargs)" = '49 50' ]
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 50' ]
}

# The member has its partitions.
has_member() {
	grep -q 'rebalanced' "$BATS_TEST_TMPDIR/member"
}

@test "a group with members: 78 in words, --set too, nothing moved" {
	local member
	reads --first beginning -e | receipts >"$BATS_TEST_TMPDIR/receipts"
	timeout 60 kcat -b "$KAFKA_BROKERS" -X enable.auto.commit=false \
		-G "$group" "$topic" >/dev/null \
		2>"$BATS_TEST_TMPDIR/member" 3>&- &
	member=$!
	wait_until 20 has_member
	run -78 --separate-stderr commits <"$BATS_TEST_TMPDIR/receipts"
	expect_message 'commit: refused, the group has members: some consumer has subscribed with its name (UNKNOWN_MEMBER_ID)'
	run -78 --separate-stderr commits --set "$topic=end"
	expect_message 'commit: refused, the group has members'
	kill "$member"
	wait "$member" || true
	[ -z "$(kafka_committed "$group" "$topic")" ]
}

@test "the broker stops before a commit and comes back: it is committed" {
	local pid
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	reads --first beginning -e | receipts >"$BATS_TEST_TMPDIR/receipts"
	offset-commit -v -b "$KAFKA_BROKERS" -g "$group" \
		<"$BATS_TEST_TMPDIR/pipe" 2>"$err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
	# hello and the first, empty batch
	head -c 420 "$BATS_TEST_TMPDIR/receipts" >&7
	wait_until 10 grep -q 'committed in' "$err"
	kafka_kill 1
	tail -c +421 "$BATS_TEST_TMPDIR/receipts" >&7
	exec 7>&-
	sleep 1
	kill -0 "$pid"
	kafka_restart 1
	kafka_wait_isr "$topic"
	wait "$pid"
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 50' ]
}

@test "the broker stops (SIGSTOP) under a commit: 75 within the deadline" {
	local pid status=0 start
	reads --first beginning -e | receipts >"$BATS_TEST_TMPDIR/receipts"
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	offset-commit -v -b "$KAFKA_BROKERS" -g "$group" --connect-ms 3000 \
		<"$BATS_TEST_TMPDIR/pipe" 2>"$err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
	head -c 420 "$BATS_TEST_TMPDIR/receipts" >&7
	wait_until 10 grep -q 'committed in' "$err"
	kafka_pause 1
	start=${EPOCHREALTIME/./}
	tail -c +421 "$BATS_TEST_TMPDIR/receipts" >&7
	exec 7>&-
	wait "$pid" || status=$?
	((${EPOCHREALTIME/./} - start < 15000000))
	kafka_resume 1
	[ "$status" = 75 ]
	grep -q "error: not committed within 3000 ms: .*$topic\[0\] 0 -> 100" "$err"
}
