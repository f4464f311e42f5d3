#!/usr/bin/env bats
# dispatch-produce: dispatches into Kafka, receipts in order.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load lib/common

# mock [option]...: one for each test, so that topics are empty.
mock() {
	start_mock -n 2 -t dispatch:8 "$@"
}

teardown_file() {
	stop_mock
}

setup() {
	[[ $BATS_TEST_DESCRIPTION == *' (own mock)' ]] || mock
	stream=$BATS_TEST_TMPDIR/in.qim
	answer=$BATS_TEST_TMPDIR/out.qim
}

# The lines of a stream: hello, then end_line says how it ends.
hello() {
	jq -nc --argjson partitions "${1:-8}" '{qim: 1, minor: 0,
		kind: "dispatches", from: "fanout-plan", run: 7,
		topic: "outbox", group: "g",
		start: [["outbox", 0, 0, "stored"]], partitions: $partitions}'
}

# batch N FROM NEXT RECORDS: one frame; RECORDS is what stands in rec.
batch() {
	echo "{\"batch\":$1,\"src\":[[\"outbox\",0,$2,$3]],\"at\":[]${5:+,$5},\"rec\":[$4]}"
}

end_line() {
	echo "{\"end\":true,\"batches\":$1,\"records\":$2}"
}

# record OFFSET [VALUE]: to partition OFFSET modulo 8.
record() {
	echo "[null,$(($1 % 8)),\"k$1\",\"${2-v$1}\",null,[0,$1]]"
}

# many BATCHES RECORDS: a whole stream, to partitions in turn.
many() {
	jq -nc --argjson b "$1" --argjson r "$2" --arg hello "$(hello)" '
		($hello | fromjson),
		(range($b) as $n | {batch: ($n + 1),
			src: [["outbox", 0, ($n * $r), (($n + 1) * $r)]],
			at: [], rec: [range($n * $r; ($n + 1) * $r) |
				[null, . % 8, "k\(.)", "v\(.)", null, [0, .]]]}),
		{end: true, batches: $b, records: ($b * $r)}'
}

produce() {
	dispatch-produce -b "$MOCK_BROKERS" -t dispatch --connect-ms 20000 "$@"
}

# What is on the topic, a JSON line each, from an independent reader.
topic() {
	kcat -C -b "$MOCK_BROKERS" -t "$1" -e -q -J "${@:2}" 2>/dev/null
}

receipts() {
	stream-dump <"$answer" 2>/dev/null | jq -c 'select(.src and .batch)'
}

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
@test "the topic of dispatches can't take the dead letters: 78" {
	{
		hello
		batch 1 0 1 "$(record 0)"
		batch 2 1 2 '["dispatch",-1,"k","bad",[["qim-reason","x"]],[0,1]]'
		end_line 2 2
	} | stream-make >"$stream"
	run -78 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" >"$2"' _ "$stream" "$answer"
	expect_message 'the record from outbox [0] offset 1: a dead letter: fanout-plan --dead-letter dispatch is the topic of dispatches, dispatch-produce -t dispatch'
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1]' ]
	run -0 topic dispatch
	[ "${#lines[@]}" -eq 1 ]
}

@test "a record whose topic isn't a name: 65, and nothing goes elsewhere (own mock)" {
	mock -t dead:1
	local name
	for name in dead+x .. a/b; do
		{
			hello
			batch 1 0 1 "$(record 0)"
			batch 2 1 2 "[\"$name\",-1,\"k\",\"v\",null,[0,1]]"
			end_line 2 2
		} | stream-make --unchecked | sed 's/dead+x/dead\x00x/' >"$stream"
		run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
			<"$1" >"$2"' _ "$stream" "$answer"
		expect_message "dispatch-produce: error: the record from outbox [0] offset 1: its topic isn't a topic's name, 1 to 249 of letters, digits and ._-"
		run -0 jq -sc 'map(.batch)' <(receipts)
		[ "$output" = '[1]' ]
	done
	run -0 topic dead
	[ -z "$output" ]
}

