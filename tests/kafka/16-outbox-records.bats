#!/usr/bin/env bats
# outbox-read and what a log can hold: holes, transactions, headers, codecs,
# timestamps, the largest record. stream-dump checks that all ranges are
# contiguous; here, where they begin and end.

# shellcheck disable=SC2016,SC2030,SC2031  # for jq; each test in a subshell
bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
	stream=$BATS_TEST_TMPDIR/out.qim
	dump=$BATS_TEST_TMPDIR/out.json
	log=$BATS_TEST_TMPDIR/log
}

# transacts STEP...: in transactions; writes STEP...: without.
transacts() {
	transact -X "transactional.id=$topic" "$KAFKA_BROKERS" "$topic" "$@"
}

writes() {
	transact "$KAFKA_BROKERS" "$topic" "$@"
}

# reads option...: the stream as JSON in $dump.
reads() {
	timeout -k 5 60 outbox-read -b "$KAFKA_BROKERS" -t "$topic" "$@" \
		>"$stream" 2>"$log" || return
	stream-dump <"$stream" >"$dump"
}

# The ranges of a partition together, and its records: "[from, next, count]".
covered() {
	jq -sc --argjson p "${1:-0}" '
		[.[] | select(.src)] |
		[(map(.src[] | select(.[1] == $p)) | .[0][2], .[-1][3]),
		(map(. as $batch | .rec[] |
			select($batch.src[.[0]][1] == $p)) | length)]' "$dump"
}

# values PARTITION: of the records, one a line.
values() {
	stream-dump --rec <"$stream" | jq -r --argjson p "${1:-0}" \
		'select(.src[1] == $p) | .value'
}

is_compacted() {
	reads -o 0 -e || return
	[ "$(covered)" = "$1" ] || fail "$(covered)"
}

@test "a compacted log: ranges cover the holes, a tombstone is a null value" {
	kafka_create_topic "$topic" 1 cleanup.policy=compact segment.ms=100 \
		min.cleanable.dirty.ratio=0.01 delete.retention.ms=600000
	writes keyed:0:a:1 keyed:0:b:1 keyed:0:a:2 keyed:0:a:3 keyed:0:c:1 \
		keyed:0:b:2 tombstone:0:c keyed:0:a:4
	sleep 0.2 # longer than segment.ms: the next record begins a segment
	writes keyed:0:d:1
	wait_until 30 is_compacted '[0,9,4]'
	[ "$(jq -sc '[.[].rec // [] | .[] | .[1:2] + .[3:5]]' "$dump")" = \
		'[[5,"b","2"],[6,"c",null],[7,"a","4"],[8,"d","1"]]' ]
	reads -v -o 2 -e
	[ "$(covered)" = '[2,9,4]' ]
	grep -qx "outbox-read: info: ${topic}\[0\]: no records at offsets 2 to 4" "$log"
}

@test "aborted records never come out, in the middle, at the end, alone" {
	kafka_create_topic "$topic" 3
	transacts begin 0:3:kept commit begin 0:5:gone 1:4:gone flush abort \
		begin 0:2:kept commit begin 0:2:gone flush abort
	reads -o 0 -e
	# A marker after each transaction, in each partition that has part in it.
	[ "$(covered 0)" = '[0,16,5]' ]
	[ "$(covered 1)" = '[0,5,0]' ]
	[ "$(covered 2)" = '[0,0,0]' ]
	[ "$(kafka_end_offsets "$topic" | tr '\n' ' ')" = '0 16 1 5 2 0 ' ]
	[ "$(values | grep -vc kept)" = 0 ]
	# From within the aborted tail there is nothing but its range.
	reads -o 14 -p 0 -e
	[ "$(covered)" = '[14,16,0]' ]
	reads -o 2 -p 1 -e
	[ "$(covered 1)" = '[2,5,0]' ]
}

hangs() {
	grep -q hanging "$BATS_TEST_TMPDIR/hang"
}

covers() {
	stream-dump <"$stream" 2>/dev/null >"$dump" || true
	[ "$(covered)" = "$1" ]
}

