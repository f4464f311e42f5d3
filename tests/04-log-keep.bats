#!/usr/bin/env bats
# log-keep: what the stages say, whole, bounded, and without making them wait.

bats_require_minimum_version 1.5.0
load lib/common

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkdir log last
}

# keep TEXT ARG...: what printf makes of TEXT comes from descriptor 5.
keep() {
	local text=$1
	shift
	# shellcheck disable=SC2059  # a format, for its escapes
	printf "$text" >in
	run --separate-stderr log-keep "$@" 5<in
}

# start_log FILE ARG...: one that reads what this shell writes to descriptor 6, and
# has put a first line into FILE; $! is its pid.
start_log() {
	[[ -p pipe ]] || mkfifo pipe
	log-keep "${@:2}" a=5 2>err 5<pipe 3>&- &
	exec 6>pipe
	echo 'x: info: 1' >&6
	wait_until 10 grep -q 'info: 1' "$1"
}

@test "lines go to stderr, those of no program with their name in front" {
	keep 'outbox-read: notice: hi\nAbort: no reason\n' a=5
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ "$stderr" = $'outbox-read: notice: hi\na: Abort: no reason' ]
	for level in error warning notice info; do
		keep "x: $level: y\n" a=5
		[ "$stderr" = "x: $level: y" ]
	done
	for text in 'x: fatal: y' ' x: error: y' ': error: y' 'x: error:y' 'x y: error: z'; do
		keep "$text" a=5
		[ "$stderr" = "a: $text" ]
	done
}

@test "control bytes are masked, the escapes of a masked line stay" {
	keep 'x: info: \\x0a \033[31m\r\a\xc3\xa4\0tail\n' a=5
	[ "$stderr" = 'x: info: \x0a \x1b[31m\x0d\x07\xc3\xa4\x00tail' ]
}

@test "long lines are cut, empty ones pass, the last needs no newline" {
	printf -v long '%02048d' 0
	keep "${long}y\n\nz" a=5
	[ "${stderr_lines[0]}" = "a: $long" ]
	[ "$stderr" = "a: $long"$'\na: \na: z' ]
	keep "${long}${long}${long}y\nz\n" a=5
	[ "$stderr" = "a: $long"$'\na: z' ]
}

@test "several descriptors at once, each to its end" {
	seq -f 'a: info: %g' 5000 >a
	seq -f 'b: info: %g' 5000 >b
	log-keep a=5 b=6 5< <(cat a) 6< <(cat b) 2>out
	grep '^a' out | cmp - a
	grep '^b' out | cmp - b
}

@test "--dir: the time in front, in UTC; others append to current by name" {
	TZ=Asia/Tokyo keep 'x: info: 1\ny\n' --dir log a=5
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	echo theirs >>log/current
	keep 'x: info: 2\n' --dir log a=5
	grep -cE '^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\.[0-9]{3}Z (x|a): ' log/current | grep -qx 3
	run cut -d ' ' -f 2- log/current
	[ "$output" = $'x: info: 1\na: y\ntheirs\nx: info: 2' ]
	local written
	written=$(date -u -d "$(head -n 1 log/current | cut -d ' ' -f 1)" +%s)
	(($(date +%s) - written < 600 && written <= $(date +%s)))
}

