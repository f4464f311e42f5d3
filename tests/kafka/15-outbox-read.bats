#!/usr/bin/env bats
# outbox-read on a real broker: deleted records, transactions, a topic or the
# broker gone, a slow reader.

# shellcheck disable=SC2016  # for bash -c
bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
	out=$BATS_TEST_TMPDIR/out.qim
	err=$BATS_TEST_TMPDIR/err
}

produce() {
	kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" -p "${1:-0}"
}

# long_lines N: so long that librdkafka can't hold all of them in advance.
long_lines() {
	seq "$1" | awk '{ printf "%s %0150d\n", $1, 0 }'
}

reads() {
	timeout -k 5 60 outbox-read -b "$KAFKA_BROKERS" -t "$topic" "$@"
}

# slow_reader FILE: takes a little, waits for FILE, takes the rest.
slow_reader() {
	dd bs=2000 count=1 iflag=fullblock status=none
	wait_until 30 test -e "$1"
	cat
}

@test "a start below the log: 65 with the numbers; --set to its beginning mends it" {
	local group
	group=$(unique group)
	kafka_create_topic "$topic" 1
	seq 100 | produce
	kafka_commit "$group" "$topic" 0:5
	kafka_delete_records "$topic" 0 40
	run -65 --separate-stderr reads -g "$group" -e
	[ -z "$output" ]
	expect_message "${topic}[0]: offset out of range: start 5 (stored), the log holds 40 to 100"
	offset-commit -q -b "$KAFKA_BROKERS" -g "$group" --set "$topic=beginning"
	reads -g "$group" -e >"$out"
	stream-dump <"$out" | jq -se '.[0].start[0][2] == 40 and .[-1].records == 60'
}

nothing_committed() {
	[ -z "$(kafka_committed "$1" "$topic")" ]
}

@test "a topic deleted and created again: its marks don't skip it, 78" {
	local group file=$BATS_TEST_TMPDIR/positions
	group=$(unique group)
	kafka_create_topic "$topic" 1
	seq 5 | produce
	kafka_commit "$group" "$topic" 0:5
	echo "$topic 0 5" >"$file"
	reads -g "$group" -o "@$file" -e >"$out"
	kafka_delete_topics "$topic"
	# What was committed for it goes a while after it.
	wait_until 30 nothing_committed "$group"
	kafka_create_topic "$topic" 1
	seq 9 | produce
	run -78 --separate-stderr reads -g "$group" -o "@$file" -e
	[ -z "$output" ]
	expect_message "${topic}[0]: $file has position 5, the group has nothing stored for the topic"
	offset-commit -q -b "$KAFKA_BROKERS" -g "$group" --set "$topic=beginning"
	reads -g "$group" -o "@$file" -e >"$out"
	stream-dump <"$out" | jq -se '.[-1].records == 9'
}

@test "records deleted under a slow reader: 65 with the numbers, the rest out" {
	local status=0
	kafka_create_topic "$topic" 1
	long_lines 100000 | produce
	{ reads -o 0 -X queued.min.messages=1 -X fetch.message.max.bytes=1000 \
		2>"$err" || echo "$?" >"$BATS_TEST_TMPDIR/status"; } |
		slow_reader "$BATS_TEST_TMPDIR/go" >"$out" 3>&- &
	wait_until 30 test -s "$out"
	kafka_delete_records "$topic" 0 99000
	: >"$BATS_TEST_TMPDIR/go"
	wait
	[ "$(<"$BATS_TEST_TMPDIR/status")" = 65 ]
	grep -Eq "error: $topic\[0\]: offset out of range: [0-9]+, the log holds 99000 to 100000\$" "$err"
	# The offset it names is the one after the last record that went out.
	stream-dump <"$out" >"$BATS_TEST_TMPDIR/dump" 2>/dev/null || status=$?
	[ "$status" = 75 ]
	[[ "$(<"$err")" == *"out of range: $(jq -s '.[-1].src[0][3]' \
		"$BATS_TEST_TMPDIR/dump"),"* ]]
	jq -se '.[-1].rec[-1][1] + 1 == .[-1].src[0][3]' "$BATS_TEST_TMPDIR/dump"
}