# bats test_tags=slow
@test "a topic of a record that doesn't exist: 69, batches before are receipted (own mock)" {
	mock --topic-error gone=UNKNOWN_TOPIC_OR_PART
	{
		hello
		batch 1 0 1 "$(record 0)"
		batch 2 1 2 '["gone",-1,"k","v",null,[0,1]]'
		batch 3 2 3 "$(record 2)"
		end_line 3 3
	} | stream-make >"$stream"
	run -69 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		--connect-ms 2000 <"$1" >"$2"' _ "$stream" "$answer"
	expect_message "the record from outbox [0] offset 1: topic gone: not within 2000 ms: Broker: Unknown topic or partition"
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1]' ]
	run ! grep -q '"end"' <(stream-dump <"$answer")
}

@test "the partition counts of the hello and the topic differ: 78" {
	{ hello 64; end_line 0 0; } | stream-make >"$stream"
	run -78 --separate-stderr produce <"$stream"
	expect_message 'dispatch-produce: error: topic dispatch: it has 8 partitions, the dispatches are planned for 64 (fanout-plan -n)'
	[ -z "$output" ]
}

@test "another kind of stream: 76" {
	run -76 --separate-stderr produce <"$BATS_TEST_DIRNAME/golden/records.qim"
	expect_message "input: 'records' from"
	expect_message 'is fanout-plan, or another stage that writes dispatches, missing before it?'
	run -76 --separate-stderr produce <"$BATS_TEST_DIRNAME/golden/receipts.qim"
	expect_message "input: 'receipts' from"
}

@test "torn input: what is whole gets its receipt, no end, 75" {
	many 3 8 | stream-make >"$stream"
	run -75 bash -c 'head -c -30 "$1" | dispatch-produce -b "$MOCK_BROKERS" \
		-t dispatch >"$2"' _ "$stream" "$answer"
	expect_message 'dispatch-produce: error: input: torn: it ends'
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1,2,3]' ]
	run ! grep -q '"end"' <(stream-dump <"$answer")
	run -75 --separate-stderr produce </dev/null
	expect_message 'input: torn: it ends before the hello'
}

@test "an open batch gets no receipt when its last part is missing" {
	{
		hello
		batch 1 0 1 "$(record 0)"
		batch 2 1 3 "$(record 1)" '"part":1,"more":true'
	} | stream-make >"$stream"
	run -75 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" >"$2"' _ "$stream" "$answer"
	expect_message 'torn'
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1]' ]
}

# bats test_tags=slow
@test "damaged input: 65, and receipts for what came before" {
	local bytes
	many 2 4 >"$BATS_TEST_TMPDIR/lines"
	bytes=$(head -n 2 "$BATS_TEST_TMPDIR/lines" | stream-make | wc -c)
	stream-make --flip $((8 * (bytes + 60))) <"$BATS_TEST_TMPDIR/lines" >"$stream"
	run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" >"$2"' _ "$stream" "$answer"
	expect_message 'dispatch-produce: error: input: frame at byte'
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1]' ]
	run -65 --separate-stderr produce <<<'{"not": "a stream"}'
	expect_message 'not a qim stream'
}

@test "a record that isn't one, or whose headers aren't: 65" {
	{ hello; batch 1 0 1 '[null,0,"k"]'; } | stream-make >"$stream"
	run -65 --separate-stderr produce <"$stream"
	expect_message "batch 1: record 0 isn't of the form [topic, partition, key, value, headers, [src, offset]]"
	{ hello; batch 1 0 1 '[null,0,"k","v","x",[0,0]]'; } |
		stream-make >"$stream"
	run -65 --separate-stderr produce <"$stream"
	expect_message "headers aren't an array of [name, value]"
	{ hello; batch 1 0 1 '[null,0,"k","v",null,[0,5]]'; } | stream-make >"$stream"
	run -65 --separate-stderr produce <"$stream"
	expect_message 'batch 1: offset 5 outside its range 0 to 1'
}

@test "a record too large: 65 with where it came from; none after it" {
	jq -nc --arg hello "$(hello)" '($hello | fromjson),
		(range(3) | {batch: (. + 1), src: [["outbox", 0, ., . + 1]],
			at: [], rec: [[null, 5, "k",
				(if . == 1 then "x" * 1000001 else "v" end),
				null, [0, .]]]}),
		{end: true, batches: 3, records: 3}' | stream-make >"$stream"
	run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" >"$2"' _ "$stream" "$answer"
	expect_message 'dispatch-produce: error: dispatch [5]: the record from outbox [0] offset 1: 1000002 bytes: larger than message.max.bytes, 1000000'
	[ "${#lines[@]}" -eq 2 ]
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1]' ]
}

