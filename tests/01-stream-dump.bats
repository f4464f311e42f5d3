#!/usr/bin/env bats
# stream-dump: any stream as JSON lines.

bats_require_minimum_version 1.5.0
load lib/common

golden() {
	echo "$BATS_TEST_DIRNAME/golden/$1"
}

@test "the golden streams print as they always have" {
	for stream in "$BATS_TEST_DIRNAME"/golden/*.qim; do
		stream-dump <"$stream" | cmp - "${stream%.qim}.jsonl"
	done
}

@test "--rec prints records alone, whatever batches they stand in" {
	stream-dump --rec <"$(golden records.qim)" >"$BATS_TEST_TMPDIR/out"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/out")" -eq 5 ]
	run -0 jq -c '.src' "$BATS_TEST_TMPDIR/out"
	[ "${lines[1]}" = '["outbox",0,8]' ]
	[ "${lines[3]}" = '["outbox",0,9]' ]
	run -0 jq -c 'select(.src[2] == 0) | [.key, .value, .headers]' \
		"$BATS_TEST_TMPDIR/out"
	[ "$output" = '[null,{"base64":"/wA="},[]]' ]
}

@test "-d shows what JSON and msgpack inside a value say" {
	run -0 bash -c 'stream-dump -d --rec <"$1" | jq -r .value.payload.text?' \
		_ "$(golden records.qim)"
	[ "${lines[0]}" = hello ]
}

@test "--time prints the steps of each batch, its parts as one" {
	run -0 stream-dump --time <"$(golden receipts.qim)"
	[ "${#lines[@]}" -eq 2 ]
	[ "$(jq -c '.steps_us[2:]' <<<"${lines[1]}")" = \
		'[["dispatch-produce","enqueue",800,100],["dispatch-produce","acks",900,3000]]' ]
	run -0 stream-dump --time <"$(golden records.qim)"
	[ "${#lines[@]}" -eq 4 ]
	[ "$(jq .records <<<"${lines[3]}")" -eq 2 ]
}

@test "--rec with --time is refused: 64" {
	run -64 stream-dump --rec --time </dev/null
	expect_message 'stream-dump: error: --rec, --time: one or the other'
}

@test "what came before the damage is shown, then 65" {
	run -65 --separate-stderr bash -c \
		'stream-make --flip 5000 <"$1" | stream-dump' _ \
		"$(golden records.jsonl)"
	[ "${#lines[@]}" -eq 2 ]
	expect_message 'stream-dump: error: input: frame at byte 196: checksum'
}

@test "a torn stream is 75, at every byte" {
	local bytes
	bytes=$(stat -c %s "$(golden receipts.qim)")
	for ((cut = 0; cut < bytes; cut += 23)); do
		run -75 bash -c 'head -c "$1" "$2" | stream-dump' _ "$cut" \
			"$(golden receipts.qim)"
		expect_message 'torn'
	done
}

@test "text, a stream after a stream, another version" {
	run -65 stream-dump <<<'{"qim":1}'
	expect_message 'starts with 0x7b, wants a msgpack bin (0xc4 to 0xc6): not a qim stream'
	run -65 bash -c 'cat "$1" "$1" | stream-dump' _ "$(golden records.qim)"
	expect_message 'input: a frame after the end'
	run -76 bash -c 'echo "{\"qim\":2}" | stream-make | stream-dump'
	expect_message 'input: stream version 2, wants 1'
}

@test "hostile lengths and counts allocate nothing: under 200 MB" {
	# The address sanitizer maps terabytes before main().
	[[ $QIM_BIN == */asan/* ]] || ulimit -v 200000
	run -65 stream-dump < <(printf '\xc6\xff\xff\xff\xff\x92')
	expect_message 'length 4294967295, wants 3 to 16777216'
	run -65 stream-dump < <(printf '\xc4\x05\xdd\xff\x00\x00\x00')
	expect_message '4278190080 declared at 5, 0 bytes left'
	run -75 stream-dump < <(printf '\xc6\x01\x00\x00\x00\x92')
	run -65 stream-dump < <(printf '\xc4\x23\x92\xc0%s\xc0' \
		"$(printf '\x91%.0s' {1..32})")
	expect_message 'nested deeper than 32'
	run -65 stream-dump < <(printf '\xc4\x04\x92\xc0\x80\x80')
	expect_message '1 bytes left over after 3'
}

@test "one byte at a time" {
	stream-make --dribble <"$(golden records.jsonl)" | stream-dump |
		cmp - "$(golden records.jsonl)"
}

@test "a reader that is gone is 75, a full disk 74" {
	run -75 --separate-stderr to_nobody stream-dump <"$(golden records.qim)"
	expect_message 'stream-dump: error: output: the reader is gone'
	run -74 bash -c 'stream-dump <"$1" >/dev/full' _ "$(golden records.qim)"
	expect_message 'stream-dump: error: write to fd 1: No space left on device'
}

@test "a filter without a hash may leave it out" {
	stream-make --unchecked <"$(golden records.jsonl)" |
		stream-dump | cmp - "$(golden records.jsonl)"
}

@test "the hex dump of qim-stream(5) is that of the golden small stream" {
	diff <(grep '^000' "$qim_root/man/qim-stream.5" | sed 's/\\e/\\/g') \
		<(xxd "$(golden small.qim)")
}

# python_example NUMBER: one of the Python programs of qim-stream(5).
python_example() {
	awk -v want="$1" '/^import sys, msgpack/ { n++ } /^\.Ed/ { if (n == want) exit }
		n == want' "$qim_root/man/qim-stream.5" >"$BATS_TEST_TMPDIR/example.py"
}

@test "the Python filter of qim-stream(5) works behind outbox-read" {
	python_example 1
	run -0 bash -c '/usr/bin/python3 "$1" <"$2" | stream-dump --rec' _ \
		"$BATS_TEST_TMPDIR/example.py" "$(golden records.qim)"
	[ "${#lines[@]}" -eq 4 ]
}

@test "the Python stage of qim-stream(5) makes dispatches" {
	python_example 2
	run -0 bash -c '/usr/bin/python3 "$1" <"$2" | stream-dump --rec |
		jq -c "[.src[2], .topic, .partition, .key, .headers]"' _ \
		"$BATS_TEST_TMPDIR/example.py" "$(golden records.qim)"
	[ "${#lines[@]}" -eq 5 ]
	[ "${lines[1]}" = '[8,null,-1,"c1",[["trace","abc"],["empty",""],["nil",null]]]' ]
}

@test "names that aren't text are shown as what they are" {
	sed -e 's/"outbox"/{"str64":"b\/8="}/g' -e 's/"at":\[\[/"x":1,"at":[[/' \
		"$(golden small.jsonl)" >"$BATS_TEST_TMPDIR/in"
	stream-make <"$BATS_TEST_TMPDIR/in" | stream-dump | cmp - "$BATS_TEST_TMPDIR/in"
	sed 's/"outbox"/{"str64":"b\/8="}/g' "$(golden records.jsonl)" | stream-make |
		stream-dump --rec | grep -qF '{"src":[{"str64":"b/8="},0,5]'
}

# bats test_tags=slow
@test "memory that runs out is 71, not bad data" {
	[[ $QIM_BIN != */asan/* ]] || return 0
	python3 -c 'import json; print(json.dumps({"qim":1,"kind":"records","from":"x",
"run":1,"topic":"t","start":[["t",i,0,"x"] for i in range(100000)]}))' |
		stream-make >"$BATS_TEST_TMPDIR/in"
	local room seen=''
	for ((room = 7000; room < 20000; room += 500)); do
		run bash -c 'ulimit -v "$1"; exec stream-dump <"$2" 2>&1 >/dev/null' _ \
			"$room" "$BATS_TEST_TMPDIR/in"
		# 127: not even the libraries had room; 75: a stream without an end.
		[[ $status == 7[15] || $status == 127 ]] || fail "$room: $status $output"
		[[ $status != 71 ]] || seen+=$output
	done
	[[ $seen == *'out of memory'* ]]
}

@test "a second signal ends it at once, also where stderr takes nothing" {
	run -0 python3 - <<'EOF'
import os, signal, subprocess, time, fcntl
full = os.pipe()
fcntl.fcntl(full[1], fcntl.F_SETFL, os.O_NONBLOCK)
try:
    while True: os.write(full[1], b"x" * 4096)
except BlockingIOError: pass
fcntl.fcntl(full[1], fcntl.F_SETFL, 0)
p = subprocess.Popen(["stream-dump"], stdin=subprocess.PIPE, stderr=full[1])
while "SigCgt" not in open(f"/proc/{p.pid}/status").read() or not int(
        [l for l in open(f"/proc/{p.pid}/status") if l.startswith("SigCgt")][0].split()[1], 16) >> 14 & 1:
    time.sleep(0.01)
p.send_signal(signal.SIGTERM); time.sleep(0.2); assert p.poll() is None
p.send_signal(signal.SIGINT) # two of one signal may be one
assert p.wait(30) == 75
EOF
}

@test "a stream isn't written to a terminal: 64" {
	run -64 script -qec 'stream-dump -V >/dev/null; fanout-plan <'"$(golden records.qim)" /dev/null
	expect_message "fanout-plan: error: output: a terminal can't show a stream: pipe it to the next stage or to stream-dump"
}

@test "more records in a frame than any stage keeps room for: 65" {
	python3 -c 'print("{\"qim\":1,\"kind\":\"records\",\"from\":\"x\",\"run\":1,\"topic\":\"t\",\"start\":[[\"t\",0,0,\"x\"]]}")
print("{\"batch\":1,\"src\":[[\"t\",0,0,200000]],\"rec\":[" + ",".join(["null"] * 100001) + "]}")' |
		stream-make >"$BATS_TEST_TMPDIR/in"
	run -65 --separate-stderr stream-dump <"$BATS_TEST_TMPDIR/in"
	expect_message 'input: batch 1: 100001 records in a frame, the limit is 100000'
}