@test "an open transaction: -e ends before it, without -e it is waited for" {
	local pid writer
	kafka_create_topic "$topic" 1
	mkfifo "$BATS_TEST_TMPDIR/go"
	writes 0:3:before
	transact -X "transactional.id=$topic" "$KAFKA_BROKERS" "$topic" \
		begin 0:4:within hang commit <"$BATS_TEST_TMPDIR/go" \
		>"$BATS_TEST_TMPDIR/hang" 3>&- &
	writer=$!
	exec 7>"$BATS_TEST_TMPDIR/go"
	wait_until 30 hangs
	writes 0:2:behind
	reads -o 0 -e
	[ "$(covered)" = '[0,3,3]' ]
	reads -o end -e
	[ "$(covered)" = '[3,3,0]' ]
	outbox-read -b "$KAFKA_BROKERS" -t "$topic" -o 0 >"$stream" 3>&- 7>&- &
	pid=$!
	wait_until 30 covers '[0,3,3]'
	exec 7>&-
	wait "$writer"
	wait_until 30 covers '[0,10,9]' # the marker, too
	kill "$pid"
	wait "$pid"
	stream-dump <"$stream" >"$dump"
	[ "$(covered)" = '[0,10,9]' ]
	[ "$(values | tail -n 3 | tr '\n' ,)" = 'within 4,behind 1,behind 2,' ]
}

@test "keys and values: null, empty, bytes" {
	kafka_create_topic "$topic" 1
	printf '|\n' | kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0 -K '|'
	printf '|\n' | kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0 -K '|' -Z
	printf 'k\xff|\0\xfe\n' |
		kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0 -K '|'
	reads -o 0 -e
	[ "$(jq -sc '[.[].rec // [] | .[] | .[3:5]]' "$dump")" = \
		'[["",""],[null,null],[{"base64":"a/8="},{"base64":"AP4="}]]' ]
}