@test "transactions: ranges cover the markers, the last one too" {
	local end
	kafka_create_topic "$topic" 1
	transact -X "transactional.id=$topic" "$KAFKA_BROKERS" "$topic" \
		begin 0:13 commit begin 0:13 commit begin 0:14 commit
	end=$(kafka_end_offsets "$topic" | cut -d ' ' -f 2)
	((end == 43))
	reads -v -o 0 -e >"$out" 2>"$err"
	stream-dump <"$out" | jq -se --argjson log_end "$end" '
		.[-1].records == 40 and
		([.[].src // [] | .[]] | .[0][2] == 0 and .[-1][3] == $log_end)'
	grep -q "info: $topic\[0\]: no records at offsets $((end - 1)) to $((end - 1))" "$err"
	# From the marker on there is no record, but a range.
	reads -o "$((end - 1))" -e | stream-dump | jq -se --argjson log_end "$end" '
		.[-1].records == 0 and .[-2].src[0][2:] == [$log_end - 1, $log_end]'
}

@test "the topic is deleted: 69" {
	local pid status=0
	kafka_create_topic "$topic" 1
	seq 10 | produce
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" -o 0 >"$out" 2>"$err" 3>&- &
	pid=$!
	wait_until 30 test -s "$out"
	kafka_delete_topics "$topic"
	wait "$pid" || status=$?
	[ "$status" = 69 ]
	grep -qx "outbox-read: error: topic $topic: it isn't there any more" "$err"
	stream-dump <"$out" 2>/dev/null | jq -se '.[-1].src[0][3] == 10' || true
}

@test "a broker that goes away and comes back: it goes on" {
	local pid
	kafka_create_topic "$topic" 2
	seq 10 | produce 0
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" -o 0 -c 15 >"$out" 2>"$err" 3>&- &
	pid=$!
	wait_until 30 test -s "$out"
	kafka_kill 1
	sleep 1
	kill -0 "$pid"
	kafka_restart 1
	kafka_wait_isr "$topic"
	seq 11 15 | produce 1
	wait "$pid"
	stream-dump --rec <"$out" | jq -r .value | sort -n | cmp - <(seq 15)
}

@test "a reader that is slower than max.poll.interval.ms is no fault" {
	kafka_create_topic "$topic" 1
	long_lines 5000 | produce
	reads -o 0 -e -X max.poll.interval.ms=1000 -X session.timeout.ms=1000 |
		{ dd bs=2000 count=1 status=none; sleep 3; cat; } >"$out"
	stream-dump <"$out" | jq -se '.[-1].records == 5000'
}

@test "a record that no frame can hold: 65, what came before goes out" {
	kafka_create_topic "$topic" 1 max.message.bytes=30000000
	echo before | produce
	head -c 17000000 /dev/zero >"$BATS_TEST_TMPDIR/value"
	kcat -P -b "$KAFKA_BROKERS" -X message.max.bytes=20000000 -t "$topic" \
		-p 0 "$BATS_TEST_TMPDIR/value"
	run -65 --separate-stderr bash -c 'timeout 60 outbox-read -b "$1" -t "$2" \
		-o 0 -e >"$3"' - "$KAFKA_BROKERS" "$topic" "$out"
	expect_message "${topic}[0]: record at offset 1: 17000064 bytes, a frame has room for 16773120"
	run -75 bash -c 'stream-dump <"$1" >"$1.dump"' - "$out"
	jq -se '.[-1].rec[0][4] == "before" and .[-1].src[0][2:] == [0, 1]' "$out.dump"
}

@test "a record larger than --batch-bytes has a batch of its own" {
	kafka_create_topic "$topic" 1 max.message.bytes=9000000
	{ seq 3; head -c 4000000 /dev/zero | tr '\0' x; echo; seq 3; } |
		kcat -P -b "$KAFKA_BROKERS" -X message.max.bytes=9000000 \
			-t "$topic" -p 0
	reads -o 0 -e --batch-ms 1000 | stream-dump |
		jq -se '[.[] | .rec // empty | length] == [0, 3, 1, 3]'
}

@test "a million records: none missing, in order" {
	kafka_create_topic "$topic" 2
	seq 500000 | produce 0
	seq 500000 | produce 1
	reads -o 0 -e | stream-dump --rec |
		jq -r '"\(.src[1]) \(.src[2]) \(.value)"' |
		awk '$2 != next_[$1]++ || $3 != $2 + 1 { bad++ }
			END { print next_[0], next_[1], bad + 0 }' >"$err"
	[ "$(<"$err")" = '500000 500000 0' ]
}
