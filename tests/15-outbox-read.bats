#!/usr/bin/env bats
# outbox-read: a topic as a stream of batches, on the mock broker. What only a
# real broker does (deleted records, transactions) is in kafka/.

# shellcheck disable=SC2016,SC2030,SC2031  # for bash -c; bats runs each test in a subshell
bats_require_minimum_version 1.5.0
load lib/common

setup_file() {
	start_mock -t outbox:4 -t bytes:1 -t many:2 -t end:1 \
		--topic-error gone=UNKNOWN_TOPIC_OR_PART \
		--topic-error secret=TOPIC_AUTHORIZATION_FAILED
	seq 10 | produce -t outbox -p 0
	seq 5 | produce -t outbox -p 2
	seq 1000 | produce -t many -p 0
	seq 1000 | produce -t many -p 1
	seq 8 | produce -t end -p 0
}

teardown_file() {
	stop_mock
}

setup() {
	out=$BATS_TEST_TMPDIR/out.qim
	dump=$BATS_TEST_TMPDIR/out.json
}

produce() {
	kcat -P -b "$MOCK_BROKERS" -X acks=all "$@"
}

# reads STATUS option...: run it, its stream in $out, as JSON in $dump.
reads() {
	local status=$1
	shift
	run "-$status" --separate-stderr bash -c '"$@" >"$0"' "$out" \
		timeout -k 5 60 outbox-read -b "$MOCK_BROKERS" \
		--connect-ms 20000 "$@"
	stream-dump <"$out" >"$dump" 2>/dev/null || true
}

# refuses STATUS MESSAGE option...: that line, and nothing on stdout.
refuses() {
	local status=$1 message=$2
	shift 2
	reads "$status" "$@"
	# shellcheck disable=SC2154
	[ "${#stderr_lines[@]}" = 1 ] || fail "$stderr"
	expect_message "outbox-read: error: $message"
	[ ! -s "$out" ]
}

# commit GROUP TOPIC:PARTITION=OFFSET...
commit() {
	local group=$1 at sets=()
	shift
	for at; do
		sets+=(--set "$at")
	done
	offset-commit -q -b "$MOCK_BROKERS" -g "$group" "${sets[@]}"
}

starts() {
	jq -c 'select(.qim) | .start | map(.[1:])' "$dump"
}

values() {
	stream-dump --rec <"$out" | jq -r .value
}

@test "usage: 64 names the option, the value and what is allowed" {
	run -64 --separate-stderr outbox-read -t outbox -g g
	expect_message 'outbox-read: error: -b: missing'
	refuses 64 '-t: missing' -g g
	refuses 64 "-t: 'a/b': wants a topic's name, 1 to 249 of letters, digits and ._-" -t a/b
	refuses 64 "-t: '..': wants a topic's name" -t ..
	refuses 64 "-o: '-3': wants one of: stored, beginning, end, an offset, s@MS, @FILE" \
		-t outbox -o -3
	refuses 64 "-o: 's@x': wants one of" -t outbox -o s@x
	refuses 64 "-o: '@': wants one of" -t outbox -o @
	refuses 64 "--first: 'stored': wants one of: beginning, end" \
		-t outbox -g g --first stored
	# Nobody listens at port 1: before anything is connected.
	refuses 64 "-p: '3-1': wants numbers from 0 to" -t outbox -o 0 -p 3-1 \
		-b 127.0.0.1:1
	refuses 64 "-p: '0,x': wants numbers from 0 to" -t outbox -o 0 -p 0,x \
		-b 127.0.0.1:1
	refuses 64 "-c: '0': wants a number from 1 to" -t outbox -o 0 -c 0
	refuses 64 "--batch: '65537': wants a number from 1 to 65536 records" \
		-t outbox --batch 65537
	refuses 64 "--batch-bytes: '1023': wants a number from 1024 to 8388608 bytes" \
		-t outbox --batch-bytes 1023
	refuses 64 "--batch-ms: '60001': wants a number from 0 to 60000 ms" \
		-t outbox --batch-ms 60001
}

