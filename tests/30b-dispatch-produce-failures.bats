#!/usr/bin/env bats
# dispatch-produce: records that aren't delivered, and the dead letters made of
# them.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load lib/common
load lib/producer

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
