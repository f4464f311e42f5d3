#!/usr/bin/env bats
# stream-tap: a stream comes out as it went in, and a copy of it is kept.

bats_require_minimum_version 1.5.0
load lib/common

golden() {
	echo "$BATS_TEST_DIRNAME/golden/$1"
}

# make_stream BATCHES [RUN]: records of various lengths, each third batch in
# parts.
make_stream() {
	python3 - "$@" <<'EOT' | stream-make
import json, sys
batches = int(sys.argv[1])
run = int((sys.argv + ["7"])[2])
print(json.dumps({"qim": 1, "minor": 0, "kind": "records", "from": "outbox-read",
    "run": run, "topic": "outbox", "group": "g", "start": [["outbox", 0, 5, "stored"]]}))
print(json.dumps({"batch": 1, "src": [["outbox", 0, 5, 5]], "at": [], "rec": []}))
offset = 5
for n in range(2, batches + 1):
    src = [["outbox", 0, offset, offset + 4]]
    rec = [[0, offset + i, 1, "k", "%d-" % n + "v" * (n * 37 % 400), None] for i in range(4)]
    offset += 4
    if n % 3:
        print(json.dumps({"batch": n, "src": src, "at": [], "rec": rec}))
        continue
    for part in 1, 2:
        print(json.dumps({"batch": n, "src": src, "at": [], "part": part, "more": part == 1,
            "rec": rec[2 * part - 2:2 * part]}))
print(json.dumps({"end": True, "batches": batches, "records": 4 * (batches - 1)}))
EOT
}