@test "configuration: 78 for what contradicts" {
	refuses 78 '-o stored: without -g there is no group' -t outbox
	refuses 78 '--first: it says where the first run of a group starts, -o 5 leaves nothing to say' \
		-t outbox -g g -o 5 --first end
	refuses 78 "-X enable.auto.commit: 'true': refused: only offset-commit commits" \
		-t outbox -o 0 -X enable.auto.commit=true
	refuses 78 "-X auto.offset.reset: 'latest': refused" \
		-t outbox -o 0 -X auto.offset.reset=latest
	refuses 78 '-p 2-4: topic outbox has 4 partitions, from 0 on' \
		-t outbox -o beginning -p 2-4
}

@test "a positions file: 66, 65 with the line" {
	local file=$BATS_TEST_TMPDIR/positions
	refuses 66 "$file: No such file" -t outbox -o "@$file"
	refuses 66 "$BATS_TEST_TMPDIR: Is a directory" \
		-t outbox -o "@$BATS_TEST_TMPDIR"
	printf '# topic partition offset\n\noutbox 0 5 # five\noutbox 1\n' >"$file"
	refuses 65 "$file: line 4: wants 'topic partition offset'" \
		-t outbox -o "@$file"
	printf 'outbox 0 -5\n' >"$file"
	refuses 65 "$file: line 1: wants" -t outbox -o "@$file"
	printf 'outbox 0 5 x\n' >"$file"
	refuses 65 "$file: line 1: wants" -t outbox -o "@$file"
	printf 'outbox 0 9223372036854775808\n' >"$file"
	refuses 65 "$file: line 1: wants" -t outbox -o "@$file"
	printf 'outbox 0 5\nother 0 1\noutbox 0 6\n' >"$file"
	refuses 65 "$file: line 3: outbox 0 stands in line 1 too" \
		-t outbox -o "@$file"
	printf 'other 9 1\noutbox 4 5\n' >"$file"
	refuses 65 "$file: line 2: partition 4, outbox has 4 of them" \
		-t outbox -o "@$file"
}

# bats test_tags=slow
@test "no broker, no such topic: 69 at the deadline; refused: 77 at once" {
	local start=${EPOCHREALTIME/./}
	refuses 69 'topic outbox: not within 300 ms' -t outbox -o 0 \
		-b 127.0.0.1:1 --connect-ms 300
	refuses 69 'topic gone: not within 2000 ms: Broker: Unknown topic or partition' \
		-t gone -o 0 --connect-ms 2000
	refuses 77 'topic secret: Broker: Topic authorization failed' \
		-t secret -o 0 --connect-ms 60000
	((${EPOCHREALTIME/./} - start < 20000000))
}

@test "hello names every start, the first batch is empty and names all" {
	reads 0 -t outbox -o beginning -e
	[ "$(starts)" = '[[0,0,"explicit"],[1,0,"explicit"],[2,0,"explicit"],[3,0,"explicit"]]' ]
	jq -se '.[0] | .kind == "records" and .from == "outbox-read" and
		.topic == "outbox" and .group == null' "$dump"
	jq -se '.[1] | .batch == 1 and .rec == [] and .src ==
		[range(4) | ["outbox", ., 0, 0]]' "$dump"
	jq -se '.[-1].end and .[-1].records == 15' "$dump"
	# All ranges together, each partition from the next of the one before.
	jq -se '[.[].src // [] | .[]] | group_by(.[1]) |
		map([.[0][2], .[-1][3]]) == [[0,10],[0,0],[0,5],[0,0]]' "$dump"
	jq -se '[.[] | select(.batch > 1) | .src[] | select(.[2] == .[3])] == []' \
		"$dump"
	[ "$(values | sort -n | uniq -c | awk '{print $1}' | tr -d '\n')" = 2222211111 ]
}

@test "each run has another number" {
	reads 0 -t outbox -o end -e
	jq -c 'select(.qim).run' "$dump" >"$BATS_TEST_TMPDIR/run"
	reads 0 -t outbox -o end -e
	run ! cmp <(jq -c 'select(.qim).run' "$dump") "$BATS_TEST_TMPDIR/run"
}

