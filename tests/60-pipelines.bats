#!/usr/bin/env bats
# The chains: one run of each, with stages of our own making, for statuses and
# signals. The real ones are in 60a; what a supervisor does when a run has ended
# is in 63.

# shellcheck disable=SC2010,SC2016,SC2154  # stages are scripts; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes

# once [option...]: one run.
once() {
	fan --once "$@"
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
	run -0 "$fanout" -bbroker:1 -t outbox \
		-d dispatch -g group -X a=1 -F file -X 'b= 2' -n32 -o 17 \
		--lock-dir "$locks" --once -p 0-3 \
		--first=end --dead-letter dead --connect-ms 500 -q \
		--stage outbox-read=--batch --stage=outbox-read='7 8'
	ours="--with-parent|--prom|$locks/fanout:group:0-3|--chain|fanout:group:0-3@locks"
	[ "$(tr '\n' '|' <"$notes/outbox-read.args")" = "$ours|"'-b|broker:1|-t|outbox|-g|group|-X|a=1|-F|file|-X|b= 2|-o|17|-p|0-3|--first|end|-q|--connect-ms|500|--batch|7 8|' ]
	[ "$(tr '\n' ' ' <"$notes/fanout-plan.args")" = "${ours//|/ } "'-n 32 --dead-letter dead -q --connect-ms 500 ' ]
	[ "$(tr '\n' '|' <"$notes/dispatch-produce.args")" = "$ours|"'-b|broker:1|-X|a=1|-F|file|-X|b= 2|--dead-letter|dead|-t|dispatch|-q|--connect-ms|500|' ]
	[[ "$(tr '\n' '|' <"$notes/offset-commit.args")" =~ ^"$ours|--ready|"[0-9]+"|-b|broker:1|-g|group|-X|a=1|-F|file|-X|b= 2|--lock-dir|$locks|-q|--connect-ms|500|"$ ]]
}

@test "all stages end well: 0, and -v has a line for each" {
	short_chain
	run -0 --separate-stderr once -v
	[ "$output" = $'line\nend' ]
	for name in $stages; do
		pid=$(<"$notes/$name.pid")
		grep -qx "qim-fanout: info: $name: pid $pid: started" <<<"$stderr"
		grep -qx "qim-fanout: info: $name: pid $pid: exit 0" <<<"$stderr"
	done
	run -0 --separate-stderr once
	[ -z "$stderr" ]
}

# expect_cause LABEL TEXT: the only cause that is named.
expect_cause() {
	grep -qxE "qim-fanout: error: $1: pid [0-9]+: $2" <<<"$stderr" ||
		fail "not $1: $2: $stderr"
}

# bats test_tags=slow
@test "the first cause is named, its code is the chain's, and what to do" {
	short_chain
	for code in 64 65 66 69 70 71 74 75 76 77 78 3; do
		fake dispatch-produce "cat >/dev/null; exit $code"
		fake offset-commit "cat >/dev/null
			echo 'offset-commit: error: input: torn: here' >&2; exit 75"
		run "-$code" --separate-stderr once
		mapfile -t said < <(grep '^qim-fanout: ' <<<"$stderr")
		[[ ${said[0]} =~ ^"qim-fanout: error: dispatch-produce: pid "[0-9]+": exit $code: " ]]
		case $code in
		69 | 71 | 74 | 75) [ "${#said[@]}" = 1 ] ;;
		*)
			[ "${#said[@]}" = 2 ]
			[[ ${said[1]} == 'qim-fanout: error: stopped: '?* ]]
			;;
		esac
	done
}