@test "a partition that doesn't exist: 65 with the record" {
	local at
	for at in 8 -2 -2147483648; do
		{
			hello
			batch 1 0 2 "$(record 0)"
			batch 2 2 3 "[null,$at,\"k\",\"v\",null,[0,2]]"
			end_line 2 2
		} | stream-make >"$stream"
		run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" \
			-t dispatch <"$1" >"$2"' _ "$stream" "$answer"
		expect_message "dispatch [$at]: the record from outbox [0] offset 2: no such partition: wants -1 to 7, the topic has 8"
		run -0 jq -sc 'map(.batch)' <(receipts)
		[ "$output" = '[1]' ]
	done
}

@test "the topic that the dispatches were read from: 78" {
	{ hello; batch 1 0 1 "$(record 0)"; end_line 1 1; } |
		sed 's/"topic":"outbox"/"topic":"dispatch"/' |
		stream-make >"$stream"
	run -78 --separate-stderr produce <"$stream"
	expect_message '-t dispatch: the dispatches were read from this topic'
	[ -z "$output" ]
}

# fails CODE ERROR TEXT COUNTS [option...]: the first batch can't be delivered.
fails() {
	mock --error "produce=$2:1000"
	many 2 1 | stream-make >"$stream"
	run "-$1" bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		-w 1 "${@:3}" <"$1" >"$2"' _ "$stream" "$answer" "${@:5}"
	expect_message "dispatch-produce: error: dispatch [0]: the record from outbox [0] offset 0: $3"
	[ "${lines[0]}" = "dispatch-produce: warning: $4" ]
	[ "${#lines[@]}" -eq 2 ]
	run -0 receipts
	[ -z "$output" ]
	run ! grep -q '"end"' <(stream-dump <"$answer")
}

# bats test_tags=slow
@test "a record that isn't delivered: the exit code says what to do (own mock)" {
	local none='delivered 0, unproven 0, not persisted 1, possibly persisted 0; dead letters made 0'
	local maybe='delivered 0, unproven 0, not persisted 0, possibly persisted 1; dead letters made 0'
	fails 77 TOPIC_AUTHORIZATION_FAILED \
		'Broker: Topic authorization failed (not persisted)' "$none"
	fails 65 INVALID_RECORD \
		'4 bytes: Broker: Broker failed to validate record (not persisted)' "$none"
	fails 75 NOT_ENOUGH_REPLICAS \
		'Local: Message timed out (not persisted)' "$none" \
		-X message.timeout.ms=1000
	# Long enough for a first answer.
	fails 75 NOT_ENOUGH_REPLICAS_AFTER_APPEND \
		'Local: Message timed out (possibly persisted)' "$maybe" \
		-X message.timeout.ms=4000
	fails 75 NOT_ENOUGH_REPLICAS \
		'Broker: Not enough in-sync replicas (not persisted)' "$none" \
		-X retries=0
	fails 75 REQUEST_TIMED_OUT \
		'Broker: Request timed out (possibly persisted)' "$maybe" \
		-X retries=0
}

@test "a fatal error of the idempotent producer: 75, and what to do (own mock)" {
	mock --error produce=OUT_OF_ORDER_SEQUENCE_NUMBER:1000
	many 4 40 | stream-make >"$stream"
	run -75 bash -c 'QIM_FANOUT_PRODUCER_IDEMPOTENCE=true timeout 60 \
		dispatch-produce -q -b "$MOCK_BROKERS" -t dispatch \
		<"$1" >"$2"' _ "$stream" "$answer"
	[[ $output == 'dispatch-produce: error: kafka: the idempotent producer failed for good: '*': to start again is safe' ]]
	run -0 receipts
	[ -z "$output" ]
}