setup_file() {
	make_stream 300 >"$BATS_FILE_TMPDIR/stream"
	export stream=$BATS_FILE_TMPDIR/stream
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# parts FILE: it and the older ones, the oldest first.
parts() {
	find . -path "./$1.*" | sort -t . -k 3 -n -r
	echo "$1"
}

# slowly BYTES SECONDS: a reader that takes so much at a time.
slowly() {
	python3 -c '
import os, sys, time
while data := os.read(0, int(sys.argv[1])):
    os.write(1, data)
    time.sleep(float(sys.argv[2]))' "$@"
}

@test "each golden stream comes out byte for byte, and is in the file" {
	umask 000
	for file in "$BATS_TEST_DIRNAME"/golden/*.qim; do
		stream-tap copy <"$file" >out
		cmp out "$file"
		cmp copy "$file"
		[ "$(stat -c %a copy)" = 600 ]
	done
}

@test "one byte at a time gives the same output and the same files" {
	stream-tap --bytes 1024 whole <"$(golden dispatches.qim)" >/dev/null
	python3 -c '
import os, sys
for byte in open(sys.argv[1], "rb").read():
    os.write(1, bytes([byte]))' "$(golden dispatches.qim)" |
		stream-tap --bytes 1024 bytes >out
	cmp out "$(golden dispatches.qim)"
	cmp whole bytes
	cmp whole.1 bytes.1
	[ ! -e whole.2 ] && [ ! -e bytes.2 ]
}

@test "a slow reader, which takes little, gets all" {
	stream-tap --bytes 4096 copy <"$stream" | slowly 5000 0.01 | cmp - "$stream"
	stream-tap --join copy | stream-dump --part >/dev/null
}

# bats test_tags=slow
@test "files turn at a frame, each is read alone, joined they are the stream" {
	# Nor does a descriptor stay open of each.
	(ulimit -n 20 && exec stream-tap --bytes 10000 --files 999 copy) \
		<"$stream" | cmp - "$stream"
	[ "$(parts copy | wc -l)" -gt 20 ]
	for file in $(parts copy); do
		stream-dump --part --rec <"$file"
		[ "$(stat -c %s "$file")" -lt 12000 ]
		[ "$file" = copy ] || [ "$(stat -c %s "$file")" -ge 10000 ]
	done >records
	stream-dump --rec <"$stream" | cmp - records
	for file in $(parts copy); do
		[ "$(stream-dump --part <"$file" | head -n 1)" = \
			"$(stream-dump <"$stream" | head -n 1)" ]
		stream-dump --part <"$file" | tail -n +2
	done | cmp - <(stream-dump <"$stream" | tail -n +2)
	stream-tap --join copy | cmp - "$stream"
	# Some file begins within a batch, or this says little.
	for file in $(parts copy); do
		stream-dump --part <"$file" | sed -n 2p | jq .part
	done | grep -qx 2
}

@test "the oldest goes, and the rest is a part of the stream" {
	stream-tap --bytes 10000 --files 3 copy <"$stream" >/dev/null
	[ "$(parts copy | xargs)" = './copy.2 ./copy.1 copy' ]
	stream-tap --join copy >joined
	stream-dump --part --rec <joined >records
	[ "$(wc -l <records)" -gt 50 ]
	stream-dump --rec <"$stream" | tail -n "$(wc -l <records)" | cmp - records
	run -65 stream-dump <joined
	expect_message 'input: batch '
	stream-tap --bytes 10000 --files 1 copy <"$stream" >/dev/null
	[ "$(parts copy)" = copy ]
	run -0 stream-dump --part <copy
	[ "${lines[-1]}" = "$(stream-dump <"$stream" | tail -n 1)" ]
}

@test "a part is checked like a stream from where it begins" {
	stream-dump <"$stream" | sed '2,9d' | stream-make >part
	stream-dump --part <part >/dev/null
	stream-dump <"$stream" | sed '2,9d;11d' | stream-make >part
	run -65 stream-dump --part <part
	expect_message 'input: batch 9, wants 8'
	stream-dump <"$stream" | sed '2,9d;$s/300/301/' | stream-make >part
	run -65 stream-dump --part <part
	expect_message 'input: end of 301 batches'
	stream-dump <"$stream" | sed '2,9d;11s/"outbox",0,[0-9]*,/"outbox",0,1,/' |
		stream-make >part
	run -65 stream-dump --part <part
	expect_message 'input: outbox[0]: offsets 1 to '
	run -75 stream-dump --part </dev/null
	expect_message 'before the hello'
	run -75 bash -c 'head -c 300 "$1" | stream-dump --part' _ "$stream"
	expect_message 'torn: it ends inside the frame'
}

@test "torn is handed on as torn: 75, and the copy is what came" {
	local bytes cut seen=''
	bytes=$(stat -c %s "$(golden receipts.qim)")
	for ((cut = 0; cut < bytes; cut += 31)); do
		rm -f copy
		head -c "$cut" "$(golden receipts.qim)" >in
		run -75 bash -c 'stream-tap copy <in >out'
		cmp in out
		seen+=$output
		[ ! -e copy ] || cmp in copy
	done
	[[ $seen == *'stream-tap: error: input: torn: it ends before the hello'* ]]
	[[ $seen == *'stream-tap: error: input: torn: it ends inside the frame at byte 0'* ]]
	[[ $seen == *'stream-tap: error: input: torn: it ends inside the frame at byte '[1-9]* ]]
	stream-dump <"$(golden receipts.qim)" | sed '$d' | stream-make >in
	run -75 bash -c 'stream-tap copy <in | cmp - in; exit "${PIPESTATUS[0]}"'
	expect_message 'stream-tap: error: input: torn: it ends without an end frame'
}

@test "garbage is handed on and ends the copy with a frame: 65" {
	head -c 100000 /dev/zero | tr '\0' 'x' >garbage
	stream-dump <"$(golden receipts.qim)" | sed '$d' | stream-make >begin
	cat begin garbage >in
	run -65 bash -c 'stream-tap copy <in >out'
	[ "${#lines[@]}" -eq 2 ]
	[ "${lines[0]}" = "stream-tap: warning: input: frame at byte $(stat -c %s begin): starts with 0x78, wants a msgpack bin (0xc4 to 0xc6): not a qim stream: handed on from there, not copied" ]
	[[ ${lines[1]} == 'stream-tap: error: input: frame at byte '* ]]
	cmp in out
	cmp begin copy
	# A length that can't be shows with its last byte.
	printf '\xc6\xff\xff\xff\xff' | cat begin - garbage >in
	run -65 bash -c 'slowly() { while IFS= read -r -d "" -n 1 c; do printf %s "$c"; done; }
		{ head -c -100003 in; sleep 0.3; tail -c 100003 in; } | stream-tap copy >out'
	expect_message 'length 4294967295, wants 3 to 16777216'
	cmp in out
	cmp begin copy
	cat "$(golden small.qim)" begin >in
	run -65 bash -c 'stream-tap copy <in | cmp - in; exit "${PIPESTATUS[0]}"'
	expect_message 'stream-tap: error: input: a frame after the end'
	cmp copy "$(golden small.qim)"
}

@test "a damaged frame is handed on and copied: the next stage finds it" {
	stream-make --flip 5000 <"$(golden records.jsonl)" >in
	run -65 bash -c 'stream-tap copy <in | stream-dump'
	expect_message 'checksum'
	run ! expect_message 'stream-tap'
	cmp in copy
}

@test "a full disk: one warning, the stream goes on, the copy ends whole" {
	run -0 unshare -rm bash -c '
		mkdir disk && mount -t tmpfs -o size=40k none disk || exit 1
		stream-tap --bytes 20000 disk/copy <"$1" 2>err | cmp - "$1" || exit
		[ "${PIPESTATUS[0]}" -eq 0 ] || exit
		for file in disk/copy*; do
			stream-dump --part <"$file" >/dev/null || exit
		done
		stream-tap --join disk/copy >joined
		[ $? -eq 75 ] && cmp -n "$(stat -c %s joined)" joined "$1" && cat err >&2' _ "$stream"
	[ "$(grep -c . <<<"$output")" -eq 2 ]
	[[ ${lines[0]} == 'stream-tap: error: input: torn: it ends without an end frame' ||
		${lines[0]} == 'stream-tap: warning: '* ]]
	[[ $output == *'stream-tap: warning: disk/copy'*': No space left on device: the copy stops before byte '[1-9]* ]]
}

@test "a folder that goes: one warning, the stream goes on" {
	mkdir folder
	mkfifo pipe
	stream-tap --bytes 1024 folder/copy <pipe >out 2>err 3>&- &
	exec 6>pipe
	head -c 3000 "$stream" >&6
	wait_until 10 test -e folder/copy
	head -c 3000 "$stream" >begin
	wait_until 10 cmp begin out
	rm -r folder
	tail -c +3001 "$stream" >&6
	exec 6>&-
	wait "$!"
	cmp out "$stream"
	[ "$(wc -l <err)" -eq 1 ]
	grep -q '^stream-tap: warning: folder/copy.new: No such file or directory: the copy stops before byte [1-9]' err
}

@test "a reader that has gone: 75, and what it died of is in the copy" {
	run -75 to_nobody stream-tap copy <"$stream"
	expect_message 'stream-tap: error: output: the reader is gone'
	[ "$(stat -c %s copy)" -gt 100000 ]
	cmp -n "$(stat -c %s copy)" copy "$stream"
	# Also while nothing comes.
	mkfifo pipe
	head -c 1000 "$stream" >in
	run -75 bash -c 'exec 6<>pipe; cat in >&6
		timeout -s KILL 20 stream-tap copy <pipe | head -c 1000 >out; exit "${PIPESTATUS[0]}"'
	cmp in copy
}

@test "an earlier run's copy moves up, and isn't joined with this one's" {
	make_stream 50 8 >other
	stream-tap --bytes 10000 copy <other >/dev/null
	stream-tap --bytes 10000 copy <"$(golden small.qim)" >/dev/null
	stream-tap --bytes 20000 --files 999 copy <"$stream" >/dev/null
	[ "$(stream-dump --part <copy.1 | head -n 1 | jq .run)" -eq 7 ]
	stream-tap --join copy | cmp - "$stream"
	ls copy.* >before
	# A run that gives no hello moves nothing.
	run -75 stream-tap copy </dev/null
	ls copy.* | cmp - before
	stream-tap --join copy | cmp - "$stream"
}

@test "files that can't be: 66, and nothing has happened to them" {
	mkfifo fifo
	ln -s none link
	mkdir folder
	for file in fifo link folder /dev/null; do
		run -66 stream-tap "$file" <"$stream"
		expect_message "stream-tap: error: $file: not a regular file"
	done
	[ -c /dev/null ] && [ -p fifo ] && [ -L link ]
	run -66 stream-tap none/copy <"$stream"
	expect_message 'stream-tap: error: none: No such file or directory'
	run -66 stream-tap --check none/copy <"$stream"
	run -0 stream-tap --check copy <"$stream"
	[ ! -e copy ]
	run -64 stream-tap
	expect_message 'stream-tap: error: file: missing'
}

@test "--join: no file 66, no whole hello 75, not a stream 65" {
	run -66 stream-tap --join copy
	expect_message 'stream-tap: error: copy: No such file or directory'
	head -c 3 "$stream" >copy
	run -75 stream-tap --join copy
	expect_message 'stream-tap: error: copy: torn: no whole hello'
	head -c 50 "$stream" >copy
	run -75 stream-tap --join copy
	expect_message 'stream-tap: error: copy: torn: no whole hello'
	echo hello >copy
	run -65 stream-tap --join copy
	expect_message 'stream-tap: error: copy: input: frame at byte 0: starts with 0x68'
}

@test "a terminal as output is refused: 64" {
	run -64 script -qec 'stream-tap copy <"$stream"' /dev/null
	expect_message "stream-tap: error: output: a terminal can't show a stream"
}

@test "TERM and INT: it reads on; a second one ends it: 75" {
	mkfifo pipe
	stream-tap copy <pipe >out 3>&- &
	exec 6>pipe
	head -c 1000 "$stream" >&6
	wait_until 10 test -s out
	kill -INT "$!"
	sleep 0.2
	tail -c +1001 "$stream" >&6
	exec 6>&-
	wait "$!"
	cmp out "$stream"
	stream-tap copy <pipe >out 2>err 3>&- &
	exec 6>pipe
	head -c 1000 "$stream" >&6
	wait_until 10 test -s out
	kill -INT "$!"
	sleep 0.2
	kill -TERM "$!"
	status=0
	wait "$!" || status=$? # run is a subshell, and it not its child
	[ "$status" -eq 75 ]
	grep -qx 'stream-tap: error: abandoned: second signal' err
}

@test "within a chain it changes nothing" {
	stream-tap a <"$(golden records.qim)" | fanout-plan --dead-letter dead |
		stream-tap b | stream-dump --rec >tapped
	fanout-plan --dead-letter dead <"$(golden records.qim)" | stream-dump --rec | cmp - tapped
	cmp a "$(golden records.qim)"
	stream-dump --rec <b | cmp - tapped
}

# bats test_tags=slow
@test "memory doesn't grow with the stream or its frames" {
	/usr/bin/python3 -c '
import sys, msgpack
def put(map):
    sys.stdout.buffer.write(msgpack.packb(msgpack.packb([None, map])))
put({"qim": 1, "minor": 0, "kind": "records", "from": "x", "run": 1, "topic": "t",
     "group": None, "start": [["t", 0, 0, "first"]]})
for n in range(12):
    put({"batch": n + 1, "src": [["t", 0, n, n + 1]] if n else [["t", 0, 0, 1]], "at": [],
         "rec": [[0, n, 1, None, b"x" * (15 << 20), None]]})
put({"end": True, "batches": 12, "records": 12})' >in
	run -0 bash -c '/usr/bin/time -f %M stream-tap --files 2 copy <in 2>rss | cmp - in; exit "${PIPESTATUS[0]}"'
	[[ $QIM_BIN == */asan/* ]] || [ "$(cat rss)" -lt 9000 ]
}