@test "the cause comes with the last line that it said" {
	short_chain
	fake dispatch-produce 'cat >/dev/null
		echo "dispatch-produce: notice: one" >&2
		echo "dispatch-produce: error: topic \"x\": no" >&2; exit 69'
	run -69 --separate-stderr once
	[ "${stderr_lines[0]}" = 'dispatch-produce: notice: one' ]
	[[ ${stderr_lines[2]} =~ ^"qim-fanout: error: dispatch-produce: pid "[0-9]+': exit 69: not reachable, its last line: "dispatch-produce: error: topic "x": no"'$ ]]
	# As log-keep has masked it, not masked twice.
	fake dispatch-produce 'cat >/dev/null; echo "topic ä \x5c" >&2; exit 69'
	run -69 --separate-stderr once
	expect_cause dispatch-produce 'exit 69: not reachable, its last line: "topic \\xc3\\xa4 \\x5c"'
	# Not that of an earlier run.
	fake dispatch-produce 'cat >/dev/null; exit 69'
	run -69 --separate-stderr once
	expect_cause dispatch-produce 'exit 69: not reachable'
}

# bats test_tags=slow
@test "75 and SIGPIPE are what a neighbour's death does: the hard one counts" {
	fake_chain
	fake fanout-plan 'exit 75'
	fake dispatch-produce 'sleep 0.5; exit 65'
	fake offset-commit 'cat >/dev/null; exit 75'
	run -65 --separate-stderr once
	expect_cause dispatch-produce 'exit 65: bad data'
	# Of the soft ones the one that doesn't say so, though it is seen last.
	go=$notes/go
	for name in $stages; do
		rm -f "$go"
		for other in $stages; do
			text='input: torn: it ends before the hello'
			[[ $other != outbox-read && $other != fanout-plan ]] ||
				text='output: the reader is gone'
			fake "$other" "while [[ ! -e $go ]]; do sleep 0.02; done
				echo '$other: error: $text' >&2; exit 75"
		done
		fake "$name" "trap '' TERM; touch $go; sleep 0.3
			echo '$name: error: why' >&2; exit 75"
		run -75 --separate-stderr once
		expect_cause "$name" "exit 75: temporary failure, its last line: \"$name: error: why\""
	done
	# Killed by SIGPIPE where no other is: the first writes nothing.
	fake_chain
	fake outbox-read 'trap "exit 0" TERM; while :; do sleep 0.05; done'
	fake fanout-plan 'kill -PIPE $$'
	run -75 --separate-stderr once
	expect_cause fanout-plan 'killed by signal 13 \(PIPE\)'
}

# bats test_tags=slow
@test "killed by a signal: 75, and 70 for what only a bug does" {
	short_chain
	for signal in KILL TERM HUP; do
		fake fanout-plan "kill -$signal \$\$"
		run -75 --separate-stderr once
		expect_cause fanout-plan "killed by signal [0-9]+ \\($signal\\)"
	done
	for signal in SEGV ABRT BUS; do
		fake fanout-plan "ulimit -c 0; kill -$signal \$\$"
		run -70 --separate-stderr once
		expect_cause fanout-plan "killed by signal [0-9]+ \\($signal\\)"
		expect_message 'qim-fanout: error: stopped: a bug'
	done
}

@test "a stage that ends stops a chain that has nothing to do" {
	fake_chain
	fake outbox-read 'trap "exit 0" TERM; while :; do sleep 0.05; done'
	fake offset-commit 'exit 77'
	run -77 --separate-stderr once
	expect_cause offset-commit 'exit 77: not authorised'
}

# bats test_tags=slow
@test "a first stage that our own TERM kills, as it starts, isn't the cause" {
	fake_chain
	fake outbox-read 'exec sleep 60'
	fake fanout-plan 'sleep 0.3; exit 75'
	run -75 --separate-stderr once
	expect_cause fanout-plan 'exit 75: temporary failure'
	fake dispatch-produce 'cat >/dev/null; exit 65'
	run -65 --separate-stderr once
}

@test "each process has its own ends of the pipes only, and sees their end" {
	short_chain
	for name in fanout-plan dispatch-produce; do
		fake "$name" "ls -l /proc/\$\$/fd >'$notes/$name.fds'; exec cat"
	done
	run -0 once
	[ "$output" = $'line\nend' ]
	for name in fanout-plan dispatch-produce; do
		cat "$notes/$name.fds"
		for fd in 0 1 2; do
			grep -q " $fd -> pipe:" "$notes/$name.fds"
		done
		# No more, but what whoever runs the tests has open.
		[ "$(grep -o 'pipe:.*' "$notes/$name.fds" | grep -vcFf \
			<(ls -l /proc/$$/fd /proc/$PPID/fd | grep -o 'pipe:.*'))" = 3 ]
		run ! grep -F "$locks" "$notes/$name.fds"
	done
}

