#!/usr/bin/env bats
# The supervisor, over stages of our own making: what it does when a run has
# ended, and what keeps it from a start.

# shellcheck disable=SC2016,SC2154  # stages are scripts; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes
load lib/supervisor

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

@test "no descriptors for the pipes: 71" {
	run -71 --separate-stderr bash -c 'ulimit -n 20; exec "$@"' bash "$fanout" \
		--once --lock-dir "$locks" -b x -t outbox -d d -g group
	expect_message 'no pipes for the stages: exit 71: no resources: see ulimit -n'
	[ ! -e "$notes/outbox-read.pid" ]
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