@test "nil and empty, headers, bytes and times come through whole" {
	printf 'k1|v1\n' | produce -t bytes -K '|' -H a=1 -H b= -H c
	printf '|\n' | produce -t bytes -K '|'
	printf '|\n' | produce -t bytes -K '|' -Z
	printf '\xff\x00\x80' >"$BATS_TEST_TMPDIR/value"
	produce -t bytes "$BATS_TEST_TMPDIR/value"
	reads 0 -t bytes -o beginning -e
	stream-dump --rec <"$out" >"$dump"
	jq -se 'map([.key, .value, .headers]) == [
		["k1", "v1", [["a","1"],["b",""],["c",null]]],
		["", "", null],
		[null, null, null],
		[null, {"base64": "/wCA"}, null]]' "$dump"
	jq -se "map(.timestamp) | all(. > 1500000000000 and . < 4000000000000)" "$dump"
}

@test "batches end at --batch records, at --batch-bytes" {
	reads 0 -t many -p 0 -o 0 -e --batch 300 --batch-ms 1000
	jq -se '[.[] | .rec // empty | length] == [0, 300, 300, 300, 100]' "$dump"
	jq -se '[.[] | .src // empty | .[0][3]] == [0, 300, 600, 900, 1000]' "$dump"
	reads 0 -t many -p 1 -o 0 -e --batch-bytes 1024 --batch-ms 1000
	jq -se '[.[] | .rec // empty | length] | add == 1000 and max < 60 and
		.[2] > 20' "$dump"
	reads 0 -t many -o 0 -c 100 --batch 1
	jq -se '[.[] | .rec // empty | length] | length == 101 and max == 1' "$dump"
}

@test "--batch-ms 0 passes on at once, and covers all" {
	reads 0 -t many -o 0 -e --batch-ms 0
	jq -se '.[-1].records == 2000' "$dump"
	[ "$(values | sort -n | uniq -c | awk '$1 == 2' | wc -l)" = 1000 ]
}

@test "-c ends after so many records, -p reads only those partitions" {
	reads 0 -t many -o 0 -c 7
	jq -se '.[-1].end and .[-1].records == 7' "$dump"
	reads 0 -t outbox -p 1,2 -o 0 -e
	[ "$(starts)" = '[[1,0,"explicit"],[2,0,"explicit"]]' ]
	[ "$(values | tr '\n' ' ')" = '1 2 3 4 5 ' ]
}

@test "-e doesn't read what comes later" {
	local pid
	reads 0 -t end -o 3 -e
	[ "$(values | tr '\n' ' ')" = '4 5 6 7 8 ' ]
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	# The pipe is full long before the end of the log at the start.
	timeout 30 outbox-read -b "$MOCK_BROKERS" -t end -o 0 -e --batch 1 \
		>"$BATS_TEST_TMPDIR/pipe" 3>&- &
	pid=$!
	exec 7<"$BATS_TEST_TMPDIR/pipe"
	head -c 1 <&7 >"$BATS_TEST_TMPDIR/head"
	seq 9 500 | produce -t end -p 0
	cat "$BATS_TEST_TMPDIR/head" - <&7 >"$out"
	exec 7<&-
	wait "$pid"
	stream-dump <"$out" | jq -se '.[-1].records == 8'
}

@test "-e doesn't even fetch a partition whose end is its start" {
	printf 'outbox 0 10\noutbox 2 1\n' >"$BATS_TEST_TMPDIR/positions"
	reads 0 -v -X debug=fetch -t outbox -p 0-2 -e \
		-o "@$BATS_TEST_TMPDIR/positions" --first beginning
	[ "$(values | tr '\n' ' ')" = '2 3 4 5 ' ]
	jq -se '.[1].src | map(.[1:]) == [[0,10,10],[1,0,0],[2,1,1]]' "$dump"
	expect_message 'Fetch topic outbox [2] at offset 1'
	[[ $stderr != *'Fetch topic outbox [0]'* ]]
	[[ $stderr != *'Fetch topic outbox [1]'* ]]
}

