#!/usr/bin/env bats
# outbox-read and what becomes of its topic while it reads: more partitions,
# fewer, another one of its name, other leaders, a reader that doesn't read.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154  # for jq; each test in a subshell
bats_require_minimum_version 1.5.0
export BATS_TEST_TIMEOUT=600 # looked at before setup
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
	stream=$BATS_TEST_TMPDIR/stream
	dump=$BATS_TEST_TMPDIR/dump
	log=$BATS_TEST_TMPDIR/log
	reader=
}

teardown() {
	[[ -z $reader ]] || kill -9 "$reader" 2>/dev/null || true
}

writes() {
	transact "$KAFKA_BROKERS" "$topic" "$@"
}

# starts option...: in the background, its pid in $reader.
starts() {
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" \
		-X topic.metadata.refresh.interval.ms=200 "$@" \
		>"$stream" 2>"$log" 3>&- &
	reader=$!
	wait_until 30 test -s "$stream"
}

# ends STATUS: that, soon or after TERM; its stream in $dump.
ends() {
	local status=0
	[[ $1 != 0 ]] || kill "$reader"
	wait "$reader" || status=$?
	reader=
	stream-dump <"$stream" >"$dump" 2>/dev/null || true
	[ "$status" = "$1" ] || fail "status $status: $(<"$log")"
}

says() {
	grep -qxF "outbox-read: $1" "$log" || fail "$(<"$log")"
}

holds() {
	stream-dump <"$stream" 2>/dev/null >"$dump" || true
	[ "$(jq -s 'map(.rec // [] | length) | add' "$dump")" = "$1" ]
}

# "partition from next" of all ranges together.
ranges() {
	jq -sr '[.[].src // [] | .[]] | group_by(.[1])[] |
		"\(.[0][1]) \(.[0][2]) \(.[-1][3])"' "$dump"
}

@test "new partitions are joined from their beginning, with a batch that names them" {
	kafka_create_topic "$topic" 1
	writes 0:10
	starts -o end
	kafka_grow_topic "$topic" 3
	writes 0:5 2:7
	wait_until 30 holds 12
	kafka_grow_topic "$topic" 4
	writes 3:1
	wait_until 30 holds 13
	ends 0
	says "notice: ${topic}[1]: a new partition, from 0 (explicit), the log holds 0 to 0"
	[ "$(grep -c 'a new partition' "$log")" = 3 ]
	[ "$(ranges | tr '\n' ,)" = '0 10 15,1 0 0,2 0 7,3 0 1,' ]
	# Empty, of their own, and the first that names them.
	jq -se '(.[0].start | map(.[1])) == [0] and
		[.[] | select(.src and ([.src[][1]] | max) > 0 and .rec == []) |
			.src | map(.[1:])] == [[[1,0,0],[2,0,0]], [[3,0,0]]]' "$dump"
}

@test "a new partition that the group knows: from what is stored" {
	local group
	group=$(unique group)
	kafka_create_topic "$topic" 1
	starts -g "$group" --first beginning
	# It sees the topic again only when the offset is there.
	kill -STOP "$reader"
	kafka_grow_topic "$topic" 3
	writes 1:5 2:5
	kafka_commit "$group" "$topic" 1:3
	kill -CONT "$reader"
	wait_until 30 holds 7
	ends 0
	says "notice: ${topic}[1]: a new partition, from 3 (stored), the log holds 0 to 5"
	says "notice: ${topic}[2]: a new partition, from 0 (first), the log holds 0 to 5"
	[ "$(ranges | tr '\n' ,)" = '0 0 0,1 3 5,2 0 5,' ]
}

@test "with -p new partitions aren't joined" {
	kafka_create_topic "$topic" 2
	writes 1:5
	starts -v -o beginning -p 1
	kafka_grow_topic "$topic" 3
	wait_until 30 grep -q 'partition count changed from 2 to 3' "$log"
	writes 2:5 1:5
	wait_until 30 holds 10
	ends 0
	[ "$(ranges)" = '1 0 10' ]
}

@test "with -e new partitions aren't joined" {
	kafka_create_topic "$topic" 1
	writes 0:20000
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	outbox-read -v -b "$KAFKA_BROKERS" -t "$topic" -o 0 -e \
		-X topic.metadata.refresh.interval.ms=10 \
		>"$BATS_TEST_TMPDIR/pipe" 2>"$log" 3>&- &
	reader=$!
	exec 7<"$BATS_TEST_TMPDIR/pipe"
	head -c 1 <&7 >"$stream"
	kafka_grow_topic "$topic" 2
	writes 1:5
	wait_until 30 grep -q 'partition count changed from 1 to 2' "$log"
	cat <&7 >>"$stream"
	exec 7<&-
	wait "$reader"
	reader=
	stream-dump <"$stream" >"$dump"
	[ "$(ranges)" = '0 0 20000' ]
}

committed_end() {
	diff <(kafka_committed "$1" "$topic" | sort -n) \
		<(kafka_end_offsets "$topic" | sort -n)
}

