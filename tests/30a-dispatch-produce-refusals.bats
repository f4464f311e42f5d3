#!/usr/bin/env bats
# dispatch-produce: the streams, topics and options that it refuses.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load lib/common
load lib/producer

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
