#!/usr/bin/env bats
# The supervisor, over stages of our own making: what TERM, INT and HUP do in
# each of its states.

# shellcheck disable=SC2016,SC2034,SC2154  # stages are scripts; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes
load lib/supervisor

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