@test "the whole chain commits offsets of partitions that joined" {
	local group dispatch chain status=0
	group=$(unique group) dispatch=$(unique dispatch)
	kafka_create_topics "$topic:2" "$dispatch:4"
	"$qim_root/pipelines/fanout" --once --lock-dir "$BATS_TEST_TMPDIR/locks" -b "$KAFKA_BROKERS" -t "$topic" \
		-d "$dispatch" -n 4 -g "$group" --first beginning \
		--stage outbox-read=-X \
		--stage outbox-read=topic.metadata.refresh.interval.ms=200 \
		>"$log" 2>&1 3>&- &
	chain=$!
	python3 "$qim_root/tests/lib/messages.py" 500 1 5 |
		outbox-write -b "$KAFKA_BROKERS" -t "$topic"
	wait_until 60 committed_end "$group"
	kafka_grow_topic "$topic" 5
	python3 "$qim_root/tests/lib/messages.py" 500 2 5 |
		outbox-write -b "$KAFKA_BROKERS" -t "$topic"
	wait_until 60 committed_end "$group"
	[ "$(kafka_committed "$group" "$topic" | awk '$2 > 0' | wc -l)" = 5 ]
	kill "$chain"
	wait "$chain" || status=$?
	[ "$status" = 0 ] || fail "$(<"$log")"
	grep -q "notice: $topic\[4\]: a new partition" "$log"
	# And the next run goes on from there.
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" -g "$group" -e |
		stream-dump | jq -se '.[-1].records == 0'
}

@test "deleted and created again with fewer partitions: 65" {
	kafka_create_topic "$topic" 3
	starts -o beginning
	kill -STOP "$reader"
	kafka_delete_topics "$topic"
	kafka_create_topic "$topic" 2
	kill -CONT "$reader"
	ends 65
	says "error: topic $topic: it has 2 partitions, had 3: it was deleted and created again"
}

@test "deleted and created again with fewer records: 65" {
	kafka_create_topic "$topic" 1
	writes 0:10
	starts -o 0
	wait_until 30 holds 10
	kill -STOP "$reader"
	kafka_delete_topics "$topic"
	kafka_create_topic "$topic" 1
	writes 0:4
	kill -CONT "$reader"
	ends 65
	says "error: ${topic}[0]: offset out of range: 10, the log holds 0 to 4"
	[ "$(ranges)" = '0 0 10' ]
}

# peak_kib PID: the most memory it has had.
peak_kib() {
	awk '/^VmHWM/ { print $2 }' "/proc/$1/status"
}

@test "a reader that doesn't read: memory stays bounded, then all comes" {
	kafka_create_topic "$topic" 1
	awk 'BEGIN { for (i = 1; i <= 60000; i++) printf "%d %02000d\n", i, 0 }' |
		kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" -o 0 -e \
		-X queued.max.messages.kbytes=8192 >"$BATS_TEST_TMPDIR/pipe" 3>&- &
	reader=$!
	exec 7<"$BATS_TEST_TMPDIR/pipe"
	head -c 1 <&7 >"$BATS_TEST_TMPDIR/first"
	# Time enough for 120 MB, were there no bound.
	sleep 5
	(($(peak_kib "$reader") < 60000)) || fail "$(peak_kib "$reader") KiB"
	cat "$BATS_TEST_TMPDIR/first" - <&7 | stream-dump --rec |
		jq -r .value | cut -d ' ' -f 1 | cmp - <(seq 60000)
	exec 7<&-
	wait "$reader"
	reader=
}

@test "retention overtakes it while it waits for more: 65 with the numbers" {
	local at
	kafka_create_topic "$topic" 1
	writes 0:10
	starts -o 0 -X fetch.message.max.bytes=1000
	wait_until 30 holds 10
	kill -STOP "$reader"
	# The request that waits at the broker may be answered with the first
	# of these, one or more, before they are deleted.
	writes 0:20 flush 0:70:another
	kafka_delete_records "$topic" 0 50
	kill -CONT "$reader"
	ends 65
	read -r _ _ at < <(ranges)
	((at >= 10 && at < 50))
	says "error: ${topic}[0]: offset out of range: $at, the log holds 50 to 100"
}

# bats test_tags=long
@test "leaders move while it reads with -e: every record once, in order" {
	local bounced
	need_kafka 3
	kafka_create_topic "$topic" 6
	for p in 0 1 2 3 4 5; do
		seq 10000 | kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p "$p" -X acks=all
	done
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" -o 0 -e --batch 10 \
		-X queued.min.messages=100 -X fetch.message.max.bytes=2000 \
		>"$BATS_TEST_TMPDIR/pipe" 2>"$log" 3>&- &
	reader=$!
	exec 7<"$BATS_TEST_TMPDIR/pipe"
	head -c 100000 <&7 >"$stream"
	for bounced in 1 2; do
		kafka_kill "$bounced"
		head -c 150000 <&7 >>"$stream"
		kafka_restart "$bounced"
		kafka_wait_isr "$topic"
		head -c 150000 <&7 >>"$stream"
	done
	kafka_elect "$topic"
	cat <&7 >>"$stream"
	exec 7<&-
	wait "$reader"
	reader=
	stream-dump --rec <"$stream" | jq -r '"\(.src[1]) \(.src[2]) \(.value)"' |
		awk '$2 != next_[$1]++ || $3 != $2 + 1 { bad++ }
			END { for (p = 0; p < 6; p++) printf "%d ", next_[p]
				print bad + 0 }' >"$dump"
	[ "$(<"$dump")" = '10000 10000 10000 10000 10000 10000 0' ] || fail "$(<"$dump")"
}
