#!/usr/bin/env bats
# dispatch-produce: dispatches into Kafka, receipts in order.
# shellcheck disable=SC2016,SC2154

bats_require_minimum_version 1.5.0
load lib/common
load lib/producer

# bats test_tags=slow
@test "records are in the topic as they were, and receipts tell of them" {
	{
		hello
		batch 1 0 0 ''
		batch 2 0 3 '[null,2,"k","v",null,[0,0]],
			[null,2,null,null,null,[0,1]],
			[null,3,"","",[["h","x"],["n",null],["h","y"]],[0,2]]'
		end_line 2 3
	} | tr -d '\n\t' | sed 's/}{/}\n{/g' | stream-make >"$stream"
	produce <"$stream" >"$answer"
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dispatch -p 2 -e -q -Z \
		-f "%o %k=%s %K %S\n"'
	[ "${lines[0]}" = '0 k=v 1 1' ]
	[ "${lines[1]}" = '1 NULL=NULL -1 -1' ]
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dispatch -p 3 -e -q \
		-f "%K %S %h\n"'
	[ "$output" = '0 0 h=x,n=NULL,h=y' ]
	run -0 receipts
	[ "$(jq -c 'del(.at)' <<<"${lines[0]}")" = \
		'{"batch":1,"src":[["outbox",0,0,0]],"in":0,"out":0,"dead":0,"bytes":0}' ]
	[ "$(jq -c 'del(.at)' <<<"${lines[1]}")" = \
		'{"batch":2,"src":[["outbox",0,0,3]],"in":3,"out":3,"dead":0,"bytes":2}' ]
	run -0 bash -c 'stream-dump <"$1" | jq -c "[.kind, .from, .durable,
		.partitions, .topic, .group, .run, .end, .records]"' _ "$answer"
	[ "${lines[0]}" = \
		'["receipts","dispatch-produce",true,8,"outbox","g",7,null,null]' ]
	[ "${lines[-1]}" = '[null,null,null,null,null,null,null,true,3]' ]
}

@test "times: enqueue, then acks, behind those of the stages before" {
	{
		hello
		echo '{"batch":1,"src":[["outbox",0,0,1]],"at":[["fanout-plan","plan",1,2]],"rec":[[null,0,"k","v",null,[0,0]]]}'
		end_line 1 1
	} | stream-make | produce >"$answer"
	run -0 bash -c 'stream-dump <"$1" | jq -c ".at? // empty |
		[map(.[:2]), (.[1][2] <= .[1][3]), (.[1][3] <= .[2][2]),
		(.[2][2] < .[2][3])]"' _ "$answer"
	[ "$output" = '[[["fanout-plan","plan"],["dispatch-produce","enqueue"],["dispatch-produce","acks"]],true,true,true]' ]
}

# bats test_tags=slow
@test "partition -1: by the key, as Kafka's own partitioner does (own mock)" {
	mock -t keys:8 -t reference:8
	local keys
	keys=$(seq 40 | sed 's/^/key-/')
	kcat -P -b "$MOCK_BROKERS" -t reference -K : -p -1 \
		-X topic.partitioner=murmur2_random <<<"${keys//$'\n'/:x$'\n'}:x"
	{
		hello
		batch 1 0 40 "$(seq -s, 40 | sed -E \
			's/([0-9]+)/[null,-1,"key-\1","x",null,[0,0]]/g')"
		end_line 1 40
	} | stream-make | dispatch-produce -b "$MOCK_BROKERS" -t keys >"$answer"
	placed() {
		kcat -C -b "$MOCK_BROKERS" -t "$1" -e -q -f '%k %p\n' | sort
	}
	placed keys >"$BATS_TEST_TMPDIR/keys"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/keys")" -eq 40 ]
	[ "$(cut -d ' ' -f 2 "$BATS_TEST_TMPDIR/keys" | sort -u | wc -l)" -gt 4 ]
	diff "$BATS_TEST_TMPDIR/keys" <(placed reference)
}

# bats test_tags=slow
@test "receipts come in order, whatever the order of the acknowledgements" {
	local window
	for window in 1 3 16 1024; do
		many 40 30 | stream-make | produce -w "$window" >"$answer"
		run -0 jq -sc 'map(.batch) == [range(1; 41)], (map(.in) | add)' \
			<(receipts)
		[ "${lines[0]}" = true ]
		[ "${lines[1]}" -eq 1200 ]
	done
}