@test "stored: nothing for the group is 78, --first says where" {
	refuses 78 'outbox: the group has nothing stored for it: wants --first beginning or --first end' \
		-t outbox -g first
	reads 0 -t outbox -g first --first end -e
	[ "$(starts)" = '[[0,10,"first"],[1,0,"first"],[2,5,"first"],[3,0,"first"]]' ]
	jq -se '.[0].group == "first" and .[-1].records == 0' "$dump"
	reads 0 -t outbox -g first --first beginning -e
	jq -se '.[-1].records == 15' "$dump"
	# It has committed nothing.
	refuses 78 'outbox: the group has nothing stored' -t outbox -g first
}

@test "stored: from there; a partition that has none is new, and is said" {
	commit some outbox:0=4 outbox:1-2=end
	reads 0 -t outbox -g some -e --first end
	[ "$(starts)" = '[[0,4,"stored"],[1,0,"stored"],[2,5,"stored"],[3,0,"first"]]' ]
	[ "$stderr" = 'outbox-read: notice: outbox[3]: nothing stored, others have: a new partition, from its beginning 0' ]
	[ "$(values | tr '\n' ' ')" = '5 6 7 8 9 10 ' ]
	# With -p alone the others are asked too: it is a new partition.
	reads 0 -t outbox -g some -e -p 3
	[ "$(starts)" = '[[3,0,"first"]]' ]
}

@test "@FILE: the lower of file and stored" {
	local file=$BATS_TEST_TMPDIR/positions
	commit file outbox:0=4 outbox:1=0 outbox:2=3
	printf 'outbox 0 2\noutbox\t2 5\r\n\nother 0 77\n' >"$file"
	reads 0 -t outbox -g file -o "@$file" -e
	[ "$(starts)" = '[[0,2,"file"],[1,0,"stored"],[2,3,"file"],[3,0,"first"]]' ]
	expect_message 'outbox[3]: nothing stored, others have'
	# Without a group the file alone counts.
	reads 0 -q -t outbox -o "@$file" -p 0,2 -e
	[ "$(starts)" = '[[0,2,"file"],[2,5,"file"]]' ]
}

@test "@FILE above 0 and nothing stored: 78, the topic was re-created" {
	local file=$BATS_TEST_TMPDIR/positions
	printf 'outbox 0 0\noutbox 2 5\nother 0 77\n' >"$file"
	refuses 78 "outbox[2]: $file has position 5, the group has nothing stored for the topic: the topic was re-created, or the group is new: offset-commit --set outbox=... says where to go on" \
		-t outbox -g recreated -o "@$file" -e
	# Also where only another partition is read.
	refuses 78 "outbox[2]: $file has position 5" \
		-t outbox -g recreated -o "@$file" -e -p 0
	reads 0 -q -t outbox -g recreated -o "@$file" -e --first beginning
	[ "$(starts)" = '[[0,0,"file"],[1,0,"first"],[2,5,"file"],[3,0,"first"]]' ]
	commit recreated outbox=0
	reads 0 -t outbox -g recreated -o "@$file" -e
	[ "$(starts)" = '[[0,0,"file"],[1,0,"stored"],[2,0,"file"],[3,0,"stored"]]' ]
	# A mark that hasn't moved can skip nothing.
	printf 'outbox 0 0\n' >"$file"
	reads 0 -q -t outbox -g new -o "@$file" -e
	[ "$(starts)" = '[[0,0,"file"],[1,0,"first"],[2,0,"first"],[3,0,"first"]]' ]
}

@test "@FILE that says nothing, and nothing stored: 78, or --first" {
	local file=$BATS_TEST_TMPDIR/positions
	: >"$file"
	refuses 78 "outbox: neither $file nor the group says where to start" \
		-t outbox -g fresh -o "@$file"
	reads 0 -t outbox -g fresh -o "@$file" --first end -e
	[ "$(starts)" = '[[0,10,"first"],[1,0,"first"],[2,5,"first"],[3,0,"first"]]' ]
}