@test "what became of the records is counted: -v, or when one isn't delivered" {
	many 2 8 | stream-make >"$stream"
	run -0 --separate-stderr produce <"$stream"
	[ -z "$stderr" ]
	run -0 --separate-stderr produce -v <"$stream"
	expect_message 'dispatch-produce: info: delivered 16, unproven 0, not persisted 0, possibly persisted 0; dead letters made 0'
	run -75 --separate-stderr bash -c 'head -c -30 "$1" | dispatch-produce \
		-b "$MOCK_BROKERS" -t dispatch' _ "$stream"
	[ "${#stderr_lines[@]}" -eq 1 ]
}

@test "a failed record holds back its batch's receipt and all behind it (own mock)" {
	# Each batch is one request of one broker; the third is refused for good.
	mock -n 1 -t one:1 --error produce=0:2 --error produce=TOPIC_AUTHORIZATION_FAILED:1
	many 6 4 | sed -E 's/\[null,[0-9]+,/[null,0,/g; s/"partitions":8/"partitions":1/' | stream-make >"$stream"
	run -77 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t one \
		-X batch.num.messages=4 -X max.in.flight=1 <"$1" >"$2"' \
		_ "$stream" "$answer"
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1,2]' ]
}

# bats test_tags=slow
@test "records refused together for the fault of one are sent alone (own mock)" {
	local error idempotent=false
	many 2 40 | stream-make >"$stream"
	for error in MSG_SIZE_TOO_LARGE INVALID_RECORD RECORD_LIST_TOO_LARGE
	do
		mock --error "produce=$error:1"
		QIM_FANOUT_PRODUCER_IDEMPOTENCE=$idempotent produce -v \
			<"$stream" >"$answer" 2>"$BATS_TEST_TMPDIR/err"
		grep -q 'delivered 80, unproven 0, not persisted 0, ' \
			"$BATS_TEST_TMPDIR/err"
		run -0 jq -sc 'map([.batch, .out])' <(receipts)
		[ "$output" = '[[1,40],[2,40]]' ]
		run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dispatch \
			-e -q -f "%p %k %s %h\n" | sort -u | wc -l'
		[ "$output" = 80 ]
		idempotent=true
	done
}

# refused_alone RECORD ERROR: it is refused, and once more when it is alone.
refused_alone() {
	mock -n 1 -t one:1 -t dead:1 --error "produce=$2:2"
	{
		hello 1
		batch 1 0 1 "$1"
		batch 2 1 2 ''
		end_line 2 1
	} | stream-make >"$stream"
}

# bats test_tags=slow
@test "refused alone: 65 with size and partition, or a dead letter (own mock)" {
	local record='[null,0,"key","value",[["h","x"]],[0,0]]'
	refused_alone "$record" INVALID_RECORD
	run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t one \
		<"$1" >"$2"' _ "$stream" "$answer"
	expect_message 'dispatch-produce: error: one [0]: the record from outbox [0] offset 0: 10 bytes: Broker: Broker failed to validate record (not persisted)'
	run -0 receipts
	[ -z "$output" ]

	refused_alone "$record" MSG_SIZE_TOO_LARGE
	dispatch-produce -b "$MOCK_BROKERS" -t one --dead-letter dead \
		<"$stream" >"$answer" 2>"$BATS_TEST_TMPDIR/err"
	[ "$(<"$BATS_TEST_TMPDIR/err")" = "dispatch-produce: warning: one [0]: the record from outbox [0] offset 0: 10 bytes: larger than the topic's max.message.bytes (not persisted): a dead letter in dead" ]
	run -0 jq -sc 'map([.batch, .in, .out, .dead, .bytes])' <(receipts)
	[ "$output" = '[[1,1,0,1,8],[2,0,0,0,0]]' ]
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dead -e -q -f "%k %s %h\n"'
	[ "$output" = "key value h=x,qim-topic=outbox,qim-partition=0,qim-offset=0,qim-reason=one [0]: 10 bytes: larger than the topic's max.message.bytes (not persisted),qim-program=dispatch-produce" ]
	run -0 topic one
	[ -z "$output" ]
}

# blames_no_record WHY: a record that failed ends the run, with neither a receipt
# nor a dead letter.
blames_no_record() {
	run -75 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t one \
		--dead-letter dead -q <"$1" >"$2"' _ "$stream" "$answer"
	[ "$output" = "dispatch-produce: error: one [0]: the record from outbox [0] offset 0: $1" ]
	run -0 receipts
	[ -z "$output" ]
	run -0 topic dead
	[ -z "$output" ]
}