# bats test_tags=slow
@test "also where requests fail and are sent again (own mock)" {
	local idempotent
	many 20 16 | stream-make >"$stream"
	for idempotent in false true; do
		mock --error produce=NOT_LEADER_FOR_PARTITION:3 \
			--error produce=_TRANSPORT:2 \
			--error produce=REQUEST_TIMED_OUT:4
		# 75 where a delivery isn't proven.
		QIM_FANOUT_PRODUCER_IDEMPOTENCE=$idempotent \
			produce <"$stream" >"$answer" || [ $? -eq 75 ]
		run -0 jq -sc 'map(.batch) == [range(1; length + 1)]' <(receipts)
		[ "$output" = true ]
		# Each record that has a receipt is in the topic.
		topic dispatch | jq -r .payload | sort -u >"$BATS_TEST_TMPDIR/have"
		run -0 comm -23 <(seq -f v%.0f 0 $((16 * $(receipts | wc -l) - 1)) |
			sort) "$BATS_TEST_TMPDIR/have"
		[ -z "$output" ]
	done
}

@test "a batch in parts has one receipt, a batch larger than the window too" {
	{
		hello
		batch 1 0 4 "$(record 0),$(record 1)" '"part":1,"more":true'
		batch 1 0 4 "$(record 2)" '"part":2,"more":true'
		batch 1 0 4 "$(record 3)" '"part":3,"more":false'
		batch 2 4 5 "$(record 4)"
		end_line 2 5
	} | stream-make | produce -w 1 >"$answer"
	run -0 jq -sc 'map([.batch, .in, .out])' <(receipts)
	[ "$output" = '[[1,4,4],[2,1,1]]' ]
	jq -nc --arg hello "$(hello)" '("x" * 900000) as $big |
		($hello | fromjson), (range(8) | {batch: 1,
			src: [["outbox", 0, 0, 8]], at: [], part: (. + 1),
			more: (. < 7), rec: [[null, ., "k", $big, null, [0, .]]]}),
		{end: true, batches: 1, records: 8}' | stream-make >"$stream"
	produce --window-bytes 1048576 <"$stream" >"$answer"
	run -0 jq -sc 'map([.batch, .in, .bytes])' <(receipts)
	[ "$output" = '[[1,8,7200008]]' ]
}

@test "a receipt doesn't wait for more input" {
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	produce <"$BATS_TEST_TMPDIR/pipe" >"$answer" 3>&- &
	local pid=$!
	exec 9>"$BATS_TEST_TMPDIR/pipe"
	{ hello; batch 1 0 1 "$(record 0)"; } | stream-make >&9
	has_receipt() {
		[ "$(receipts 2>/dev/null | wc -l)" -eq 1 ]
	}
	wait_until 10 has_receipt
	exec 9>&-
	ended=0
	wait "$pid" || ended=$?
	[ "$ended" -eq 75 ]
}

@test "dead letters go to their topic and are counted apart (own mock)" {
	mock -t dead:1
	{
		hello
		batch 1 0 3 '["dead",-1,"k","bad",[["qim-topic","outbox"],["qim-reason","no recipients"]],[0,0]],["dead",0,"k","other",null,[0,1]],["dispatch",0,"k","v",null,[0,2]]'
		end_line 1 3
	} | stream-make | produce >"$answer"
	run -0 receipts
	[ "$(jq -c '[.in, .out, .dead]' <<<"$output")" = '[3,2,1]' ]
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dead -e -q -f "%s %h\n"'
	[ "${lines[0]}" = 'bad qim-topic=outbox,qim-reason=no recipients' ]
	[ "${lines[1]}" = 'other ' ]
}

# bats test_tags=slow
@test "--connections: several clients, receipts in order, none lost" {
	local idempotent count
	many 20 40 | stream-make >"$stream"
	for idempotent in false true; do
		for count in 3 8; do
			mock
			QIM_FANOUT_PRODUCER_IDEMPOTENCE=$idempotent produce \
				--connections "$count" <"$stream" >"$answer"
			run -0 jq -sc 'map(.batch) == [range(1; 21)],
				(map(.out) | add)' <(receipts)
			[ "$output" = $'true\n800' ]
			# One client has a partition, so its order is kept.
			run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dispatch \
				-e -q -f "%p %s\n" | tr -d v |
				awk "{ bad += \$2 % 8 != \$1 ||
					(\$1 in last && \$2 <= last[\$1])
				last[\$1] = \$2; n++ } END { print n, bad + 0 }"'
			[ "$output" = '800 0' ]
		done
	done
}