@test "headers: many, null, empty, one name for all, in their order" {
	kafka_create_topic "$topic" 1
	writes headers:1000 0:1 headers:0 0:1
	reads -o 0 -e
	[ "$(jq -sc '[.[].rec // [] | .[] | .[5]] |
		(.[0] | length, .[:4], .[-1]), .[1]' "$dump" | tr '\n' ' ')" = \
		'1000 [["h",null],["h",""],["h","v"],["h",null]] ["h",null] null ' ]
}

@test "each codec of a writer, and each of a topic" {
	local codec type
	kafka_create_topic "$topic" 1
	for codec in none gzip snappy lz4 zstd; do
		transact -X compression.codec=$codec -X linger.ms=100 \
			"$KAFKA_BROKERS" "$topic" "0:500:$codec"
	done
	reads -o 0 -e
	[ "$(covered)" = '[0,2500,2500]' ]
	for codec in none gzip snappy lz4 zstd; do
		values | grep "^$codec " | cmp - <(seq -f "$codec %g" 500)
	done
	for type in uncompressed gzip snappy lz4 zstd; do
		topic=$(unique "topic-$type")
		kafka_create_topic "$topic" 1 "compression.type=$type"
		writes "0:500:$type"
		reads -o 0 -e
		values | cmp - <(seq -f "$type %g" 500)
	done
}

@test "timestamps: the writer's, none, before 1970, the log's" {
	kafka_create_topic "$topic" 1
	writes time:1700000000000 0:1 time:-1 0:1 flush time:1 0:1
	reads -o 0 -e
	[ "$(jq -sc '[.[].rec // [] | .[] | .[2]]' "$dump")" = '[1700000000000,-1,1]' ]
	topic=$(unique topic)
	kafka_create_topic "$topic" 1 message.timestamp.type=LogAppendTime
	writes time:1700000000000 0:2
	reads -o 0 -e
	jq -se '[.[].rec // [] | .[] | .[2]] |
		length == 2 and all(. > 1750000000000)' "$dump"
}

@test "s@ms: the first record at or after it, the end behind the last" {
	kafka_create_topic "$topic" 2
	writes time:1000 0:1 time:2000 0:1 time:3000 0:1 flush
	reads -o s@2000 -e
	[ "$(covered 0)" = '[1,3,2]' ]
	[ "$(covered 1)" = '[0,0,0]' ]
	reads -o s@2001 -e
	[ "$(covered 0)" = '[2,3,1]' ]
	reads -o s@0 -e
	[ "$(covered 0)" = '[0,3,3]' ]
	reads -o s@3001 -e
	[ "$(covered 0)" = '[3,3,0]' ]
	reads -o s@9223372036854775807 -e
	[ "$(covered 0)" = '[3,3,0]' ]
	run -64 --separate-stderr outbox-read -b "$KAFKA_BROKERS" -t "$topic" -o s@-1
	expect_message "-o: 's@-1': wants one of"
}

@test "-e: partitions without records, and whose log starts at its end" {
	kafka_create_topic "$topic" 3
	writes 0:10 1:10
	kafka_delete_records "$topic" 0 10
	kafka_delete_records "$topic" 1 4
	reads -o beginning -e
	[ "$(covered 0) $(covered 1) $(covered 2)" = '[10,10,0] [4,10,6] [0,0,0]' ]
	reads -o beginning -e -p 0,2
	jq -se '.[-1].records == 0 and .[-1].batches == 1' "$dump"
	run -65 reads -o 0 -e
	grep -qx "outbox-read: error: ${topic}\[0\]: offset out of range: start 0 (explicit), the log holds 10 to 10" "$log"
}

@test "-c: what comes out is contiguous, and the rest begins behind it" {
	local file=$BATS_TEST_TMPDIR/positions p
	kafka_create_topic "$topic" 3
	writes 0:1000 1:1000 2:1000
	reads -o 0 -c 1500 --batch 100
	[ "$(jq -s '.[-1].records' "$dump")" = 1500 ]
	jq -sr --arg t "$topic" '[.[].src // [] | .[]] | group_by(.[1])[] |
		"\($t) \(.[-1][1]) \(.[-1][3])"' "$dump" >"$file"
	for p in 0 1 2; do
		values $p
	done >"$BATS_TEST_TMPDIR/values"
	reads -o "@$file" -e
	[ "$(jq -s '.[-1].records' "$dump")" = 1500 ]
	for p in 0 1 2; do
		values $p
	done | sort - "$BATS_TEST_TMPDIR/values" |
		cmp - <(for p in 0 1 2; do seq -f 'record %g' 1000; done | sort)
}

@test "the largest record that a frame has room for; one byte more is 65" {
	kafka_create_topic "$topic" 1 max.message.bytes=30000000
	head -c 16773056 /dev/zero >"$BATS_TEST_TMPDIR/value"
	kcat -P -b "$KAFKA_BROKERS" -X message.max.bytes=20000000 -t "$topic" \
		-p 0 "$BATS_TEST_TMPDIR/value"
	writes 0:1
	reads -o 0 -e
	[ "$(covered)" = '[0,2,2]' ]
	echo >>"$BATS_TEST_TMPDIR/value"
	kcat -P -b "$KAFKA_BROKERS" -X message.max.bytes=20000000 -t "$topic" \
		-p 0 "$BATS_TEST_TMPDIR/value"
	run -65 reads -o 0 -e
	grep -qx "outbox-read: error: ${topic}\[0\]: record at offset 2: 16773121 bytes, a frame has room for 16773120" "$log"
}

@test "a thousand partitions: all named, all read" {
	local steps=()
	kafka_create_topic "$topic" 1000
	mapfile -t steps < <(seq -f '%g:3' 0 999)
	writes "${steps[@]}"
	reads -o beginning -e
	jq -se '(.[0].start | length) == 1000 and (.[1].src | length) == 1000 and
		.[-1].records == 3000 and
		([.[].src // [] | .[]] | group_by(.[1]) |
			all(.[0][2] == 0 and .[-1][3] == 3))' "$dump"
}