# bats test_tags=slow
@test "an answer that can't be read is no record's fault: 75, no letter (own mock)" {
	mock -n 1 -t one:1 -t dead:1 --error produce=-199:1
	{
		hello 1
		batch 1 0 1 '[null,0,"key","value",null,[0,0]]'
		end_line 1 1
	} | stream-make >"$stream"
	blames_no_record 'Local: Bad message format (possibly persisted)'
}

# bats test_tags=slow
@test "a time that brokers refuse is the clock's fault: 75, no letter (own mock)" {
	refused_alone '[null,0,"key","value",null,[0,0]]' INVALID_TIMESTAMP
	blames_no_record "Broker: Invalid timestamp: this host's clock, or the topic's message.timestamp limits (not persisted)"
}

# bats test_tags=slow
@test "a dead letter that isn't delivered ends the run, no letter of a letter (own mock)" {
	refused_alone '[null,0,"key","value",null,[0,0]]' INVALID_RECORD
	mock -n 1 -t one:1 -t dead:1 --error produce=INVALID_RECORD:1000 # and the letter
	run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t one \
		--dead-letter dead -q <"$1" >"$2"' _ "$stream" "$answer"
	[[ $output =~ ^'dispatch-produce: error: dead [0]: the record from outbox [0] offset 0: '[0-9]+' bytes: Broker: Broker failed to validate record (not persisted)'$ ]]
	run -0 receipts
	[ -z "$output" ]
	# What came as a dead letter isn't made into another.
	mock -n 1 -t one:1 -t dead:1 --error produce=INVALID_RECORD:1000
	{
		hello 1
		batch 1 0 1 '["dead",0,"k","v",[["qim-reason","x"]],[0,0]]'
		end_line 1 1
	} | stream-make >"$stream"
	run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t one \
		--dead-letter dead -q <"$1" >"$2"' _ "$stream" "$answer"
	expect_message 'dead [0]: the record from outbox [0] offset 0: '
	[ "${#lines[@]}" -eq 1 ]
}

# bats test_tags=slow
@test "--dead-letter: what can't even be sent goes there, under the batch's receipt (own mock)" {
	mock -t dead:2
	jq -nc --arg hello "$(hello)" '($hello | fromjson),
		{batch: 1, src: [["outbox", 0, 0, 2]], at: [], part: 1, more: true,
			rec: [[null, 5, "k0", "x" * 1000001, [["h", "x"]], [0, 0]],
			[null, 5, "k1", "v", "not headers", [0, 1]]]},
		{batch: 1, src: [["outbox", 0, 0, 2]], at: [], part: 2, more: false,
			rec: [[null, 6, "k2", "v", null, [0, 1]],
			["a/b", -1, "k3", "v", null, [0, 1]],
			["dead", -1, "k4", "v", [["qim-reason", "planned"]], [0, 1]]]},
		{batch: 2, src: [["outbox", 0, 2, 2]], at: [], rec: []},
		{end: true, batches: 2, records: 5}' | stream-make >"$stream"
	produce --dead-letter dead -v <"$stream" >"$answer" \
		2>"$BATS_TEST_TMPDIR/err"
	grep -q 'delivered 5, unproven 0, not persisted 0, possibly persisted 0; dead letters made 3' \
		"$BATS_TEST_TMPDIR/err"
	[ "$(grep -c 'a dead letter in dead' "$BATS_TEST_TMPDIR/err")" -eq 1 ]
	run -0 jq -sc 'map([.batch, .in, .out, .dead])' <(receipts)
	[ "$output" = '[[1,5,1,4],[2,0,0,0]]' ]
	run -0 bash -c 'kcat -C -b "$MOCK_BROKERS" -t dead -e -q -f "%k %S %h\n" |
		sort | sed "s/,qim-topic=outbox,qim-partition=0,/,.../"'
	[ "${lines[0]}" = 'k0 900000 h=x,...qim-offset=0,qim-reason=dispatch [5]: 1000010 bytes: larger than message.max.bytes, 1000000,qim-program=dispatch-produce' ]
	[[ ${lines[1]} == "k1 1 qim-topic=outbox,"*"qim-offset=1,qim-reason=dispatch [5]: input: headers aren't an array of [name, value],"* ]]
	[[ ${lines[2]} == "k3 1 qim-topic=outbox,"*"qim-reason=its topic isn't a topic's name, "* ]]
	[ "${lines[3]}" = 'k4 1 qim-reason=planned' ]
	run -0 topic dispatch
	[ "${#lines[@]}" -eq 1 ]
}

