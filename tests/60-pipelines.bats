#!/usr/bin/env bats
# The supervisor: both chains with stages of our own making, for statuses and
# signals, and with the real ones on the mock broker and Redis.

bats_require_minimum_version 1.5.0
load lib/common
load lib/redis

fanout=$qim_root/pipelines/fanout
mailbox=$qim_root/pipelines/mailbox
stages="outbox-read fanout-plan dispatch-produce offset-commit"

teardown_file() {
	stop_mock
}

# The chain with least options; QIM_BIN decides whose stages run.
fan() {
	"$fanout" -b localhost:1 -t outbox -d dispatch -g group "$@"
}

# fake NAME BODY: a stage that answers --check and -V, notes its pid and
# arguments in $notes, then runs BODY in bash.
fake() {
	cat >"$QIM_BIN/$1" <<-EOF
		#!/bin/bash
		[[ " \$* " != *" --check "* ]] || exit 0
		[[ \$1 != -V ]] || { echo "$1 (qim) 1.2.3"; exit; }
		echo \$\$ >"$notes/$1.pid"
		printf '%s\n' "\$@" >"$notes/$1.args"
		$2
	EOF
	chmod +x "$QIM_BIN/$1"
}

# A chain that runs until it is told to stop, and passes bytes on.
fake_chain() {
	local name
	notes=$BATS_TEST_TMPDIR/notes
	QIM_BIN=$BATS_TEST_TMPDIR/bin
	mkdir -p "$QIM_BIN" "$notes"
	fake outbox-read 'trap "stop=1" TERM
		while [[ -z ${stop-} ]]; do echo line || exit 75; sleep 0.05; done
		echo end'
	for name in fanout-plan dispatch-produce mailbox-apply; do
		fake "$name" 'trap "" TERM; exec cat'
	done
	fake offset-commit 'trap "" TERM; exec cat'
}

# A chain whose first stage ends by itself.
short_chain() {
	fake_chain
	fake outbox-read 'echo line; echo end'
}

# start command...: in the background, with its own stderr; sets `supervisor`.
start() {
	"$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	supervisor=$!
}

# expect_end STATUS: of what start() started.
expect_end() {
	local status=0
	wait "$supervisor" || status=$?
	[ "$status" = "$1" ] ||
		fail "exit $status, not $1: $(<"$BATS_TEST_TMPDIR/err")"
}