@test "current is rotated by size, and nothing is lost until the oldest goes" {
	seq -f 'x: info: %05g' 1000 >in
	log-keep --dir log --bytes 4096 --files 999 a=5 5<in
	[ "$(ls log | wc -l)" -gt 9 ]
	for file in log/*; do
		[ "$(stat -c %s "$file")" -le 4096 ]
	done
	ls log | sort -t . -k 2 -n -r | (cd log && xargs cat) |
		cut -d ' ' -f 2- | cmp - in
	log-keep --dir log --bytes 4096 --files 3 a=5 5<in
	# Those of more files go too.
	[ "$(ls log | xargs)" = 'current current.1 current.2' ]
	cat log/current.{2,1} log/current | cut -d ' ' -f 2- >kept
	tail -n "$(wc -l <kept)" in | cmp - kept
	rm log/*
	log-keep --dir log --bytes 4096 --files 1 a=5 5<in
	[ "$(ls log)" = current ]
	[ "$(tail -n 1 log/current | cut -d ' ' -f 2-)" = 'x: info: 01000' ]
}

@test "a folder has one at a time: a second one is refused, and reads nothing" {
	start_log log/current --dir log
	echo stale >last/b.last
	echo 'y: info: 1' >in
	exec 5<in
	for folder in log "$PWD/last/../log"; do
		run -78 log-keep --dir "$folder" --last-dir last b=5
		[ "$output" = "log-keep: error: --dir: $folder: locked: another log-keep writes into it already" ]
	done
	[ "$(cat last/b.last)" = stale ]
	[ "$(cat <&5)" = 'y: info: 1' ]
	[ "$(wc -l <log/current)" = 1 ]
	# However the first one ends.
	kill -KILL "$!"
	wait "$!" || true
	keep 'y: info: 2\n' --dir log b=5
	[ "$status" -eq 0 ]
	grep -q 'y: info: 2' log/current
	exec 5<&- 6>&-
}

@test "a folder that can't be locked is written to, and a line says so" {
	echo 'x: info: 1' >in
	ASAN_OPTIONS=detect_leaks=0 run -0 --separate-stderr strace -o /dev/null \
		-e inject=flock:error=EBADF log-keep --dir log a=5 5<in
	[ "$stderr" = "log-keep: warning: --dir: log: can't be locked: Bad file descriptor" ]
	grep -q 'info: 1' log/current
}

@test "a current that was moved away, or with its folder, is begun anew" {
	start_log log/current --dir log
	mv log/current log/moved
	echo 'x: info: 2' >&6
	wait_until 10 grep -q 'info: 2' log/current
	rm -r log
	mkdir log
	echo 'x: info: 3' >&6
	wait_until 10 grep -q 'info: 3' log/current
	exec 6>&-
	wait "$!"
}

@test "a full disk: lines go to stderr, and to the folder again after it" {
	run -0 unshare -rm bash -c '
		mount -t tmpfs -o size=16k none log && mkfifo pipe || exit 1
		log-keep --dir log a=5 2>err 5<pipe 3>&- &
		exec 6>pipe
		seq -f "x: info: %05g" 1000 >&6
		until grep -q 01000 err; do sleep 0.05; done
		: >log/current
		seq -f "x: info: %05g" 1001 1002 >&6
		until grep -q 01002 log/current; do sleep 0.05; done
		exec 6>&-
		wait "$!"
		cat log/current; cat err >&2'
	# shellcheck disable=SC2154
	[[ $output == *'log-keep: warning: log/current: No space left on device: lines go to stderr'* ]]
	[[ $output == *'log-keep: warning: log/current: written again: '[1-9]*' lines went to stderr'* ]]
	[ "$(grep -c 'warning' <<<"$output")" -eq 2 ]
	[ "$(grep -o 'info: 0100[0-2]$' <<<"$output" | sort | tr '\n' ' ')" = \
		'info: 01000 info: 01001 info: 01002 ' ]
}

@test "a line that was cut by a full disk doesn't swallow the next one" {
	run -0 unshare -rm bash -c '
		mount -t tmpfs -o size=8k none log && mkfifo pipe || exit 1
		head -c 8150 /dev/zero | tr "\0" "\n" >log/current
		log-keep --dir log a=5 2>err 5<pipe 3>&- &
		exec 6>pipe
		echo "x: info: this one is too long for what is left" >&6
		until grep -q "too long" err; do sleep 0.05; done
		mount -o remount,size=64k log
		echo "x: info: next" >&6
		until grep -q next log/current; do sleep 0.05; done
		exec 6>&-
		wait "$!"
		tail -n 1 log/current'
	[[ $output =~ ^20[^\ ]*Z\ x:\ info:\ next$ ]]
}

@test "--last-dir: the last line of each, whole, and none of an earlier run" {
	echo stale | tee last/a.last last/b.last last/c.last >/dev/null
	log-keep --last-dir last a=5 b=6 5< <(printf 'x: info: 1\nx: error: 2\n\n') \
		6</dev/null 2>/dev/null
	[ "$(cat last/a.last)" = 'x: error: 2' ]
	[ "$(ls last | xargs)" = 'a.last c.last' ]
	keep 'Abort\033' --dir log --last-dir last a=5
	[ "$(cat last/a.last)" = 'Abort\x1b' ]
}

@test "a last line is there while other stages go on" {
	mkfifo pipe
	log-keep --last-dir last a=5 b=6 5<<<'x: error: why' 6<pipe 2>/dev/null 3>&- &
	exec 7>pipe
	wait_until 10 grep -qx 'x: error: why' last/a.last
	exec 7>&-
	wait "$!"
}

@test "a last line that can't be left is told, and the rest goes on" {
	mkdir last/a.last
	run -66 log-keep --last-dir last a=5 5</dev/null
	rmdir last/a.last
	mkfifo pipe
	log-keep --last-dir last a=5 2>err 5<pipe 3>&- &
	exec 6>pipe
	echo 'x: error: 1' >&6
	wait_until 10 grep -q 'error: 1' err
	rmdir last
	exec 6>&-
	wait "$!"
	grep -q '^log-keep: warning: last/a.last.new: No such file' err
}

@test "a last line that a full disk cuts isn't left" {
	run -0 unshare -rm bash -c '
		mount -t tmpfs -o size=4k none last && head -c 4096 /dev/zero >last/full || exit 1
		log-keep --last-dir last a=5 5<<<"x: error: why" && ls last | xargs'
	expect_message 'log-keep: warning: last/a.last.new: write to fd '
	[ "${lines[-1]}" = full ]
}

# bats test_tags=slow
@test "a blocked stderr makes no stage wait: dropped lines are counted" {
	run -0 python3 - <<'EOT'
import os, subprocess
lines = 200000
err = os.pipe()
r, w = os.pipe()
p = subprocess.Popen(["log-keep", f"a={r}"], stderr=err[1], pass_fds=[r])
os.close(err[1]); os.close(r)
# 2 MB, though nobody reads what it says: this would block for good.
for i in range(0, lines, 100):
    os.write(w, b"".join(b"x: info: %06d\n" % k for k in range(i, i + 100)))
data = os.read(err[0], 1 << 16)
while data.count(b"\n") < 10000:
    data += os.read(err[0], 1 << 16)
os.write(w, b"x: info: last\n")
os.close(w)
while more := os.read(err[0], 1 << 16):
    data += more
assert p.wait(20) == 0
got = data.decode().splitlines()
told = [l for l in got if l.startswith("log-keep: warning: ")]
assert told, got[-3:]
dropped = sum(int(l.split()[2]) for l in told)
seen = [l for l in got if l.startswith("x: info: ")]
assert len(seen) + len(told) == len(got)
assert len(seen) + dropped == lines + 1, (len(seen), dropped)
assert seen[-1] == "x: info: last" and dropped > 100000
assert seen[:-1] == sorted(seen[:-1])
EOT
}

@test "its stderr stays as it was for those who share it" {
	run -0 python3 - <<'EOT'
import fcntl, os, subprocess
r, w = os.pipe()
subprocess.run(["bash", "-c", "log-keep a=5 5<<<x"], stderr=w, check=True)
assert fcntl.fcntl(w, fcntl.F_GETFL) & os.O_NONBLOCK == 0
assert os.read(r, 10) == b"a: x\n"
EOT
}

@test "a reader of its stderr that has gone changes nothing" {
	run -0 bash -c 'exec 2> >(true); sleep 0.2; seq 10000 |
		log-keep --last-dir last a=5 5<&0'
	[ "$(cat last/a.last)" = 10000 ]
}

@test "TERM and INT: it reads on until the end; a second one abandons: 75" {
	start_log err --last-dir last
	kill -TERM "$!"
	sleep 0.2
	for text in torn killed; do
		echo "x: error: $text" >&6
		wait_until 10 grep -q "error: $text" err
	done
	exec 6>&-
	wait "$!"
	[ "$(cat last/a.last)" = 'x: error: killed' ]
	start_log err
	kill -INT "$!"
	sleep 0.2
	kill -TERM "$!"
	status=0
	wait "$!" || status=$? # run is a subshell, and it not its child
	[ "$status" -eq 75 ]
	grep -qx 'log-keep: error: abandoned: second signal' err
}

@test "with its parent gone it still reads to the end" {
	mkfifo pipe
	bash -c 'log-keep --with-parent --last-dir last a=5 2>err 5<pipe & wait' 3>&- &
	exec 6>pipe
	echo 'x: info: 1' >&6
	wait_until 10 grep -q 'info: 1' err
	kill -KILL "$!"
	sleep 0.2
	echo 'x: error: after' >&6
	exec 6>&-
	wait_until 10 grep -qx 'x: error: after' last/a.last
}

@test "descriptors and names that can't be: 64, 66" {
	run -64 log-keep
	expect_message 'log-keep: error: name=fd: missing'
	for word in a =5 .a=5 a/b=5 "$(printf '%065d' 1)=5" 'a b=5'; do
		run -64 log-keep "$word" 5</dev/null
		expect_message "log-keep: error: '$word': wants name=fd"
	done
	for fd in '' x 2 -1; do
		run -64 log-keep "a=$fd"
		expect_message "log-keep: error: a: '$fd': wants a number from 3"
	done
	run -64 log-keep a=5 a=6 5</dev/null 6</dev/null
	expect_message "log-keep: error: 'a': the name stands twice"
	run -64 log-keep a=5 b=5 5</dev/null
	expect_message "log-keep: error: 'b': fd 5 is that of 'a'"
	run -66 log-keep a=77
	expect_message "log-keep: error: 'a': fd 77: Bad file descriptor"
	run -66 log-keep a=5 5>/dev/null
	expect_message "log-keep: error: 'a': fd 5: not open for reading"
}

@test "folders that can't be: 66; a fifo as current isn't waited for" {
	touch file
	for option in --dir --last-dir; do
		run -66 log-keep "$option" none a=5 5</dev/null
		expect_message "log-keep: error: $option: none: No such file or directory"
		run -66 log-keep "$option" file a=5 5</dev/null
		expect_message "log-keep: error: $option: file: Not a directory"
	done
	mkfifo log/current
	keep 'x: info: 1\n' --dir log a=5
	[ "$status" -eq 0 ]
	[[ $stderr == *'log/current: '*': lines go to stderr'*'x: info: 1' ]]
}

@test "a descriptor that can't be read: the others are, then 74" {
	run -74 --separate-stderr log-keep a=5 b=6 5<. 6<<<y
	[ "${stderr_lines[0]}" = 'log-keep: warning: a: read of fd 5: Is a directory' ]
	[ "${stderr_lines[1]}" = 'b: y' ]
}

@test "--check looks and writes nothing" {
	echo stale >last/a.last
	keep 'x\n' --check --dir log --last-dir last a=5
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(cat last/a.last)" = stale ]
	[ -z "$(ls log)" ]
}

# bats test_tags=slow
@test "memory stays bounded, whatever comes" {
	run -0 bash -c 'head -c 300M /dev/zero | tr "\0" x |
		/usr/bin/time -f %M log-keep a=5 5<&0 2>&1 | tail -n 1'
	[[ $QIM_BIN == */asan/* ]] || [ "$output" -lt 12000 ]
}