# bats test_tags=slow
@test "--dead-letter: a plan that doesn't fit the topic is no record's fault: 65" {
	{ hello; batch 1 0 1 '[null,8,"k","v",null,[0,0]]'; } |
		stream-make >"$stream"
	mock -t dead:1
	run -65 --separate-stderr produce --dead-letter dead <"$stream"
	expect_message 'dispatch [8]: the record from outbox [0] offset 0: no such partition'
	run -0 topic dead
	[ -z "$output" ]
}

# bats test_tags=slow
@test "--dead-letter: the topic must exist, and be no other of the chain's (own mock)" {
	mock --topic-error gone=UNKNOWN_TOPIC_OR_PART -t outbox:1
	{ hello; end_line 0 0; } | stream-make >"$stream"
	run -69 --separate-stderr produce --dead-letter gone --connect-ms 400 \
		<"$stream"
	expect_message 'dispatch-produce: error: topic gone: not within 400 ms: '
	run -69 --separate-stderr produce --dead-letter gone --connect-ms 400 \
		--check </dev/null
	run -78 --separate-stderr dispatch-produce -b 127.0.0.1:1 -t dispatch \
		--dead-letter dispatch
	expect_message "dispatch-produce: error: --dead-letter: 'dispatch' is the topic of dispatches, -t"
	run -64 --separate-stderr produce --dead-letter a/b
	expect_message "--dead-letter: 'a/b': wants a topic's name"
	run -78 --separate-stderr produce --dead-letter outbox <"$stream"
	expect_message "--dead-letter: 'outbox' is the topic that the dispatches were read from"
	[ -z "$output" ]
}

@test "the reader is gone: 75, also while there is nothing to write" {
	many 1 1 | stream-make >"$stream"
	run -75 to_nobody dispatch-produce -b "$MOCK_BROKERS" -t dispatch <"$stream"
	expect_message 'output: the reader is gone'
	# It has read the hello and waits: the input stays open for good.
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	(
		exec 9>"$BATS_TEST_TMPDIR/pipe"
		hello | stream-make >&9
		exec sleep 60
	) 3>&- &
	local feeder=$!
	run -75 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}' \
		_ "$BATS_TEST_TMPDIR/pipe"
	kill "$feeder"
	expect_message 'output: the reader is gone'
}

# bats test_tags=slow
@test "of two things that go wrong the first is told (own mock)" {
	# Damaged input, and then the reader leaves while acks are waited for.
	mock --error produce=NOT_ENOUGH_REPLICAS:1000
	{ hello; batch 1 0 1 "$(record 0)"; } | stream-make >"$stream"
	echo garbage >>"$stream"
	run -65 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" | { head -c 10 >/dev/null; sleep 1; }
		exit ${PIPESTATUS[0]}' _ "$stream"
	[[ ${lines[0]} == 'dispatch-produce: warning: delivered 0, '* ]]
	[[ ${lines[1]} == 'dispatch-produce: error: input: '* ]]
	[ "${#lines[@]}" -eq 2 ]
}

@test "an output that takes nothing: 74" {
	many 1 1 | stream-make >"$stream"
	run -74 bash -c 'dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
		<"$1" >/dev/full' _ "$stream"
	expect_message 'dispatch-produce: error: write to fd 1'
}