@test "stages have a session each, and no signal ignored that the caller ignores" {
	short_chain
	fake fanout-plan "cat /proc/self/status >'$notes/status'
		ps -o sid= -p \$\$ >'$notes/sid'; exec cat"
	run -0 bash -c 'trap "" PIPE INT QUIT; exec "$@"' bash \
		"$fanout" --once --lock-dir "$locks" -b x -t outbox -d dispatch -g group
	# INT, QUIT and PIPE; whatever else the tests' caller ignores.
	(((0x$(sed -n 's/^SigIgn:\t//p' "$notes/status") & 0x1006) == 0))
	[ "$(tr -d ' ' <"$notes/sid")" = "$(<"$notes/fanout-plan.pid")" ]
}

@test "a program that isn't there, or can't be started: 78" {
	fake_chain
	rm "$QIM_BIN/dispatch-produce"
	cp -R "$qim_root/pipelines" "$BATS_TEST_TMPDIR/alone"
	run -78 --separate-stderr env PATH=/usr/bin:/bin \
		"$BATS_TEST_TMPDIR/alone/fanout" --once --lock-dir "$locks" \
		-b x -t outbox -d dispatch -g group
	[ "$stderr" = 'qim-fanout: error: dispatch-produce: no such program in $QIM_BIN, beside qim-fanout or in $PATH' ]
	[ ! -e "$notes/outbox-read.pid" ]
	echo '#!/nowhere' >"$QIM_BIN/dispatch-produce"
	chmod +x "$QIM_BIN/dispatch-produce"
	run -78 --separate-stderr once
	expect_cause dispatch-produce "exit 127: $QIM_BIN/dispatch-produce can't be started.*"
	expect_message 'qim-fanout: error: stopped: see QIM_BIN and PATH'
	# What the cause itself says of it, kept by a log-keep that isn't there.
	rm "$QIM_BIN/log-keep"
	run -78 --separate-stderr env PATH=/usr/bin:/bin \
		"$BATS_TEST_TMPDIR/alone/fanout" --once --lock-dir "$locks" \
		-b x -t outbox -d dispatch -g group
	expect_message 'qim-fanout: error: log-keep: no such program'
}

