#!/usr/bin/env bats
# fanout-plan: Outbox records into dispatches.

bats_require_minimum_version 1.5.0
load lib/common

golden() {
	echo "$BATS_TEST_DIRNAME/golden/$1"
}

# records JQ...: a stream of one empty batch and one with a record for each
# value that the jq program gives: a string, or {"base64": ...}, or null.
# Offsets from 0 in outbox[3], keys k0, k1, ...
records() {
	jq -cn "[$1] as \$values |
		{qim: 1, minor: 0, kind: \"records\", from: \"outbox-read\",
		 run: 1, topic: \"outbox\", group: \"g\",
		 start: [[\"outbox\", 3, 0, \"stored\"]]},
		{batch: 1, src: [[\"outbox\", 3, 0, 0]], at: [], rec: []},
		{batch: 2, src: [[\"outbox\", 3, 0, (\$values | length)]],
		 at: [[\"outbox-read\", \"read\", 1000, 1500]],
		 rec: [\$values | to_entries[] |
			[0, .key, 1, \"k\\(.key)\", .value, null]]},
		{end: true, batches: 2, records: (\$values | length)}" |
		stream-make
}

# message FIELDS: a jq expression for a message with these fields changed.
message() {
	echo "({message_id: \"m1\", conversation_id: \"c1\",
		conversation_seq: 7, sender: \"ann\", created_at: 1700,
		payload: {text: \"hi\"}, recipients: [\"bob\", \"ann\"]} +
		$1 | tojson)"
}

# The same message as msgpack, its fields in reverse, lang: "en" beside.
readonly as_msgpack='{base64: "iKpyZWNpcGllbnRzk6Nib2KjYW5uo2JvYqdwYXlsb2FkgaR0ZXh0omhpqmNyZWF0ZWRfYXTNBqSmc2VuZGVyo2FubrBjb252ZXJzYXRpb25fc2VxB69jb252ZXJzYXRpb25faWSiYzGqbWVzc2FnZV9pZKJtMaRsYW5nomVu"}'

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# plan OPTIONS <in: what each record of the output says, decoded, in `plan`.
plan() {
	fanout-plan "$@" >out
	stream-dump -d --rec <out >plan
}

# frames OPTIONS <in: each frame of the output, without the records, in
# `frames`.
frames() {
	fanout-plan "$@" >out
	stream-dump <out | jq -c 'if .rec then .rec |= length else . end' \
		>frames
}

@test "a message becomes a dispatch for each partition of its recipients" {
	records "$(message '{lang: "en"}')" >in
	plan <in
	[ "$(wc -l <plan)" -eq 2 ]
	jq -e --slurp '.[0] | .partition == 14 and .topic == null and
		.key == "c1" and .headers == null and
		.src == ["outbox", 3, 0] and
		(.value | del(.id, .digest)) == {v: 1,
			conversation_id: "c1", conversation_seq: 7,
			message_id: "m1", sender: "ann", created_at: 1700,
			chunk: [1, 1], to: ["bob"], payload: {text: "hi"},
			lang: "en"}' plan
	jq -e --slurp '.[1].partition == 50 and .[1].value.to == ["ann"]' plan
	jq -e --slurp '.[0].value.digest == .[1].value.digest and
		.[0].value.id != .[1].value.id' plan
}

@test "JSON and msgpack, in any order, give the same bytes" {
	records "$(message '{lang: "en"}')" | fanout-plan |
		stream-dump --rec >json
	records "$as_msgpack" | fanout-plan | stream-dump --rec >msgpack
	cmp json msgpack
	records "$(message '{lang: "en", recipients: ["ann", "bob", "ann"]}')" |
		fanout-plan | stream-dump --rec >again
	cmp json again
}

@test "a replay gives the same frames, but for the times" {
	records "$(message '{}'), \"junk\", $(message '{conversation_seq: 8}'), null" \
		>in
	for run in 1 2; do
		fanout-plan --dead-letter dead <in | stream-dump |
			jq -c 'del(.at)' >"frames$run"
	done
	cmp frames1 frames2
	[ "$(wc -l <frames1)" -eq 4 ]
}

@test "hello carries the partition count and the limit of recipients" {
	records "$(message '{}')" >in
	frames -n 7 --max-recipients 9 <in
	run -0 jq -c 'select(.qim) | [.kind, .from, .run, .topic, .group,
		.start, .partitions, .max_recipients]' frames
	[ "$output" = '["dispatches","fanout-plan",1,"outbox","g",[["outbox",3,0,"stored"]],7,9]' ]
	run -0 bash -c 'stream-dump --rec <out | jq .partition'
	for partition in "${lines[@]}"; do
		((partition >= 0 && partition < 7))
	done
	frames <in
	[ "$(jq -c 'select(.qim) | [.partitions, .max_recipients]' frames)" = \
		'[64,1000]' ]
}

@test "batches keep their numbers and ranges, empty ones flow, steps are added" {
	records "$(message '{}')" | frames
	run -0 jq -c 'select(.batch) | [.batch, .src, .rec, .part,
		(.at | map(.[:2]))]' frames
	[ "${lines[0]}" = '[1,[["outbox",3,0,0]],0,null,[["fanout-plan","plan"]]]' ]
	[ "${lines[1]}" = '[2,[["outbox",3,0,1]],2,null,[["outbox-read","read"],["fanout-plan","plan"]]]' ]
	[ "$(tail -n 1 frames)" = '{"end":true,"batches":2,"records":2}' ]
}

@test "headers go through; the parts of a batch become one" {
	frames --dead-letter dead <"$(golden records.qim)"
	run -0 jq -c 'select(.batch == 4) | [.part, .rec, (.at | map(.[1]))]' \
		frames
	[ "$output" = '[null,2,["read","plan"]]' ]
	run -0 bash -c 'stream-dump --rec <out |
		jq -c "select(.src == [\"outbox\", 0, 8]) | .headers"'
	[ "${lines[0]}" = '[["trace","abc"],["empty",""],["nil",null]]' ]
	[ "${lines[1]}" = "${lines[0]}" ]
}

@test "100,000 recipients: 64 partitions, two chunks each" {
	records "$(message '{recipients: [range(100000) | "user-\(.)"]}')" >in
	plan --max-recipients 1000 <in
	[ "$(wc -l <plan)" -eq 128 ]
	jq -e --slurp 'map([.partition] + .value.chunk) ==
		[range(64) as $p | [$p, 1, 2], [$p, 2, 2]]' plan
	jq -e --slurp 'map(select(.value.chunk[0] == 1) | .value.to | length) |
		all(. == 1000)' plan
	jq -e --slurp '[.[].value.to[]] | length == 100000 and
		(sort == ([range(100000) | "user-\(.)"] | sort))' plan
	jq -e --slurp '[.[].value.id] | unique | length == 128' plan
	jq -e --slurp '[.[].value.digest] | unique | length == 1' plan
}

# bats test_tags=slow
@test "what exceeds 4 MiB goes in parts, the steps with the last" {
	records "$(message '{payload: ("x" * 900000),
		recipients: [range(30) | "user-\(.)"]}')" >in
	frames <in
	count=$(stream-dump --rec <out | jq .partition | sort -u | wc -l)
	((count > 16))
	jq -e --slurp --argjson count "$count" 'map(select(.batch == 2)) |
		(map(.rec) | add) == $count and all(.[]; .rec <= 4) and
		map(.part) == [range(1; length + 1)] and
		(.[:-1] | all(.[]; .more and .at == [])) and
		(.[-1] | (.more | not) and (.at | map(.[1])) == ["read", "plan"])' \
		frames
	[ "$(tail -n 1 frames)" = \
		"{\"end\":true,\"batches\":2,\"records\":$count}" ]
}

@test "what can't be planned stops with 65 and names the record" {
	local value reason
	while IFS=$'\t' read -r value reason; do
		records "$(message '{}'), $value" >in
		run -65 --separate-stderr bash -c 'fanout-plan <in >out'
		# shellcheck disable=SC2154  # bats sets it
		[ "$stderr" = "fanout-plan: error: outbox[3] offset 1: $reason" ] ||
			fail "$value: $stderr"
		run -75 --separate-stderr stream-dump <out
		[ "${#lines[@]}" -eq 2 ]
	done <<EOF
null	null value
""	empty value
"hello"	not a message: starts with 0x68, wants a map in msgpack or JSON
"{"	JSON: the object isn't complete, or something follows it: stopped at byte 1
"{\"a\":1 \"b\":2}"	JSON: wants a comma or the end at byte 7
"{\"a\":\"\\\\ud800\"}"	JSON: an invalid escape, control byte or UTF-8 at byte 6
{base64: "gqFhAQ=="}	msgpack: 4 declared at 1, 3 bytes left
"{}"	no field 'message_id'
$(message '{sender: 5}' | tr -d '\n\t')	field 'sender': wants an id of 1 to 255 bytes
$(message '{recipients: []}' | tr -d '\n\t')	no recipients
$(message '{members: "v"}' | tr -d '\n\t')	fields 'recipients' and 'members': one or the other
$(message '{to: 1}' | tr -d '\n\t')	field 'to': a name that the dispatch itself has
$(message '{payload: ("x" * 999999)}' | tr -d '\n\t')	too large: a dispatch record of up to 1000304 bytes, the limit is 1000000
EOF
}

@test "a membership snapshot is refused in so many words" {
	records '({message_id: "m", conversation_id: "c", conversation_seq: 1,
		sender: "s", created_at: 0, payload: 1, members: "v1"} |
		tojson)' >in
	run -65 --separate-stderr fanout-plan <in
	expect_message "field 'members': membership snapshots can't be planned by this version"
}

@test "with --dead-letter it goes there, and nothing else is lost" {
	records "$(message '{}'), \"junk\", null, $(message '{sender: 5}')" >in
	plan --dead-letter outbox-dead <in
	[ "$(wc -l <plan)" -eq 5 ]
	run -0 jq -c 'select(.topic) | [.topic, .partition, .key, .src]' plan
	[ "${lines[0]}" = '["outbox-dead",-1,"k1",["outbox",3,1]]' ]
	[ "${lines[2]}" = '["outbox-dead",-1,"k3",["outbox",3,3]]' ]
	run -0 jq -c 'select(.topic) | .headers' plan
	[ "${lines[0]}" = '[["qim-topic","outbox"],["qim-partition","3"],["qim-offset","1"],["qim-reason","not a message: starts with 0x6a, wants a map in msgpack or JSON"],["qim-program","fanout-plan"]]' ]
	run -0 bash -c 'stream-dump --rec <out |
		jq -c "select(.topic) | .value"'
	[ "${lines[0]}" = '"junk"' ]
	[ "${lines[1]}" = null ]
	[ "$(tail -n 1 <(stream-dump <out))" = \
		'{"end":true,"batches":2,"records":5}' ]
}

@test "headers of another form can't be planned, and aren't passed on" {
	records "$(message '{}')" | stream-dump |
		jq -c 'if .batch == 2 then .rec[0][5] = [[1, "b"]] else . end' |
		stream-make >in
	run -65 --separate-stderr fanout-plan <in
	expect_message "outbox[3] offset 0: input: headers aren't an array of [name, value]"
	plan --dead-letter dead <in
	[ "$(jq -c '.headers | map(.[0])' plan)" = \
		'["qim-topic","qim-partition","qim-offset","qim-reason","qim-program"]' ]
}

@test "a dead letter is cut so that it can be produced" {
	records '"x" * 3000000' >in
	plan --dead-letter dead <in
	[ "$(jq '.value | length' plan)" -eq 900000 ]
	plan --dead-letter dead --max-bytes 10000 <in
	length=$(jq '.value | length' plan)
	((length > 9000 && length < 9900))
}

@test "wrong options: 64, before anything is read" {
	local option text
	while read -r option text; do
		# shellcheck disable=SC2086
		run -64 --separate-stderr fanout-plan $option </dev/null
		[ "$stderr" = "fanout-plan: error: $text" ] || fail "$stderr"
	done <<-'EOF'
	-n=0 -n: '=0': wants a number from 1 to 100000 partitions
	-n0 -n: '0': wants a number from 1 to 100000 partitions
	-n100001 -n: '100001': wants a number from 1 to 100000 partitions
	-n-1 -n: '-1': wants a number from 1 to 100000 partitions
	--max-recipients=0 --max-recipients: '0': wants a number from 1 to 100000 recipients
	--max-recipients=1e3 --max-recipients: '1e3': wants a number from 1 to 100000 recipients
	--max-bytes=999 --max-bytes: '999': wants a number from 1000 to 15728640 bytes
	--max-bytes=15728641 --max-bytes: '15728641': wants a number from 1000 to 15728640 bytes
	--dead-letter= --dead-letter: empty
	--dead-letter=a/b --dead-letter: 'a/b': wants a topic's name, 1 to 249 of letters, digits and ._-
	--dead-letter=.. --dead-letter: '..': wants a topic's name, 1 to 249 of letters, digits and ._-
	operand 'operand': unexpected operand
	EOF
	run -0 fanout-plan --check -n 8 --dead-letter dead </dev/null
	[ -z "$output" ]
}

@test "the source topic can't take the dead letters: 78" {
	records "$(message '{}')" >in
	run -78 --separate-stderr fanout-plan --dead-letter outbox <in
	expect_message "fanout-plan: error: --dead-letter: 'outbox' is the source topic itself"
	[ -z "$output" ]
}

@test "torn input is 75, no stream 65, another kind 76, and no end goes out" {
	records "$(message '{}')" >in
	for cut in 0 3 100 $(($(stat -c %s in) - 1)); do
		run -75 --separate-stderr bash -c \
			"head -c $cut in | fanout-plan >out"
		expect_message 'fanout-plan: error: input: torn: it ends'
		run -75 stream-dump <out
	done
	run -65 --separate-stderr fanout-plan <<<'hello world'
	expect_message 'not a qim stream'
	run -76 --separate-stderr fanout-plan <"$(golden receipts.qim)"
	expect_message "fanout-plan: error: input: 'receipts' from dispatch-produce, wants 'records': it comes right after outbox-read"
	fanout-plan <in >dispatches
	run -76 --separate-stderr fanout-plan <dispatches
	expect_message "input: 'dispatches' from fanout-plan, wants 'records'"
}

@test "a reader that is gone is 75, a full disk 74" {
	records "$(message '{payload: ("x" * 200000)}')" >in
	# shellcheck disable=SC2016
	run -75 --separate-stderr to_nobody fanout-plan <in
	expect_message 'fanout-plan: error: output: the reader is gone'
	run -74 --separate-stderr bash -c 'fanout-plan <in >/dev/full'
	expect_message 'fanout-plan: error: write to fd 1: No space left on device'
}

@test "no descriptor left is 71" {
	run -71 --separate-stderr bash -c 'exec 3>&- 4>&-; exec prlimit --nofile=4 fanout-plan </dev/null'
	expect_message 'fanout-plan: error: signals: Too many open files'
}

@test "TERM: it reads on to the end; a second one ends it with 75" {
	records "$(message '{}')" >in
	mkfifo fifo
	fanout-plan <fifo >out 3>&- &
	pid=$!
	exec 4>fifo
	head -c 300 in >&4
	wait_until 10 test -s out
	kill -TERM "$pid"
	tail -c +301 in >&4
	exec 4>&-
	wait "$pid"
	stream-dump <out >/dev/null

	fanout-plan <fifo >again 2>err 3>&- &
	pid=$!
	exec 4>fifo
	head -c 300 in >&4
	wait_until 10 test -s again
	kill -TERM "$pid"
	kill -INT "$pid"
	status=0
	wait "$pid" || status=$?
	exec 4>&-
	[ "$status" -eq 75 ]
	[ "$(<err)" = 'fanout-plan: error: abandoned: second signal' ]
}

@test "the golden records are planned as they always have been" {
	diff <(fanout-plan --dead-letter dead <"$qim_root/tests/golden/records.qim" |
		stream-dump --rec) \
		<(stream-dump --rec <"$qim_root/tests/golden/dispatches.qim")
}