# bats test_tags=slow
@test "--connections: a key's partition is the same with any number (own mock)" {
	mock -t keys:8
	local count
	{
		hello
		batch 1 0 40 "$(seq -s, 40 | sed -E \
			's/([0-9]+)/[null,-1,"key-\1","x",null,[0,0]]/g')"
		batch 2 40 41 '[null,-1,null,"none",null,[0,40]]'
		end_line 2 41
	} | stream-make >"$stream"
	for count in 1 3 8; do
		dispatch-produce -b "$MOCK_BROKERS" -t keys --connections "$count" \
			<"$stream" >"$answer"
	done
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t keys -e -q -f "%K %k %p\n" |
		grep -v "^-1" | sort | uniq -c | awk "{ print \$1 }" | sort | uniq -c'
	[ "$(xargs <<<"$output")" = '40 3' ]
}

@test "--connections: more than the topic has partitions: 78" {
	run -78 --separate-stderr produce --connections 9 </dev/null
	expect_message 'dispatch-produce: error: --connections: 9 are more than the 8 partitions of topic dispatch'
	run -78 --separate-stderr produce --connections 9 --check </dev/null
	run -0 --separate-stderr produce --connections 8 --check </dev/null
	run -64 --separate-stderr produce --connections 65
	expect_message "--connections: '65': wants a number from 1 to 64 connections"
	run -64 --separate-stderr produce --connections 0
}

@test "--connections: a fatal error of any client ends the run (own mock)" {
	# The idempotent producers' ids: two clients get one, the third doesn't.
	mock --error init-producer-id=CLUSTER_AUTHORIZATION_FAILED:1
	many 2 40 | stream-make >"$stream"
	run -77 bash -c 'QIM_FANOUT_PRODUCER_IDEMPOTENCE=true dispatch-produce \
		-b "$MOCK_BROKERS" -t dispatch --connections 3 <"$1" >"$2"' \
		_ "$stream" "$answer"
	expect_message 'dispatch-produce: error: kafka: fatal: Failed to acquire idempotence PID'
}

@test "--kafka-stats: a line of JSON for each client and interval, also of a short run" {
	local file=$BATS_TEST_TMPDIR/stats
	many 2 8 | stream-make >"$stream"
	produce --kafka-stats "$file" -X statistics.interval.ms=100 \
		--connections 3 <"$stream" >"$answer"
	run -0 jq -s 'map(.name) | unique | length' "$file"
	[ "$output" = 3 ]
	run -0 jq -s 'map(select(.name and .txmsgs)) | group_by(.name) |
		map(last.txmsgs) | add' "$file"
	[ "$output" = 16 ]
	[ "$(wc -l <"$file")" -ge 3 ]
	# It is appended to, and an interval alone is fine.
	local before
	before=$(wc -l <"$file")
	produce --kafka-stats "$file" -X statistics.interval.ms=100 \
		<"$stream" >"$answer"
	[ "$(wc -l <"$file")" -gt "$before" ]
	produce -X statistics.interval.ms=100 <"$stream" >"$answer"
	run -78 --separate-stderr produce --kafka-stats "$file" \
		-X statistics.interval.ms=0 <"$stream"
	expect_message "-X statistics.interval.ms: '0': refused: --kafka-stats wants 1 to 86400000 ms"
}

@test "--kafka-stats: a file that can't be opened: 66; one that takes nothing: a warning" {
	many 2 8 | stream-make >"$stream"
	run -66 --separate-stderr produce --kafka-stats /nonexistent/file \
		<"$stream"
	expect_message 'dispatch-produce: error: /nonexistent/file: No such file or directory'
	run -0 --separate-stderr bash -c 'dispatch-produce -b "$MOCK_BROKERS" \
		-t dispatch --kafka-stats /dev/full -X statistics.interval.ms=50 \
		--connections 2 <"$1" >"$2"' _ "$stream" "$answer"
	[ "$stderr" = 'dispatch-produce: warning: --kafka-stats /dev/full: No space left on device: no more is written to it' ]
	[ "$(receipts | wc -l)" -eq 2 ]
	# A pipe that nobody empties.
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	run -66 --separate-stderr produce --kafka-stats "$BATS_TEST_TMPDIR/pipe" \
		<"$stream"
	exec 8<>"$BATS_TEST_TMPDIR/pipe"
	head -c 65536 /dev/zero >&8
	run -0 --separate-stderr produce --kafka-stats "$BATS_TEST_TMPDIR/pipe" \
		-X statistics.interval.ms=50 <"$stream"
	exec 8>&-
	expect_message ': Resource temporarily unavailable: no more is written to it'
}

