#!/usr/bin/env bats
# The supervisor, over stages of our own making: what is left, and goes on, when
# it or one of its processes is killed or can't be started.

# shellcheck disable=SC2154  # bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes
load lib/supervisor

# child NAME: the pid of a process of the supervisor.
child() {
	pgrep -P "$supervisor" -f "$1" | tail -n 1
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