# bats test_tags=slow
@test "no broker, no topic: 69; a topic that is forbidden: 77, refused: 78 (own mock)" {
	mock --topic-error gone=UNKNOWN_TOPIC_OR_PART \
		--topic-error secret=TOPIC_AUTHORIZATION_FAILED \
		--topic-error bad=TOPIC_EXCEPTION
	run -69 --separate-stderr dispatch-produce -b 127.0.0.1:1 -t dispatch \
		--connect-ms 400 </dev/null
	expect_message 'dispatch-produce: error: topic dispatch: not within 400 ms: '
	expect_message 'Connection refused'
	run -69 --separate-stderr dispatch-produce -b "$MOCK_BROKERS" -t gone \
		--connect-ms 2000 </dev/null
	expect_message 'topic gone: not within 2000 ms: Broker: Unknown topic or partition'
	run -77 --separate-stderr dispatch-produce -b "$MOCK_BROKERS" \
		-t secret </dev/null
	expect_message 'topic secret: Broker: Topic authorization failed'
	run -78 --separate-stderr timeout 10 dispatch-produce \
		-b "$MOCK_BROKERS" -t bad </dev/null
	expect_message 'topic bad: Broker: Invalid topic'
}

# bats test_tags=slow
@test "--check asks for the topic, reads nothing and writes nothing (own mock)" {
	mock --topic-error gone=UNKNOWN_TOPIC_OR_PART
	run -0 --separate-stderr produce --check </dev/null
	[ -z "$output$stderr" ]
	run -69 --separate-stderr dispatch-produce -b "$MOCK_BROKERS" -t gone \
		--connect-ms 400 --check </dev/null
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

@test "-t is missing or no name, a window out of range: 64" {
	run -64 --separate-stderr dispatch-produce -b "$MOCK_BROKERS"
	expect_message 'dispatch-produce: error: -t: missing'
	run -64 --separate-stderr dispatch-produce -b 127.0.0.1:1 -t ..
	expect_message "dispatch-produce: error: -t: '..': wants a topic's name, 1 to 249 of letters, digits and ._-"
	run -64 --separate-stderr dispatch-produce -t dispatch
	expect_message 'dispatch-produce: error: -b: missing'
	run -64 --separate-stderr produce -w 0
	expect_message "-w: '0': wants a number from 1 to 1024 batches"
	run -64 --separate-stderr produce --window-bytes 1000
	expect_message "--window-bytes: '1000': wants a number from 1048576 to 4294967296 bytes"
}

# bats test_tags=slow
@test "--check with all options leaves the topics as they are (own mock)" {
	mock -t dead:1
	many 1 8 | stream-make >"$stream"
	run -0 --separate-stderr produce --check --dead-letter dead \
		--connections 8 <"$stream"
	[ -z "$output$stderr" ]
	run -0 topic dispatch
	[ -z "$output" ]
	run -0 topic dead
	[ -z "$output" ]
}

# refused TEXT option...: 78 with the text, before anything is connected.
refused() {
	run -78 --separate-stderr dispatch-produce -b 127.0.0.1:1 -t dispatch \
		--connect-ms 60000 "${@:2}" </dev/null
	[[ $stderr == "dispatch-produce: error: $1"* ]]
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
}

@test "settings that would break a receipt's promise: 78 in each spelling" {
	refused "-X request.required.acks: '1': refused: receipts promise durability" \
		-X request.required.acks=1
	refused "-X request.required.acks: 'ALL': refused: wants all, -1, 0 or 1" \
		-X request.required.acks=ALL
	refused "-X acks: '': " -X acks=
	refused "-X delivery.timeout.ms: '10': refused: wants 1000 to" \
		-X delivery.timeout.ms=10
	refused "-X delivery.timeout.ms: '0': refused: wants 1000 to" \
		-X delivery.timeout.ms=0
	refused "-X enable.gapless.guarantee: 'true': refused: one record at fault" \
		-X enable.gapless.guarantee=true
	refused "-X delivery.report.only.error: 'true': refused: " \
		-X delivery.report.only.error=true
	refused "-X queuing.strategy: 'lifo': refused: records stay in order" \
		-X queuing.strategy=lifo
	refused '-X lingerms: unknown property, is linger.ms meant?' \
		-X lingerms=1
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	refused "-X request.required.acks: '0': refused: an idempotent producer wants all or -1" \
		--not-durable -X request.required.acks=0
	refused "-X max.in.flight.requests.per.connection: '6': refused: an idempotent producer wants 1 to 5" \
		-X max.in.flight.requests.per.connection=6
	refused "-X message.send.max.retries: '0': refused: an idempotent producer wants 1 or more" \
		-X message.send.max.retries=0
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=
	refused "QIM_FANOUT_PRODUCER_IDEMPOTENCE: '': wants exactly true or false"
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
