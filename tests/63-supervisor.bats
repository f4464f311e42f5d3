#!/usr/bin/env bats
# The supervisor: what it does when a run has ended, on signals, and what is
# left when it or one of its processes is killed. Stages are of our own making
# but where their own way of ending is looked at.

# shellcheck disable=SC2016,SC2034,SC2046,SC2154  # stages are scripts; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes

quick=(--back-off 1-2)

setup() {
	supervisor=
	fake_chain
}

# Nothing of ours runs on, whatever happened.
teardown() {
	local pid
	[[ -z $supervisor ]] || kill -9 "$supervisor" 2>/dev/null || true
	for pid in $(left_over "$supervisor"); do
		kill -9 "$pid" 2>/dev/null || true
	done
}

# runs NAME COUNT: so many of this stage have been started.
runs() {
	[ "$(wc -l <"$notes/$1.pids")" -ge "$2" ]
}

# left_over PID: processes that a supervisor of this pid has started, and
# others of this test's chain.
left_over() {
	grep -lzx "QIM_SUPERVISOR=${1:-none}" /proc/[0-9]*/environ 2>/dev/null |
		cut -d / -f 3
	pgrep -f -- "$locks" || true
}

nothing_left() {
	local pids
	pids=$(left_over "$1")
	[[ -z $pids ]] || fail "$(ps -o pid,ppid,stat,args -p "${pids//$'\n'/,}")"
}

# child NAME: the pid of a process of the supervisor.
child() {
	pgrep -P "$supervisor" -f "$1" | tail -n 1
}

has_status() {
	local status=0 out
	out=$(fan --status) || status=$?
	[[ $out == "qim-fanout: $1"* && $status == "$2" ]] ||
		fail "status $status: $out"
}

# The supervisor's own functions, with a clock of ours.
judge() {
	(
		chain_name=x chain_kind=x chain_synopsis=x chain_here=/ chain_values=
		source "$qim_root/pipelines/chain.bash"
		eval "$1"
	)
}

# bats test_tags=slow
@test "which codes start again, which stop" {
	for code in 69 71 74 75; do
		[ "$(judge "class_of $code")" = again ]
	done
	for code in 1 3 64 65 66 67 68 70 72 73 76 77 78 79 100; do
		[ "$(judge "class_of $code")" = stop ]
	done
	[ "$(judge 'class_of 0')" = "done" ]
}

# bats test_tags=slow
@test "what may pass: it starts again, and gives up" {
	fake outbox-read 'echo end'
	for how in 'exit 69' 'kill -KILL $$'; do
		code=69 what='exit 69: not reachable'
		[[ $how == exit* ]] || code=75 what='killed by signal 9 \(KILL\)'
		rm -f "$notes"/*
		fake dispatch-produce "cat >/dev/null
			echo 'dispatch-produce: error: why' >&2; $how"
		run "-$code" --separate-stderr fan "${quick[@]}" --give-up 2/60
		runs dispatch-produce 2
		pid=$(head -n 1 "$notes/dispatch-produce.pids")
		grep -qE "^qim-fanout: warning: dispatch-produce: pid $pid: $what, its last line: \"dispatch-produce: error: why\"; start again in 0\.00[0-9] s \(death 1 of 2 in 60 s\)$" <<<"$stderr"
		expect_message 'qim-fanout: error: gave up: 2 deaths in 60 s'
	done
}

# bats test_tags=slow
@test "what wants a person: it stops at once, and says what to do" {
	fake outbox-read 'echo end'
	for code in 65 78 3; do
		rm -f "$notes"/*
		fake fanout-plan "cat >/dev/null; exit $code"
		run "-$code" --separate-stderr fan "${quick[@]}"
		[ "$(wc -l <"$notes/fanout-plan.pids")" = 1 ]
		expect_message "qim-fanout: error: fanout-plan: pid $(pid_of fanout-plan): exit $code"
		expect_message 'qim-fanout: error: stopped: '
	done
	expect_message 'stopped: 3 is not a code of these programs'
}

@test "0: the first stage came to its end, and so does the supervisor" {
	fake outbox-read 'echo end'
	run -0 fan "${quick[@]}"
	[ "$(wc -l <"$notes/outbox-read.pids")" = 1 ]
}

@test "a crash is tried again twice: then 70" {
	fake outbox-read 'echo end'
	fake fanout-plan 'ulimit -c 0; kill -SEGV $$'
	run -70 --separate-stderr fan "${quick[@]}"
	[ "$(wc -l <"$notes/fanout-plan.pids")" = 3 ]
	expect_message 'killed by signal 11 (SEGV)'
	expect_message 'qim-fanout: error: stopped: a bug'
}

# bats test_tags=slow
@test "the wait doubles up to its most, each between half and one and a half" {
	fake outbox-read 'exit 69'
	run -69 --separate-stderr fan --back-off 8-30 --give-up 5/60
	mapfile -t waits < <(sed -n 's/.*start again in 0\.0*\([0-9]*\) s .*/\1/p' <<<"$stderr")
	echo "${waits[@]}"
	[ "${#waits[@]}" = 4 ]
	i=0
	for wait in 8 16 30 30; do
		((waits[i] >= wait / 2 && waits[i] <= wait * 3 / 2))
		i=$((i + 1))
	done
}

# bats test_tags=slow
@test "a run that lived a minute, or was ready for ten seconds, worked" {
	while read -r ready ready_ms now expected; do
		[ "$(judge "run_ms=1000 ready=${ready#no} ready_ms=$ready_ms
			uptime_ms=$now; worked_well && echo yes || echo no")" = "$expected" ] ||
			fail "$ready $ready_ms $now"
	done <<-EOF
		no 2000 60999 no
		no 2000 61000 yes
		no 60000 61000 yes
		1 2000 11999 no
		1 2000 12000 yes
		1 60000 60999 no
		1 60000 61000 yes
	EOF
}

@test "who reads that it is ready finds it in the state" {
	[[ $(judge 'state_set() { state=$1; }; say() { echo "$2, state $state"; }
		run=1 phase=running run_ms=0
		became_ready') == 'ready: run 1, '*', state ready' ]]
}

@test "deaths before the window don't count" {
	[ "$(judge 'window_ms=1000 deaths=(100 5000 5001 5900) uptime_ms=6000
		within deaths; echo "${deaths[@]}"')" = '5001 5900 6000' ]
}

# bats test_tags=slow
@test "TERM, and INT, stop the first stage alone: what is under way drains, 0" {
	fake_ready
	for signal in TERM INT; do
		rm -f "$notes"/*
		start env --default-signal=INT "$fanout" --lock-dir "$locks" \
			-b x -t outbox -d dispatch -g group
		wait_until 10 said 'qim-fanout: notice: ready: run 1, '
		wait_until 10 test -s "$BATS_TEST_TMPDIR/out"
		kill "-$signal" "$supervisor"
		expect_end 0
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/out")" = end ]
		[ "$(wc -l <"$BATS_TEST_TMPDIR/err")" = 2 ]
		wait_until 5 nothing_left "$supervisor"
	done
}

# A stage that takes two signals as ours do, and drains when $notes/go is there.
fake_slow() {
	cat >"$QIM_BIN/$1" <<-EOF
		#!/usr/bin/python3 -ES
		import os, signal, sys, time
		count = 0
		def handle(*_):
		    global count
		    count += 1
		    if count == 2:
		        os._exit(75)
		signal.signal(signal.SIGTERM, handle)
		signal.signal(signal.SIGINT, handle)
		open("$notes/$1.pid", "w").write(str(os.getpid()))
		while not os.path.exists("$notes/go"):
		    time.sleep(0.02)
	EOF
}

@test "a second signal abandons: 75" {
	fake_slow offset-commit
	start_fan
	wait_until 10 started $stages
	kill "$supervisor"
	wait_until 10 gone "$(pid_of dispatch-produce)"
	kill "$supervisor"
	expect_end 75
	[ "$(tail -n +2 "$BATS_TEST_TMPDIR/err")" = "qim-fanout: error: abandoned: second signal: what isn't acknowledged is done again" ]
	wait_until 5 nothing_left "$supervisor"
}

@test "what has not drained in time is abandoned: 75" {
	fake_slow offset-commit
	start_fan --drain-ms 100
	wait_until 10 started $stages
	kill "$supervisor"
	expect_end 75
	[ "$(tail -n +2 "$BATS_TEST_TMPDIR/err")" = "qim-fanout: error: abandoned: not drained within 100 ms: what isn't acknowledged is done again" ]
}

# bats test_tags=slow
@test "a stopped stage of a broken chain is killed, and the chain started again" {
	start_fan --drain-ms 50 "${quick[@]}"
	wait_until 10 started $stages
	stopped=$(pid_of offset-commit)
	kill -STOP "$stopped"
	kill -9 "$(pid_of fanout-plan)"
	wait_until 20 runs offset-commit 2
	gone "$stopped"
	wait_until 10 said "fanout-plan: pid $(head -n 1 "$notes/fanout-plan.pids"): killed by signal 9 (KILL); start again"
}

@test "TERM while it waits to start again: it ends at once, 0" {
	fake outbox-read 'exit 69'
	start_fan --back-off 60000-60000
	wait_until 10 said '; start again in '
	has_status 'waiting to start again' 75
	kill "$supervisor"
	expect_end 0
	wait_until 5 nothing_left "$supervisor"
	has_status 'not running: ended with 0' 69
}

@test "HUP: the file is read again, the chain drains and goes on" {
	printf '%s\n' brokers=x outbox=outbox dispatch=one fanout.group=group \
		"lock-dir=$locks" >"$BATS_TEST_TMPDIR/conf"
	fake_ready
	start "$fanout" -f "$BATS_TEST_TMPDIR/conf"
	wait_until 10 said 'ready: run 1'
	sed -i s/one/two/ "$BATS_TEST_TMPDIR/conf"
	kill -HUP "$supervisor"
	wait_until 10 said 'ready: run 2'
	grep -qx two "$notes/dispatch-produce.args"
	grep -qx end "$BATS_TEST_TMPDIR/out"
	# What is refused changes nothing, nor does another chain's name.
	echo 'nonsense' >>"$BATS_TEST_TMPDIR/conf"
	kill -HUP "$supervisor"
	wait_until 10 said "qim-fanout: error: $BATS_TEST_TMPDIR/conf:6: 'nonsense': wants name=value"
	wait_until 10 said "HUP: $BATS_TEST_TMPDIR/conf is refused: goes on as before"
	sed -i 's/nonsense/fanout.partitions=0-3/' "$BATS_TEST_TMPDIR/conf"
	kill -HUP "$supervisor"
	wait_until 10 said 'group, partitions or lock-dir differ'
	[ "$(wc -l <"$notes/outbox-read.pids")" = 2 ]
	rm "$BATS_TEST_TMPDIR/conf"
	kill -HUP "$supervisor"
	wait_until 10 said "can't be read"
	kill "$supervisor"
	expect_end 0
	run ! grep -q 'death' "$BATS_TEST_TMPDIR/err"
}

@test "a death while a HUP drains is said, and counts" {
	fake_ready
	fake outbox-read 'trap "stop=1" TERM; echo line
		while [[ -z ${stop-} || ! -e '"$notes"'/go ]]; do sleep 0.05; done'
	start_fan "${quick[@]}"
	wait_until 10 said 'ready: run 1'
	kill -HUP "$supervisor"
	wait_until 10 has_status 'draining for ' 75
	killed=$(pid_of fanout-plan)
	kill -9 "$killed"
	touch "$notes/go"
	wait_until 10 said "qim-fanout: warning: fanout-plan: pid $killed: killed by signal 9 (KILL); start again at once, as HUP asked"
	wait_until 10 said 'ready: run 2'
	kill -9 "$(pid_of fanout-plan)"
	wait_until 10 said '(death 2 of '
}

# fake_check NAME BODY: what the stage does on --check.
fake_check() {
	echo "$2" >"$notes/$1.check"
	sed -i "1a [[ \" \$* \" != *' --check '* ]] || exec bash '$notes/$1.check' \"\$@\"" "$QIM_BIN/$1"
}

@test "HUP: what a stage refuses changes nothing, and checks stop nothing" {
	conf=$BATS_TEST_TMPDIR/conf
	mkdir "$BATS_TEST_TMPDIR/log"
	printf '%s\n' brokers=x outbox=outbox dispatch=d fanout.group=group \
		"lock-dir=$locks" back-off=1-2 >"$conf"
	fake_ready
	fake_check fanout-plan '[[ " $* " != *" --bogus "* ]] || {
		echo "fanout-plan: error: --bogus: no" >&2; exit 64; }'
	start "$fanout" -f "$conf" --log "$BATS_TEST_TMPDIR/log"
	log=$BATS_TEST_TMPDIR/log/fanout:group@locks
	wait_until 10 grep -q 'ready: run 1' "$log/current"
	echo 'stage.fanout-plan=--bogus' >>"$conf"
	kill -HUP "$supervisor"
	wait_until 10 grep -q "Z qim-fanout: warning: HUP: $conf is refused: goes on as before$" "$log/current"
	tail -n 3 "$log/current" | cut -d ' ' -f 2- >"$BATS_TEST_TMPDIR/said"
	[ "$(head -n 2 "$BATS_TEST_TMPDIR/said")" = 'fanout-plan: error: --bogus: no
qim-fanout: error: fanout-plan: exit 64: usage' ]
	run -0 fan --status
	[[ $output == *' run 1, restarts 0'* ]]
	# While it checks it supervises, and two HUPs are two checks.
	sed -i '$d' "$conf"
	fake_check dispatch-produce "echo >>'$notes/checks'
		while [[ ! -e '$notes/go' ]]; do sleep 0.05; done"
	kill -HUP "$supervisor"
	wait_until 10 test -e "$notes/checks"
	kill -HUP "$supervisor"
	kill -9 "$(pid_of offset-commit)"
	wait_until 10 grep -q 'ready: run 2' "$log/current"
	[ "$(wc -l <"$notes/checks")" = 1 ]
	touch "$notes/go"
	wait_until 10 grep -q 'ready: run 4' "$log/current"
	[ "$(wc -l <"$notes/checks")" = 2 ]
	# Nor does it keep a supervisor that is told to stop.
	rm "$notes/go" "$notes/checks"
	kill -HUP "$supervisor"
	wait_until 10 test -e "$notes/checks"
	kill "$supervisor"
	expect_end 0
	wait_until 10 nothing_left "$supervisor"
}

@test "HUP where the file was a fifo, which has been read: it goes on as before" {
	conf=$BATS_TEST_TMPDIR/conf
	mkfifo "$conf"
	fake_ready
	start "$fanout" -f "$conf"
	printf '%s\n' brokers=x outbox=outbox dispatch=d fanout.group=group \
		"lock-dir=$locks" >"$conf"
	wait_until 10 said 'ready: run 1'
	kill -HUP "$supervisor"
	wait_until 10 said "HUP: $conf is refused: goes on as before"
	kill "$supervisor"
	expect_end 0
}

@test "HUP while it waits to start again: it doesn't wait any longer" {
	fake outbox-read 'exit 69'
	start_fan --back-off 60000-60000
	wait_until 10 said '; start again in '
	fake outbox-read 'trap "stop=1" TERM
		while [[ -z ${stop-} ]]; do sleep 0.05; done'
	kill -HUP "$supervisor"
	wait_until 10 runs outbox-read 2
	sleep 0.2 # bash has its trap
	kill "$supervisor"
	expect_end 0
}

@test "HUP of a terminal that has gone is a TERM" {
	fake_ready
	start script -qec "exec '$fanout' --lock-dir '$locks' -b x -t outbox -d d -g group 2>'$BATS_TEST_TMPDIR/log'" /dev/null
	wait_until 10 grep -q ready: "$BATS_TEST_TMPDIR/log"
	kill -HUP "$(sed -n 's/^pid=//p' "$locks/fanout:group/state")"
	wait_until 10 has_status 'not running: ended with 0' 69
	[ "$(wc -l <"$BATS_TEST_TMPDIR/log")" = 2 ]
}

# One may be there for as long as the supervisor needs to get to it.
no_zombies() {
	[ "$(ps -o stat= --ppid "$supervisor" | grep -c Z)" = 0 ]
}

# bats test_tags=slow
@test "kill -9 of any of its processes: the chain starts again, and says why" {
	export QIM_BIN
	fake_ready
	fake outbox-read "trap 'stop=1' TERM; cat '$qim_root/tests/golden/records.qim'
		while [[ -z \${stop-} ]]; do sleep 0.05; done"
	start_fan -v "${quick[@]}" --tap "fanout-plan=$BATS_TEST_TMPDIR/tap"
	n=1
	for name in $stages log-keep tap-1-of-fanout-plan; do
		wait_until 10 said "ready: run $n,"
		pid=$(sed -n "s/.* $name: pid \([0-9]*\): started/\1/p" \
			"$BATS_TEST_TMPDIR/err" | tail -n 1)
		kill -9 "$pid"
		n=$((n + 1))
		wait_until 10 said "ready: run $n,"
		grep -qE "$name: pid $pid: killed by signal 9 \(KILL\)(, its last line.*)?; start again in" "$BATS_TEST_TMPDIR/err"
	done
	# That of its own lines has a successor, and the chain goes on.
	kill -9 "$(child ' qim-fanout=')"
	wait_until 10 said 'log-keep of these lines: killed by signal 9 (KILL): started again'
	# A timer, and what waits for readiness, aren't missed.
	wait_until 5 no_zombies
	kill "$supervisor"
	expect_end 0
	wait_until 5 nothing_left "$supervisor"
}

@test "a log-keep of its own that dies again and again is given up" {
	log_keep=$(readlink "$QIM_BIN/log-keep")
	rm "$QIM_BIN/log-keep"
	fake log-keep "[[ \$* != *qim-fanout=* ]] || kill -KILL \$\$
		exec '$log_keep' \"\$@\""
	fake_ready
	start_fan
	wait_until 20 said 'log-keep of these lines: killed by signal 9 (KILL): not started again'
	[ "$(wc -l <"$notes/log-keep.pids")" -le 7 ]
	kill "$supervisor"
	expect_end 0
	said 'qim-fanout: notice: told to stop'
}

@test "kill -9 of its timers: as if nothing were" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	for i in {1..10}; do
		kill -9 $(pgrep -P "$supervisor" -x sleep) || true
		sleep 0.0$i
	done
	kill "$supervisor"
	expect_end 0
}

# Signals of bash's are lost in ways of their own; see docs/adr/0008.
# bats test_tags=slow
@test "HUP, then TERM, at any moment: it ends" {
	fake_ready
	for i in {1..6}; do
		rm -f "$notes"/*
		start_fan
		wait_until 10 started outbox-read
		sleep "0.$((SRANDOM % 4))$((SRANDOM % 10))"
		kill -HUP "$supervisor"
		sleep "0.0$((SRANDOM % 10))"
		kill "$supervisor"
		wait_until 20 gone "$supervisor"
		wait "$supervisor" || [ $? = 75 ]
		wait_until 5 nothing_left "$supervisor"
	done
}

# A stage that has not drained when its supervisor is killed.
kill_slow_chain() {
	fake dispatch-produce 'trap "" TERM; cat
		while [[ ! -e '"$notes"'/go ]]; do sleep 0.05; done'
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	first=$supervisor
	kill -9 "$first"
	kill "$(pid_of outbox-read)"
	wait_until 10 gone "$(pid_of outbox-read)"
}

# bats test_tags=slow
@test "what a killed supervisor has left is waited for by the next one" {
	kill_slow_chain
	start_fan
	wait_until 10 said "qim-fanout: warning: supervisor $first, before this one, was killed while ready: waits for its processes "
	sleep 0.3
	[ "$(wc -l <"$notes/outbox-read.pids")" = 1 ]
	touch "$notes/go"
	wait_until 10 said 'ready: run 1'
	kill "$supervisor"
	expect_end 0
	wait_until 5 nothing_left "$first"
}

# bats test_tags=slow
@test "what a killed supervisor has left, and doesn't drain in time, is killed" {
	kill_slow_chain
	left=$(pid_of dispatch-produce)
	start_fan --drain-ms 3000
	wait_until 10 said 'have not ended: killed'
	wait_until 10 gone "$left"
	touch "$notes/go"
	wait_until 10 said 'ready: run 1'
	kill "$supervisor"
	expect_end 0
	wait_until 5 nothing_left "$first"
	# A stop doesn't wait either.
	rm "$notes/go"
	kill_slow_chain
	start_fan
	wait_until 10 said 'waits for its processes'
	kill "$supervisor"
	expect_end 0
	wait_until 5 nothing_left "$first"
	# What ended well has left nothing.
	touch "$notes/go"
	start_fan
	wait_until 10 said 'ready: run 1'
	run ! said 'before this one'
}

# bats test_tags=slow
@test "the same chain twice on a host: 78 with the pid; others run beside it" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	run -78 --separate-stderr fan
	[ "$stderr" = "qim-fanout: error: $locks/fanout:group: locked by pid $supervisor: it runs this chain for group 'group' already" ]
	fake outbox-read 'echo end'
	fan --once -p 0-3
	fan --once -g other
	fan --once -g 'a/b: c'
	[ -d "$locks/fanout:a%2Fb%3A%20c" ]
	"$fanout" --once --lock-dir "$locks-2" -b x -t t -d d -g group
	fan --once -g "$(printf 'x%.0s' {1..249})"
	kill "$supervisor"
	expect_end 0
	fan --once
}

@test "a lock folder that isn't one's own: 78" {
	mkdir "$BATS_TEST_TMPDIR/open"
	chmod 777 "$BATS_TEST_TMPDIR/open"
	ln -s "$locks" "$BATS_TEST_TMPDIR/link"
	touch "$BATS_TEST_TMPDIR/file"
	for line in "open/:mode 777 lets others write to it, wants 0700" \
		"link/:symbolic link: wants a folder of this user's own" \
		"file:regular empty file: wants a folder of this user's own" \
		"no/folder:can't be made: wants a folder of this user's own"; do
		run -78 --separate-stderr "$fanout" -b x -t t -d d -g g \
			--lock-dir "$BATS_TEST_TMPDIR/${line%%:*}"
		name=${line%%:*}
		[ "$stderr" = "qim-fanout: error: --lock-dir: $BATS_TEST_TMPDIR/${name%/}: ${line#*:}" ]
	done
	[ ! -e "$notes/outbox-read.pid" ]
}

# bats test_tags=slow
@test "--status in each state; nothing that is dead is shown as alive" {
	has_status 'not running' 69
	run -64 "$fanout" --status
	fake_slow outbox-read
	fake_ready
	start_fan "${quick[@]}"
	wait_until 10 started $stages
	has_status 'starting for ' 75
	touch "$notes/go"
	rm "$QIM_BIN/outbox-read"
	fake outbox-read 'trap "stop=1" TERM; echo line
		while [[ -z ${stop-} ]]; do sleep 0.05; done
		while [[ ! -e '"$notes"'/drained ]]; do sleep 0.05; done'
	# The slow one ends well: so does the supervisor. Once more.
	expect_end 0
	start_fan "${quick[@]}"
	wait_until 10 has_status 'ready for ' 0
	run -0 fan --status
	[ "$(wc -l <<<"$output")" = 7 ]
	[[ ${lines[0]} =~ ^"qim-fanout: ready for "[0-9.]+" s; supervisor $supervisor, up "[0-9.]+" s; run 1, restarts 0"$ ]]
	i=2
	for name in $stages; do
		[[ ${lines[i]} =~ ^$name\ +$(pid_of "$name")\ +[0-9.]+\ s\ +-\ +-\ +-\ +-$ ]]
		i=$((i + 1))
	done
	kill -9 "$(pid_of fanout-plan)"
	wait_until 10 has_status 'draining for ' 75
	run ! grep -q fanout-plan <(fan --status)
	touch "$notes/drained"
	wait_until 10 has_status 'ready for ' 0
	run -0 fan --status
	[[ ${lines[0]} == *'; run 2, restarts 1' ]]
	[[ ${lines[1]} == 'last cause: fanout-plan: pid '*': killed by signal 9 (KILL)' ]]
	kill -9 "$supervisor"
	wait_until 10 has_status "not running: supervisor $supervisor was killed while ready" 69
	[[ $(fan --status || true) != *outbox-read* ]]
}

# bats test_tags=slow
@test "--status: stages that a stopped supervisor hasn't seen die aren't ready" {
	fake_ready
	start_fan
	wait_until 10 has_status 'ready for ' 0
	kill -STOP "$supervisor"
	has_status 'ready for ' 0
	kill -9 "$(pid_of fanout-plan)"
	wait_until 10 has_status 'ready, but without ' 75
	run -75 fan --status
	[[ ${lines[0]} =~ ^"qim-fanout: ready, but without "[a-z,\ -]*fanout-plan,[a-z,\ -]*" for "[0-9.]+" s; " ]]
	kill -CONT "$supervisor"
	wait_until 10 said 'start again in'
}

# bats test_tags=slow
@test "--status shows the figures that stages write, but no older ones" {
	cat >"$BATS_TEST_TMPDIR/prom" <<-'EOF'
		# HELP qim_batches_total Batches done.
		qim_batches_total{program="outbox-read",chain="x"} 7
		qim_records_total{program="outbox-read",chain="x"} 3500
		qim_in_flight_batches{program="outbox-read",chain="x"} 2
		qim_lag_records{program="outbox-read",chain="x",partition="0"} 10
		qim_lag_records{program="outbox-read",chain="x",partition="1"} 5
		qim_start_timestamp_seconds{program="outbox-read",chain="x"} NOW.250000
	EOF
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	figures=$locks/fanout:group/qim-fanout:group@locks-outbox-read.prom
	sed "s/NOW/$EPOCHSECONDS/" "$BATS_TEST_TMPDIR/prom" >"$figures"
	fan --status | grep -E '^outbox-read +[0-9]+ +[0-9.]+ s +7 +3500 +2 +15$'
	sed "s/NOW/$((EPOCHSECONDS - 100))/" "$BATS_TEST_TMPDIR/prom" >"$figures"
	fan --status | grep -E '^outbox-read +[0-9]+ +[0-9.]+ s +- +- +- +-$'
	kill "$supervisor"
	expect_end 0
}

# bats test_tags=slow
@test "--status runs nothing that stands in the files that it reads" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	code='a[$(touch '"$notes"'/ran)]'
	figures=$locks/fanout:group/qim-fanout:group@locks-outbox-read.prom
	printf '%s\n' "qim_start_timestamp_seconds{} $EPOCHSECONDS" \
		"qim_batches_total{} 7" "qim_records_total{} $code" >"$figures"
	fan --status | grep -E '^outbox-read +[0-9]+ +[0-9.]+ s +7 +- +- +-$'
	state=$locks/fanout:group/state
	cp "$state" "$BATS_TEST_TMPDIR/state"
	for name in since began pid process; do
		sed "s,^$name=[0-9]*,$name=$code," "$BATS_TEST_TMPDIR/state" >"$state"
		run -75 fan --status
		[ "${lines[0]}" = 'qim-fanout: starting' ]
	done
	[ ! -e "$notes/ran" ]
	kill "$supervisor"
	expect_end 0
}

@test "the state is written over the old one: a full disk has room for that" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	state=$locks/fanout:group/state
	# As long as it never is: cut off, it would be short.
	printf '%05000d' 0 >>"$state"
	kill "$supervisor"
	expect_end 0
	[ "$(stat -c %s "$state")" -gt 5000 ]
	has_status 'not running: ended with 0' 69
}

# bats test_tags=slow
@test "systemd is told: ready, reloading, stopping" {
	mkdir "$BATS_TEST_TMPDIR/path"
	# What isn't waited for would overtake the slow one.
	printf '#!/bin/bash\n[[ $1 != READY* ]] || sleep 0.5\necho "$@" >>"%s"\n' "$notes/told" \
		>"$BATS_TEST_TMPDIR/path/systemd-notify"
	chmod +x "$BATS_TEST_TMPDIR/path/systemd-notify"
	notified=(env NOTIFY_SOCKET=/nowhere PATH="$BATS_TEST_TMPDIR/path:$PATH"
		"$fanout" --lock-dir "$locks" -b x -t outbox -d d -g group)
	fake_ready
	start "${notified[@]}"
	wait_until 10 grep -qx READY=1 "$notes/told"
	kill -HUP "$supervisor"
	wait_until 10 said 'ready: run 2'
	kill "$supervisor"
	expect_end 0
	[ "$(tr '\n' ' ' <"$notes/told")" = 'READY=1 RELOADING=1 READY=1 STOPPING=1 ' ]
	# Not ready after that: the first receipt comes of what drains.
	rm "$notes/told"
	fake outbox-read 'trap "stop=1" TERM; touch '"$notes"'/trapped
		while [[ -z ${stop-} ]]; do sleep 0.05; done; echo end'
	sed -i "s,exec cat,while [[ ! -e $notes/go ]]; do sleep 0.05; done," \
		"$QIM_BIN/offset-commit"
	start "${notified[@]}"
	wait_until 10 test -e "$notes/trapped"
	kill "$supervisor"
	wait_until 10 said 'ready: run 1'
	touch "$notes/go"
	expect_end 0
	[ "$(<"$notes/told")" = STOPPING=1 ]
}

@test "a stderr that nobody reads stops nothing" {
	fake fanout-plan 'trap "" TERM
		for ((i = 0; i < 3000; i++)); do printf "%0200d\n" "$i" >&2; done
		touch "'"$notes"'/written"; exec cat'
	fake_ready
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	exec 7<>"$BATS_TEST_TMPDIR/fifo"
	"$fanout" -v --lock-dir "$locks" -b x -t outbox -d d -g group \
		2>"$BATS_TEST_TMPDIR/fifo" >"$BATS_TEST_TMPDIR/out" 3>&- 7>&- &
	supervisor=$!
	wait_until 20 has_status 'ready for ' 0
	[ -e "$notes/written" ]
	kill "$supervisor"
	status=0
	wait "$supervisor" || status=$?
	[ "$status" = 0 ]
	exec 7>&-
	wait_until 5 nothing_left "$supervisor"
}

@test "--log: all lines into a folder, with the time; stderr has none" {
	mkdir "$BATS_TEST_TMPDIR/log"
	fake outbox-read 'echo end'
	fake fanout-plan 'echo "fanout-plan: error: why" >&2; exit 69'
	run -69 --separate-stderr fan "${quick[@]}" --give-up 2/60 \
		--log "$BATS_TEST_TMPDIR/log" --log-bytes 100000 --log-files 3
	[ -z "$stderr" ]
	time='[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z'
	current=$BATS_TEST_TMPDIR/log/fanout:group@locks/current
	run ! grep -vE "^$time " "$current"
	[ "$(grep -cE " fanout-plan: error: why$" "$current")" = 2 ]
	grep -qE ' qim-fanout: warning: fanout-plan: .*start again in' "$current"
	grep -qE ' qim-fanout: error: gave up' "$current"
}

@test "--log: the chains of a host share a folder, and no line is lost" {
	mkdir "$BATS_TEST_TMPDIR/log"
	fake outbox-read 'echo end'
	fake fanout-plan 'while [[ $1 != --chain ]]; do shift; done
		seq -f "fanout-plan: info: $2 %04g" 2000 >&2; cat'
	cp "$QIM_BIN/fanout-plan" "$QIM_BIN/mailbox-apply"
	fake mailbox-read ''
	shared=(--once --log "$BATS_TEST_TMPDIR/log" --log-bytes 4096
		--log-files 999)
	fan "${shared[@]}" -p 0-15 3>&- &
	one=$!
	fan "${shared[@]}" -p 16-31 3>&- &
	other=$!
	"$mailbox" "${shared[@]}" --lock-dir "$locks" -b x -t d -g group -r x 3>&- &
	wait "$!"
	wait "$one"
	wait "$other"
	find "$BATS_TEST_TMPDIR/log" -type f -exec cat {} + |
		grep -o 'info: .*' | sort >"$BATS_TEST_TMPDIR/kept"
	for name in fanout:group:0-15 fanout:group:16-31 mailbox:group; do
		seq -f "info: $name@locks %04g" 2000
	done | diff - "$BATS_TEST_TMPDIR/kept"
	[ "$(ls "$BATS_TEST_TMPDIR/log" | xargs)" = \
		'fanout:group:0-15@locks fanout:group:16-31@locks mailbox:group@locks' ]
}

@test "--log: others can't read it, whoever makes a file; a folder that can't be: 66" {
	mkdir "$BATS_TEST_TMPDIR/log"
	fake_ready
	umask 022
	start_fan -v --log "$BATS_TEST_TMPDIR/log"
	folder=$BATS_TEST_TMPDIR/log/fanout:group@locks
	wait_until 10 grep -q 'ready: run 1' "$folder/current"
	[ "$(stat -c %a "$folder" "$folder/current" | xargs)" = '750 640' ]
	rm "$folder/current"
	kill "$supervisor"
	expect_end 0
	head -n 1 "$folder/current" | grep -q 'qim-fanout: notice: told to stop'
	[ "$(stat -c %a "$folder/current")" = 640 ]
	rm -r "$folder"
	touch "$folder"
	run -66 --separate-stderr fan --log "$BATS_TEST_TMPDIR/log"
	[ "$stderr" = "qim-fanout: error: --log: '$folder': can't be made or written to" ]
}

# bats test_tags=slow
@test "chains that share folders for logs and figures have a name each" {
	judge 'chain_kind=fanout
		name() {
			opt=([-g]=$1 [-p]=$2 [--lock-dir]=$3)
			run_folder_name && chain_label && echo "$chain_label"
		}
		name a "" ""; name a 0-15 /run/qim/; name a 0-15 /run/east/
		name a "" /srv/qim
		long=$(printf "%0200d" 1)
		for group in b b_1 b:1 b@c "${long}1" "${long}2"; do
			for partitions in "" 1 1,2 1-2; do
				name "$group" "$partitions" ""
				name "$group" "$partitions" c
				name "$group" "$partitions" 1
			done
		done' >"$BATS_TEST_TMPDIR/names"
	run -0 sort -u "$BATS_TEST_TMPDIR/names"
	[ "${#lines[@]}" -eq $((4 + 6 * 4 * 3)) ]
	mapfile -t lines <"$BATS_TEST_TMPDIR/names"
	[ "${lines[*]:0:4}" = 'fanout:a fanout:a:0-15 fanout:a:0-15@east fanout:a@qim' ]
	# What the programs take.
	for name in "${lines[@]}"; do
		run -75 fanout-plan --chain "$name" </dev/null
	done
}

@test "no descriptors for the pipes: 71" {
	run -71 --separate-stderr bash -c 'ulimit -n 20; exec "$@"' bash "$fanout" \
		--once --lock-dir "$locks" -b x -t outbox -d d -g group
	expect_message 'no pipes for the stages: exit 71: no resources: see ulimit -n'
	[ ! -e "$notes/outbox-read.pid" ]
}

# not_root: sets `as` to what makes a command another user's where this is root,
# and `locks` to a folder that this user can make.
not_root() {
	as=()
	if ((EUID == 0)); then
		as=(setpriv --reuid 54321 --clear-groups)
		chmod a+rx "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" \
			"$BATS_SUITE_TMPDIR" "$BATS_FILE_TMPDIR"
		chmod a+rwx "$notes"
	fi
	mkdir "$BATS_TEST_TMPDIR/theirs"
	chmod 777 "$BATS_TEST_TMPDIR/theirs"
	locks=$BATS_TEST_TMPDIR/theirs/locks
}

# bats test_tags=slow
@test "a stage that has read a secret is waited for by a user's supervisor too" {
	fake dispatch-produce 'exec python3 -c "
import ctypes, os, signal, time
ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while data := os.read(0, 65536):
    os.write(1, data)
while not os.path.exists(\"'"$notes"'/go\"):
    time.sleep(0.05)" "$@"'
	fake_ready
	not_root
	theirs=("${as[@]}" "$fanout" --lock-dir "$locks" -b x
		-t outbox -d d -g group)
	start "${theirs[@]}"
	wait_until 10 said 'ready: run 1'
	kill -9 "$supervisor"
	kill "$(pid_of outbox-read)"
	wait_until 10 gone "$(pid_of outbox-read)"
	left=$(pid_of dispatch-produce)
	wait_until 10 gone "$(pid_of fanout-plan)"
	start "${theirs[@]}"
	wait_until 10 said 'was killed while ready: waits for its processes '
	said " $left"
	touch "$notes/go"
	wait_until 10 said 'ready: run 1'
	kill "$supervisor"
	expect_end 0
}

@test "no core file, whatever the limit was" {
	fake outbox-read 'ulimit -c; ulimit -Hc; echo end'
	# As high as it may be, which for root is any height.
	((EUID != 0)) || prlimit --pid "$BASHPID" --core=unlimited
	run ! test "$(ulimit -Hc)" = 0
	ulimit -S -c "$(ulimit -Hc)"
	run -0 fan --once
	[ "${lines[*]}" = '0 0 end' ]
}

# As another user, since nothing keeps root from starting processes.
# bats test_tags=slow
@test "no process can be started: 71, and a line says so" {
	fake_ready
	not_root
	start "${as[@]}" "$fanout" --lock-dir "$locks" \
		-b x -t outbox -d d -g group
	wait_until 10 said 'ready: run 1'
	"${as[@]}" prlimit --nproc=1:1 --pid "$supervisor"
	expect_end 71
	# By a log-keep that isn't waited for.
	wait_until 10 said 'qim-fanout: error: ended: no process can be started: see ulimit -u'
	run -69 fan --status
	[ "$output" = 'qim-fanout: not running: ended with 71' ]
}

# bats test_tags=slow
@test "a stop, and an end that nobody asked the supervisor for, is in its log" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	kill "$supervisor"
	expect_end 0
	said 'qim-fanout: notice: told to stop: stops the first stage, drains, and ends'
	start_fan
	wait_until 10 said 'ready: run 1'
	kill "$(pid_of outbox-read)"
	expect_end 0
	said 'qim-fanout: notice: ended: outbox-read came to its end, or was told to stop'
	fake outbox-read 'exit 75'
	start_fan --back-off 60000-60000
	wait_until 10 said 'start again in'
	kill "$supervisor"
	expect_end 0
	said "qim-fanout: notice: told to stop: ends, and doesn't start again"
}

@test "TERM before the first stage has a handler for it: 0" {
	fake outbox-read 'exec sleep 60'
	fake fanout-plan 'cat >/dev/null
		echo "fanout-plan: error: input: torn: it ends before the hello" >&2
		exit 75'
	start_fan
	wait_until 10 started outbox-read fanout-plan
	kill "$supervisor"
	expect_end 0
	run ! said 'qim-fanout: error'
}

@test "wrong numbers for the supervisor: 64" {
	for line in '--drain-ms 0' '--drain-ms x' '--give-up 3' '--give-up 0/5' \
		'--give-up 3/' '--back-off 5' '--back-off 5-4' '--back-off 0-4' \
		'--log-bytes 1' '--tap-files 1000' '--connect-ms 1'; do
		# shellcheck disable=SC2086
		run -64 --separate-stderr fan $line
		[[ $stderr == "qim-fanout: error: ${line% *}: '${line#* }': wants "* ]]
	done
	[ ! -e "$notes/outbox-read.pid" ]
}