# bats test_tags=slow
@test "librdkafka's own queue is small: the same receipts, letters too (own mock)" {
	local count
	many 4 40 | sed 's/"v13",null/"v13","no headers"/' |
		stream-make >"$stream"
	for count in 1 3; do
		mock -t dead:1 --error produce=INVALID_RECORD:1
		produce -X queue.buffering.max.messages=7 --connections "$count" \
			--dead-letter dead -q <"$stream" >"$answer"
		run -0 jq -sc 'map([.batch, .in, .out, .dead])' <(receipts)
		[ "$output" = '[[1,40,39,1],[2,40,40,0],[3,40,40,0],[4,40,40,0]]' ]
	done
}

@test "--not-durable: acks of 0 and 1, and the receipts say so" {
	local acks
	many 2 8 | stream-make >"$stream"
	for acks in 0 1; do
		run -78 --separate-stderr produce -X "acks=$acks" <"$stream"
		expect_message "-X acks: '$acks': refused: receipts promise durability"
		produce --not-durable -X "acks=$acks" <"$stream" >"$answer"
		run -0 bash -c 'stream-dump <"$1" | jq -c ".durable // empty,
			select(.durable == false).durable"' _ "$answer"
		[ "$output" = false ]
		run -0 jq -sc 'map(.batch)' <(receipts)
		[ "$output" = '[1,2]' ]
	done
}

# bats test_tags=slow
@test "TERM and INT: it reads on to the end; a second signal abandons" {
	local hello_bytes pid
	many 1 1 | stream-make >"$stream"
	hello_bytes=$(hello | stream-make | wc -c)
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$BATS_TEST_TMPDIR/pipe" >"$answer" 3>&- &
	pid=$!
	exec 9>"$BATS_TEST_TMPDIR/pipe"
	head -c "$hello_bytes" "$stream" >&9
	wait_until 10 test -s "$answer"
	kill -TERM "$pid"
	sleep 0.2
	tail -c +$((hello_bytes + 1)) "$stream" >&9
	exec 9>&-
	wait "$pid"
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1]' ]

	rm "$answer"
	dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$BATS_TEST_TMPDIR/pipe" >"$answer" \
		2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	exec 9>"$BATS_TEST_TMPDIR/pipe"
	hello | stream-make >&9
	wait_until 10 test -s "$answer"
	kill -TERM "$pid"
	sleep 0.2
	kill -INT "$pid" # two of one signal may be one
	ended=0
	wait "$pid" || ended=$?
	[ "$ended" -eq 75 ]
	exec 9>&-
	grep -q 'abandoned: second signal' "$BATS_TEST_TMPDIR/err"
}

# bats test_tags=slow
@test "memory stays under the window, however much comes (own mock)" {
	# 60 MB of records through a window of 4 MiB.
	local script='
import json, sys
print(sys.argv[1])
for n in range(60):
    rec = [[None, i, "k", "x" * 125000, None, [0, n]] for i in range(8)]
    print(json.dumps({"batch": n + 1, "src": [["outbox", 0, n, n + 1]],
                      "at": [], "rec": rec}))
print(json.dumps({"end": True, "batches": 60, "records": 480}))'
	python3 -c "$script" "$(hello)" | stream-make >"$stream"
	local count
	for count in 1 8; do
		mock
		/usr/bin/env time -f %M -o "$BATS_TEST_TMPDIR/kib" \
			dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
			--window-bytes 4194304 --connections "$count" \
			<"$stream" >"$answer"
		[ "$(receipts | wc -l)" -eq 60 ]
		[[ $QIM_BIN == */asan/* ||
			$(<"$BATS_TEST_TMPDIR/kib") -lt 60000 ]]
	done
}