started() {
	local name
	for name; do
		[[ -s $notes/$name.pid ]] || return
	done
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

@test "wrong options: 64, one line" {
	fake_chain
	run -64 --separate-stderr "$fanout"
	[ "$stderr" = 'qim-fanout: error: -b: missing' ]
	run -64 --separate-stderr "$mailbox" -b x -t t -g g
	[ "$stderr" = 'qim-mailbox: error: -r: missing' ]
	run -64 --separate-stderr fan --nothing
	[ "$stderr" = 'qim-fanout: error: --nothing: unknown option, see -h' ]
	run -64 --separate-stderr fan -z
	[ "$stderr" = 'qim-fanout: error: -z: unknown option, see -h' ]
	run -64 --separate-stderr fan -o
	[ "$stderr" = 'qim-fanout: error: -o: wants a value' ]
	run -64 --separate-stderr fan -o ''
	[ "$stderr" = 'qim-fanout: error: -o: empty' ]
	run -64 --separate-stderr fan -qv
	[ "$stderr" = 'qim-fanout: error: -q, -v: one or the other' ]
	run -64 --separate-stderr fan $'a\nb\\\xc3\xa4'
	[ "$stderr" = "qim-fanout: error: 'a\\x0ab\\x5c\\xc3\\xa4': unexpected operand" ]
	run -64 --separate-stderr fan --stage outbox-read
	[ "$stderr" = "qim-fanout: error: --stage: 'outbox-read': wants name=argument" ]
	run -64 --separate-stderr fan --stage mailbox-apply=-e
	[ "$stderr" = "qim-fanout: error: --stage: 'mailbox-apply': the stages are $stages" ]
	run -64 --separate-stderr fan --tap offset-commit=file
	[ "$stderr" = "qim-fanout: error: --tap: 'offset-commit': its output isn't a stream" ]
	[ ! -e "$notes/outbox-read.pid" ]
}

@test "-h, -V" {
	run -0 "$fanout" -h
	[[ $output == 'usage: qim-fanout [-hqVv] '* ]]
	run -0 "$fanout" --help
	fake_chain
	run -0 "$mailbox" -V
	[ "$output" = 'qim-mailbox (qim) 1.2.3' ]
}

@test "each stage gets the options that it has, as they were given" {
	short_chain
	run -0 "$fanout" -bbroker:1 -t outbox --tap "fanout-plan=/dev/null" \
		-d dispatch -g group -X a=1 -F file -X 'b= 2' -n32 -o 17 \
		--lock-dir /locks \
		--first=end --dead-letter dead --connect-ms 500 -q \
		--stage outbox-read=--batch --stage=outbox-read='7 8'
	[ "$(tr '\n' '|' <"$notes/outbox-read.args")" = '-b|broker:1|-t|outbox|-g|group|-X|a=1|-F|file|-X|b= 2|-o|17|--first|end|-q|--connect-ms|500|--batch|7 8|--with-parent|' ]
	[ "$(tr '\n' ' ' <"$notes/fanout-plan.args")" = '-n 32 --dead-letter dead -q --connect-ms 500 --with-parent ' ]
	[ "$(tr '\n' '|' <"$notes/dispatch-produce.args")" = '-b|broker:1|-X|a=1|-F|file|-X|b= 2|--dead-letter|dead|-t|dispatch|-q|--connect-ms|500|--with-parent|' ]
	[ "$(tr '\n' '|' <"$notes/offset-commit.args")" = '-b|broker:1|-g|group|-X|a=1|-F|file|-X|b= 2|--lock-dir|/locks|-q|--connect-ms|500|--with-parent|' ]
}

@test "all stages end well: 0, and -v has a line for each" {
	short_chain
	run -0 --separate-stderr fan -v
	[ "$output" = $'line\nend' ]
	for name in $stages; do
		pid=$(<"$notes/$name.pid")
		grep -qx "qim-fanout: info: $name: pid $pid: started" <<<"$stderr"
		grep -qx "qim-fanout: info: $name: pid $pid: exit 0" <<<"$stderr"
	done
	run -0 --separate-stderr fan --once
	[ -z "$stderr" ]
}

@test "the first cause is named, its code is the chain's" {
	short_chain
	for code in 64 65 66 69 70 71 74 75 76 77 78 3; do
		fake dispatch-produce "cat >/dev/null; exit $code"
		fake offset-commit 'cat >/dev/null; exit 75'
		run "-$code" --separate-stderr fan
		[[ $stderr == "qim-fanout: error: dispatch-produce: exit $code: "* ]]
		[ "${#stderr_lines[@]}" = 1 ]
	done
}

@test "75 and SIGPIPE are what a neighbour's death does: the hard one counts" {
	fake_chain
	fake fanout-plan 'exit 75'
	fake dispatch-produce 'sleep 0.5; exit 65'
	fake offset-commit 'cat >/dev/null; exit 75'
	run -65 --separate-stderr fan
	[ "$stderr" = 'qim-fanout: error: dispatch-produce: exit 65: bad data' ]
	# Of the soft ones the first, where they are far enough apart to be seen.
	fake outbox-read 'while echo line; do sleep 2; done; exit 75'
	fake fanout-plan 'sleep 1; exit 75'
	fake dispatch-produce 'exec cat'
	fake offset-commit 'cat >/dev/null; sleep 0.5; exit 75'
	run -75 --separate-stderr fan
	echo "$stderr"
	[ "$stderr" = 'qim-fanout: error: fanout-plan: exit 75: temporary failure, start again' ]
	fake fanout-plan 'sleep 1; kill -PIPE $$'
	run -75 --separate-stderr fan
	[[ $stderr == 'qim-fanout: error: fanout-plan: killed by signal 13 (PIPE)' ]]
}

@test "killed by a signal: 75, and 70 for what only a bug does" {
	short_chain
	for signal in KILL TERM HUP; do
		fake fanout-plan "kill -$signal \$\$"
		run -75 --separate-stderr fan
		[[ $stderr == "qim-fanout: error: fanout-plan: killed by signal "*" ($signal)" ]]
	done
	for signal in SEGV ABRT BUS; do
		fake fanout-plan "ulimit -c 0; kill -$signal \$\$"
		run -70 --separate-stderr fan
		[[ $stderr == "qim-fanout: error: fanout-plan: killed by signal "*" ($signal)" ]]
	done
}

@test "a stage that ends stops a chain that has nothing to do" {
	fake_chain
	fake outbox-read 'trap "exit 0" TERM; while :; do sleep 0.05; done'
	fake offset-commit 'exit 77'
	run -77 --separate-stderr timeout 20 "$fanout" \
		-b x -t outbox -d dispatch -g group
	[ "$stderr" = 'qim-fanout: error: offset-commit: exit 77: not authorised' ]
}

@test "a first stage that our own TERM kills, as it starts, isn't the cause" {
	fake_chain
	fake outbox-read 'exec sleep 60'
	fake fanout-plan 'sleep 0.3; exit 75'
	run -75 --separate-stderr fan
	echo "$stderr"
	[ "$stderr" = 'qim-fanout: error: fanout-plan: exit 75: temporary failure, start again' ]
	fake dispatch-produce 'cat >/dev/null; exit 65'
	run -65 --separate-stderr fan
}

@test "each process has its own ends of the pipes only, and sees their end" {
	short_chain
	for name in fanout-plan dispatch-produce; do
		fake "$name" "ls -l /proc/\$\$/fd >'$notes/$name.fds'; exec cat"
	done
	run -0 fan --tap outbox-read=/dev/null --tap fanout-plan=/dev/null
	[ "$output" = $'line\nend' ]
	for name in fanout-plan dispatch-produce; do
		cat "$notes/$name.fds"
		[ "$(grep -c 'tmp\..*(deleted)' "$notes/$name.fds")" = 2 ]
		grep -q ' 0 -> .*(deleted)' "$notes/$name.fds"
		grep -q ' 1 -> .*(deleted)' "$notes/$name.fds"
	done
}

@test "stages have a session each, and no signal ignored that the caller ignores" {
	short_chain
	fake fanout-plan "cat /proc/self/status >'$notes/status'
		ps -o sid= -p \$\$ >'$notes/sid'; exec cat"
	run -0 bash -c 'trap "" PIPE INT QUIT; exec "$@"' bash \
		"$fanout" -b x -t outbox -d dispatch -g group
	# INT, QUIT and PIPE; whatever else the tests' caller ignores.
	(((0x$(sed -n 's/^SigIgn:\t//p' "$notes/status") & 0x1006) == 0))
	[ "$(tr -d ' ' <"$notes/sid")" = "$(<"$notes/fanout-plan.pid")" ]
}

@test "TERM, and INT, stop the first stage alone: what is under way drains, 0" {
	fake_chain
	for signal in TERM INT; do
		rm -f "$notes"/*
		start env --default-signal=INT "$fanout" \
			-b x -t outbox -d dispatch -g group
		wait_until 10 started $stages
		wait_until 10 test -s "$BATS_TEST_TMPDIR/out"
		kill "-$signal" "$supervisor"
		expect_end 0
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/out")" = end ]
		[ ! -s "$BATS_TEST_TMPDIR/err" ]
	done
}

@test "a second signal abandons: 75" {
	fake_chain
	cat >"$QIM_BIN/offset-commit" <<-EOF
		#!/usr/bin/python3 -ES
		import os, signal, sys
		count = 0
		def handle(*_):
		    global count
		    count += 1
		    if count == 2:
		        os._exit(75)
		signal.signal(signal.SIGTERM, handle)
		signal.signal(signal.SIGINT, handle)
		open("$notes/offset-commit.pid", "w").write(str(os.getpid()))
		while True:
		    signal.pause()
	EOF
	start "$fanout" -b x -t outbox -d dispatch -g group
	wait_until 10 started $stages
	kill "$supervisor"
	wait_until 10 gone "$(<"$notes/dispatch-produce.pid")"
	kill "$supervisor"
	expect_end 75
	[ "$(<"$BATS_TEST_TMPDIR/err")" = "qim-fanout: error: abandoned: second signal: what isn't acknowledged is done again" ]
}

@test "a program that isn't there, or can't be started: 78" {
	fake_chain
	rm "$QIM_BIN/dispatch-produce"
	cp -R "$qim_root/pipelines" "$BATS_TEST_TMPDIR/alone"
	run -78 --separate-stderr env PATH=/usr/bin:/bin \
		"$BATS_TEST_TMPDIR/alone/fanout" -b x -t outbox -d dispatch -g group
	[ "$stderr" = 'qim-fanout: error: dispatch-produce: no such program in $QIM_BIN, beside qim-fanout or in $PATH' ]
	[ ! -e "$notes/outbox-read.pid" ]
	echo '#!/nowhere' >"$QIM_BIN/dispatch-produce"
	chmod +x "$QIM_BIN/dispatch-produce"
	run -78 --separate-stderr fan
	expect_message "qim-fanout: error: dispatch-produce: exit 127: $QIM_BIN/dispatch-produce can't be started"
}

@test "installed, the scripts find their library and their programs" {
	short_chain
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/bin" "$root/libexec/qim" "$root/link"
	cp "$fanout" "$root/bin/qim-fanout"
	cp "$qim_root"/pipelines/*.bash "$root/libexec/qim"
	cp "$QIM_BIN"/* "$root/bin"
	ln -s ../bin/qim-fanout "$root/link/fan"
	run -0 env -u QIM_BIN "$root/link/fan" -b x -t outbox -d dispatch -g g
	[ "$output" = $'line\nend' ]
}

@test "a tap is a copy of the stage's bytes; several are several" {
	fake_chain
	head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/bytes"
	fake outbox-read "exec cat '$BATS_TEST_TMPDIR/bytes'"
	fan --tap "outbox-read=$BATS_TEST_TMPDIR/one" \
		--tap "outbox-read=$BATS_TEST_TMPDIR/two" \
		--tap "dispatch-produce=$BATS_TEST_TMPDIR/three" \
		>"$BATS_TEST_TMPDIR/out"
	for copy in one two three out; do
		cmp "$BATS_TEST_TMPDIR/bytes" "$BATS_TEST_TMPDIR/$copy"
	done
}

@test "a tap that can't be written: 66 before the start, 74 later; data flow on" {
	short_chain
	run -66 --separate-stderr fan --tap outbox-read=/no/such/file
	[ "$stderr" = "qim-fanout: error: --tap: '/no/such/file': can't be written" ]
	run -66 fan --tap "outbox-read=$BATS_TEST_TMPDIR"
	[ ! -e "$notes/outbox-read.pid" ]
	run -74 --separate-stderr fan --tap outbox-read=/dev/full
	[ "$output" = $'line\nend' ]
	expect_message "qim-fanout: error: tap of outbox-read: exit 1: /dev/full isn't whole"
}

@test "a tap that is killed: the chain ends, 75" {
	fake_chain
	start "$fanout" -v -b x -t outbox -d dispatch -g group \
		--tap "fanout-plan=$BATS_TEST_TMPDIR/tap"
	wait_until 10 started $stages
	pid=$(sed -n 's/.*tap of fanout-plan: pid \([0-9]*\): started/\1/p' \
		"$BATS_TEST_TMPDIR/err")
	kill -9 "$pid"
	expect_end 75
	grep -qx 'qim-fanout: error: tap of fanout-plan: killed by signal 9 (KILL)' \
		"$BATS_TEST_TMPDIR/err"
}

@test "--check asks every stage, starts none, and gives the first refusal" {
	fake_chain
	run -0 --separate-stderr fan --check --tap "outbox-read=$BATS_TEST_TMPDIR/t"
	[ -z "$output$stderr" ]
	[ ! -e "$notes/outbox-read.pid" ]
	[ ! -e "$BATS_TEST_TMPDIR/t" ]
	for name in dispatch-produce offset-commit; do
		printf '#!/bin/bash\necho "%s: error: no" >&2\nexit 77\n' "$name" \
			>"$QIM_BIN/$name"
	done
	run -77 --separate-stderr fan --check
	[ "$stderr" = $'dispatch-produce: error: no\nqim-fanout: error: dispatch-produce: exit 77: not authorised' ]
}

@test "the mailbox chain starts at the marks, from a file without a name" {
	fake_chain
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
	fake mailbox-read "ls '$TMPDIR' >'$notes/before'; echo dispatch 0 17"
	fake outbox-read 'cat /dev/stdin'
	run -0 "$mailbox" -b x -t dispatch -g group -r unix:/redis -n 8 --prefix p \
		--user u --password-file f --connect-ms 900 --lock-dir=/locks
	[ "$output" = 'dispatch 0 17' ]
	[ "$(tr '\n' ' ' <"$notes/mailbox-read.args")" = '--connect-ms 900 -r unix:/redis -n 8 --prefix p --user u --password-file f positions -t dispatch ' ]
	[ "$(tr '\n' ' ' <"$notes/mailbox-apply.args")" = '-r unix:/redis -n 8 --prefix p --user u --password-file f --connect-ms 900 --with-parent ' ]
	[ "$(tr '\n' ' ' <"$notes/outbox-read.args")" = '-b x -t dispatch -g group --connect-ms 900 -o @/dev/stdin --with-parent ' ]
	[ "$(tr '\n' ' ' <"$notes/offset-commit.args")" = '-b x -g group --lock-dir /locks --connect-ms 900 --with-parent ' ]
	[ -z "$(ls "$TMPDIR")" ]
	rm "$notes/outbox-read.pid"
	fake mailbox-read 'exit 69'
	run -69 --separate-stderr "$mailbox" -b x -t dispatch -g group -r unix:/redis
	[ "$stderr" = 'qim-mailbox: error: mailbox-read: exit 69: no marks to start at' ]
	[ ! -e "$notes/outbox-read.pid" ]
	[ -z "$(ls "$TMPDIR")" ]
}

# ---- with the real programs ----

need_servers() {
	need_redis
	start_mock -t outbox:4 -t dispatch:8
}

# message N CONVERSATION SEQ: to ann, bob and eve.
message() {
	printf '{"message_id":"m%s","conversation_id":"%s","conversation_seq":%s,"sender":"ann","created_at":%s,"payload":{"text":"%s"},"recipients":["ann","bob","eve"]}\n' \
		"$1" "$2" "$3" "$((1000 + $1))" "text $1"
}

messages() {
	local i
	for ((i = 1; i <= 60; i++)); do
		message "$i" "c$((i % 3))" "$(((i + 2) / 3))"
	done
}

boxes() {
	local user
	for user in ann bob eve; do
		mailbox-read -r "$redis" -n 8 --prefix "$prefix" box -u "$user" \
			-c 1000
	done
}

has_entries() {
	[ "$(boxes | wc -l)" = "$1" ]
}

start_both() {
	"$fanout" -b "$MOCK_BROKERS" -t outbox -d dispatch -g fanout -n 8 \
		--first beginning "$@" 2>"$BATS_TEST_TMPDIR/fanout.err" 3>&- &
	fanout_pid=$!
	start_mailbox
}

start_mailbox() {
	"$mailbox" -v -b "$MOCK_BROKERS" -t dispatch -g mailbox -n 8 \
		-r "$redis" --prefix "$prefix" \
		2>"$BATS_TEST_TMPDIR/mailbox.err" 3>&- &
	mailbox_pid=$!
}

@test "messages go through both chains; after a loss the mailbox chain rewinds" {
	need_servers
	redis=unix:$REDIS_SOCKET prefix=$(unique rewind)
	messages | outbox-write -b "$MOCK_BROKERS" -t outbox
	start_both
	wait_until 20 has_entries 180
	boxes >"$BATS_TEST_TMPDIR/first"
	kill "$fanout_pid" "$mailbox_pid"
	wait "$fanout_pid"
	wait "$mailbox_pid"
	redis-cli -s "$REDIS_SOCKET" --scan --pattern "$prefix:*" |
		xargs redis-cli -s "$REDIS_SOCKET" DEL
	has_entries 0
	start_mailbox
	wait_until 20 has_entries 180
	kill "$mailbox_pid"
	wait "$mailbox_pid"
	boxes | cmp - "$BATS_TEST_TMPDIR/first"
}

@test "kill -9 of a supervisor: its stages end by themselves" {
	need_servers
	redis=unix:$REDIS_SOCKET prefix=$(unique killed)
	messages | outbox-write -b "$MOCK_BROKERS" -t outbox
	start_both
	wait_until 20 has_entries 180
	mapfile -t pids < <(pgrep -P "$mailbox_pid")
	[ "${#pids[@]}" = 3 ]
	kill -9 "$mailbox_pid"
	for pid in "${pids[@]}"; do
		wait_until 20 gone "$pid"
	done
	kill "$fanout_pid"
	wait "$fanout_pid"
}

@test "a second chain with the group on this host: 78, the first goes on" {
	need_servers
	redis=unix:$REDIS_SOCKET prefix=$(unique second)
	start_both --lock-dir "$BATS_TEST_TMPDIR/locks"
	messages | head -n 30 | outbox-write -b "$MOCK_BROKERS" -t outbox
	wait_until 20 has_entries 90
	run -78 --separate-stderr "$fanout" -b "$MOCK_BROKERS" -t outbox \
		-d dispatch -g fanout -n 8 --first beginning \
		--lock-dir "$BATS_TEST_TMPDIR/locks"
	expect_message "offset-commit: error: outbox[0]: locked by pid $(pgrep -P "$fanout_pid" -x offset-commit): it commits for this group already: $BATS_TEST_TMPDIR/locks/fanout:outbox:"
	expect_message 'qim-fanout: error: offset-commit: exit 78'
	messages | tail -n 30 | outbox-write -b "$MOCK_BROKERS" -t outbox
	wait_until 20 has_entries 180
	kill "$fanout_pid" "$mailbox_pid"
	wait "$fanout_pid"
	wait "$mailbox_pid"
}

@test "a wrong order of stages is refused: 76" {
	need_servers
	cat >"$BATS_TEST_TMPDIR/chain" <<-EOF
		set -u
		chain_name=wrong chain_synopsis=usage chain_here=$QIM_BIN
		source "$qim_root/pipelines/chain.bash"
		chain_add outbox-read -b "$MOCK_BROKERS" -t outbox -g g -e --first beginning
		chain_add offset-commit -b "$MOCK_BROKERS" -g g
		chain_ready
		chain_run
	EOF
	run -76 --separate-stderr bash "$BATS_TEST_TMPDIR/chain"
	expect_message 'wrong: error: offset-commit: exit 76: wrong kind of stream'
}

@test "one topic for two purposes: 78, before anything is started" {
	for options in '-t a -d a' '-t a -d b --dead-letter a' '-t a -d b --dead-letter b'; do
		# shellcheck disable=SC2086
		run -78 "$fanout" -b x -g g $options
		expect_message "both are topic '"
	done
}