@test "installed, the scripts find their library and their programs" {
	short_chain
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/bin" "$root/libexec/qim" "$root/link"
	cp "$fanout" "$root/bin/qim-fanout"
	cp "$qim_root"/pipelines/*.bash "$root/libexec/qim"
	cp "$QIM_BIN"/* "$root/bin"
	ln -s ../bin/qim-fanout "$root/link/fan"
	run -0 env -u QIM_BIN "$root/link/fan" --once \
		--lock-dir "$locks" -b x -t outbox -d dispatch -g g
	[ "$output" = $'line\nend' ]
}

# bats test_tags=slow
@test "a tap is a copy of the stage's stream; several are several" {
	fake_chain
	stream=$qim_root/tests/golden/records.qim
	fake outbox-read "exec cat '$stream'"
	once --tap "outbox-read=$BATS_TEST_TMPDIR/one" \
		--tap "outbox-read=$BATS_TEST_TMPDIR/two" \
		--tap "dispatch-produce=$BATS_TEST_TMPDIR/three" \
		--tap-bytes 1000000 --tap-files 2 >"$BATS_TEST_TMPDIR/out"
	for copy in one two three out; do
		cmp "$stream" "$BATS_TEST_TMPDIR/$copy"
	done
	run -0 once --tap "outbox-read=$BATS_TEST_TMPDIR/one" --tap-files 1
	[ ! -e "$BATS_TEST_TMPDIR/one.1" ]
}

@test "a tap that stream-tap refuses is refused by --check; one file for two: 78" {
	fake_chain
	run -66 --separate-stderr fan --check --tap outbox-read=/dev/null
	expect_message 'stream-tap: error: /dev/null: not a regular file'
	run -78 --separate-stderr fan --tap "outbox-read=$BATS_TEST_TMPDIR/one" \
		--tap "fanout-plan=$BATS_TEST_TMPDIR/one"
	[ "$stderr" = "qim-fanout: error: --tap: '$BATS_TEST_TMPDIR/one': is the file of tap-1-of-outbox-read too" ]
	[ ! -e "$notes/outbox-read.pid" ]
	cd "$BATS_TEST_TMPDIR"
	fake outbox-read "exec cat '$qim_root/tests/golden/records.qim'"
	once --tap outbox-read=-file >out
	cmp out ./-file
}

@test "what a refused argument of a tap leads to is named as the tap's" {
	short_chain
	rm "$QIM_BIN/stream-tap"
	fake stream-tap 'exit 64'
	run -64 --separate-stderr once --tap "outbox-read=$BATS_TEST_TMPDIR/t"
	expect_message 'stopped: see the arguments of tap-1-of-outbox-read: --tap, --tap-bytes, --tap-files; stream-tap -h'
}

@test "a tap that can't be written, a folder for --log, --prom that isn't: 66" {
	short_chain
	run -66 --separate-stderr fan --tap outbox-read=/no/such/file
	[ "$stderr" = "qim-fanout: error: --tap: '/no/such/file': can't be written" ]
	run -66 fan --tap "outbox-read=$BATS_TEST_TMPDIR"
	for option in --log --prom; do
		run -66 --separate-stderr fan "$option" /no/such/folder
		[ "$stderr" = "qim-fanout: error: $option: '/no/such/folder': no folder that can be written to" ]
	done
	[ ! -e "$notes/outbox-read.pid" ]
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
	fake mailbox-read "ls '$locks'/*/ >'$notes/before'; echo dispatch 0 17"
	fake outbox-read 'cat /dev/stdin'
	box=("$mailbox" --once --lock-dir="$locks" -b x -t dispatch -g group
		-r unix:/redis)
	run -0 "${box[@]}" -n 8 --prefix p --user u --password-file f \
		--connect-ms 900 --wait-replicas 2 --wait-ms 50
	[ "$output" = 'dispatch 0 17' ]
	run ! grep marks "$notes/before"
	[ "$(tr '\n' ' ' <"$notes/mailbox-read.args")" = '--with-parent -r unix:/redis -n 8 --prefix p --user u --password-file f positions -t dispatch --connect-ms 900 ' ]
	ours="--with-parent --prom $locks/mailbox:group --chain mailbox:group@locks"
	[ "$(tr '\n' ' ' <"$notes/mailbox-apply.args")" = "$ours "'-r unix:/redis -n 8 --prefix p --user u --password-file f --wait-replicas 2 --wait-ms 50 --connect-ms 900 ' ]
	[ "$(tr '\n' ' ' <"$notes/outbox-read.args")" = "$ours "'-b x -t dispatch -g group -o @/dev/stdin --connect-ms 900 ' ]
	rm "$notes/outbox-read.pid"
	fake mailbox-read 'echo "mailbox-read: error: no Redis" >&2; exit 69'
	run -69 --separate-stderr "${box[@]}"
	[[ ${stderr_lines[1]} =~ ^"qim-mailbox: error: mailbox-read: pid "[0-9]+': exit 69: not reachable, its last line: "mailbox-read: error: no Redis"'$ ]]
	[ ! -e "$notes/outbox-read.pid" ]
	# It has nothing to drain: told to stop, it is gone.
	rm "$notes/mailbox-read.pid"
	fake mailbox-read 'exec sleep 60'
	start "${box[@]}"
	wait_until 10 started mailbox-read
	kill "$supervisor"
	expect_end 0
	[ ! -e "$notes/outbox-read.pid" ]
}

@test "one topic for two purposes: 78, before anything is started" {
	for options in '-t a -d a' '-t a -d b --dead-letter a' '-t a -d b --dead-letter b'; do
		# shellcheck disable=SC2086
		run -78 "$fanout" -b x -g g $options
		expect_message "both are topic '"
	done
}
