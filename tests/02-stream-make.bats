#!/usr/bin/env bats
# stream-make: JSON lines back into a stream, and damage on purpose.

bats_require_minimum_version 1.5.0
load lib/common

golden() {
	echo "$BATS_TEST_DIRNAME/golden/$1"
}

@test "the golden streams are made byte for byte" {
	for stream in "$BATS_TEST_DIRNAME"/golden/*.qim; do
		stream-make <"${stream%.qim}.jsonl" | cmp - "$stream"
	done
}

@test "--flip changes just one bit, --cut ends the stream there" {
	stream-make --flip 803 <"$(golden records.jsonl)" >"$BATS_TEST_TMPDIR/out"
	run -1 cmp -l "$BATS_TEST_TMPDIR/out" "$(golden records.qim)"
	[ "${#lines[@]}" -eq 1 ]
	[[ "$output" =~ ^\ *101\  ]]
	stream-make --cut 300 <"$(golden records.jsonl)" >"$BATS_TEST_TMPDIR/out"
	cmp "$BATS_TEST_TMPDIR/out" <(head -c 300 "$(golden records.qim)")
}

@test "raw bytes stand between the frames" {
	run -0 bash -c 'echo "{\"raw\":\"aGVsbG8=\"}" | stream-make'
	[ "$output" = hello ]
}

@test "what isn't a frame is refused with its line: 65" {
	run -65 stream-make < <(printf '{"a":1}\n[1]\n')
	expect_message 'stream-make: error: line 2: not a JSON object'
	run -65 stream-make <<<'{"a":1'
	expect_message 'stream-make: error: line 1: '
	run -65 stream-make <<<'{"a":1,"a":2}'
	expect_message 'duplicate object key'
	run -65 stream-make <<<'{"a":{"base64":"*"}}'
	expect_message "line 1: a value that can't be packed"
	run -65 stream-make <<<'{"raw":"*"}'
	expect_message 'line 1: raw: not base64'
}

@test "a number that isn't one is refused: 64" {
	run -64 stream-make --flip x </dev/null
	expect_message "stream-make: error: --flip: 'x': wants a number from 0"
	run -64 stream-make --cut -1 </dev/null
}