@test "a start outside the log: 65 with the numbers" {
	refuses 65 'outbox[2]: offset out of range: start 6 (explicit), the log holds 0 to 5' \
		-t outbox -o 6 -p 0,2
	printf 'outbox 0 11\n' >"$BATS_TEST_TMPDIR/positions"
	refuses 65 'outbox[0]: offset out of range: start 11 (file), the log holds 0 to 10' \
		-t outbox -o "@$BATS_TEST_TMPDIR/positions" -p 0
}

# bats test_tags=slow
@test "TERM and INT: what was read goes out, then the end, 0" {
	local signal seconds pid count
	for signal in TERM INT; do
		# Until all of them were read.
		for seconds in 0.5 3 15; do
			rm -f "$out"
			# An interactive INT: a background job of bash ignores it.
			env --default-signal=INT outbox-read -b "$MOCK_BROKERS" \
				-t outbox -o beginning --batch-ms 60000 >"$out" 3>&- &
			pid=$!
			wait_until 10 test -s "$out"
			sleep "$seconds"
			kill "-$signal" "$pid"
			wait "$pid"
			count=$(stream-dump <"$out" | jq -s '.[-1] | select(.end).records')
			((count < 15)) || break
		done
		[ "$count" = 15 ]
	done
}

@test "told to stop before it could begin: 75, no stream" {
	local pid status=0
	outbox-read -b 127.0.0.1:1 -t outbox -o 0 >"$out" \
		2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	wait_until 10 has_handlers "$pid"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -q 'error: topic outbox: told to stop before an answer' \
		"$BATS_TEST_TMPDIR/err"
	[ ! -s "$out" ]
}

@test "the reader is gone: 75, at work and idle" {
	local err=$BATS_TEST_TMPDIR/err where
	for where in beginning end; do
		run -75 bash -c 'set -o pipefail; timeout 20 outbox-read -b "$1" \
			-t many -o "$2" 2>"$3" | head -c 100 >"$4"' - \
			"$MOCK_BROKERS" "$where" "$err" "$out"
		grep -qx 'outbox-read: error: output: the reader is gone' "$err"
	done
}

@test "a full disk: 74" {
	run -74 --separate-stderr bash -c \
		'outbox-read -b "$1" -t many -o 0 -e >/dev/full' - "$MOCK_BROKERS"
	expect_message 'outbox-read: error: write to fd 1: No space left on device'
}

@test "--check resolves the start and writes nothing" {
	reads 0 --check -t outbox -o 3 -p 0
	[ ! -s "$out" ]
	refuses 65 'outbox[1]: offset out of range' --check -t outbox -o 3
}

@test "-v says each start and each gap; -q no notice" {
	reads 0 -v -t outbox -o 3 -p 0 -e
	expect_message 'outbox-read: info: outbox[0]: from 3 (explicit), the log holds 0 to 10'
	commit quiet outbox:0=4
	reads 0 -q -t outbox -g quiet -e
	[ -z "$stderr" ]
}

# The last one: it has a mock of its own, which ends the others'.
@test "a group that may not be read: 77" {
	start_mock -t outbox:1 \
		--error offset-fetch=GROUP_AUTHORIZATION_FAILED:100
	refuses 77 'committed offsets of the group: Broker: Group authorization failed' \
		-t outbox -g g
}

@test "--batch-ms gathers for as long as it says" {
	local pid
	start_mock -t slow:1
	outbox-read -b "$MOCK_BROKERS" -t slow -o end --batch-ms 60000 -c 3 \
		>"$out" 3>&- &
	pid=$!
	wait_until 10 test -s "$out"
	for i in 1 2 3; do
		echo "$i" | kcat -P -b "$MOCK_BROKERS" -t slow -p 0
		sleep 0.3
	done
	wait "$pid"
	[ "$(stream-dump <"$out" | jq -c 'select(.batch == 2) | .rec | length')" = 3 ]
}
