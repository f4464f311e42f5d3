# shellcheck shell=bash
# fakes.bash: chains whose stages are scripts of our own making, for statuses
# and signals; needs lib/common.
#
# Sets: fanout, mailbox, the scripts; stages, their names; notes, a folder;
# locks, the lock folder.
# shellcheck disable=SC2016,SC2034,SC2154  # stages are scripts; others use these

fanout=$qim_root/pipelines/fanout
mailbox=$qim_root/pipelines/mailbox
stages="outbox-read fanout-plan dispatch-produce offset-commit"

# The chain with least options; QIM_BIN decides whose stages run.
fan() {
	"$fanout" --lock-dir "$locks" -b localhost:1 -t outbox -d dispatch \
		-g group "$@"
}

# fake NAME BODY: a stage that answers --check and -V, notes its pid and
# arguments in $notes, then runs BODY in bash.
fake() {
	cat >"$QIM_BIN/$1" <<-EOF
		#!/bin/bash
		[[ " \$* " != *" --check "* ]] || exit 0
		[[ \$1 != -V ]] || { echo "$1 (qim) 1.2.3"; exit; }
		printf '%s\n' "\$@" >"$notes/$1.args"
		echo \$\$ >>"$notes/$1.pids"
		echo \$\$ >"$notes/$1.pid"
		$2
	EOF
	chmod +x "$QIM_BIN/$1"
}

# A chain that runs until it is told to stop, and passes bytes on.
fake_chain() {
	local name real=$qim_root/build/bin
	[[ $QIM_BIN == "$BATS_TEST_TMPDIR"/* ]] || real=$QIM_BIN
	notes=$BATS_TEST_TMPDIR/notes
	locks=$BATS_TEST_TMPDIR/locks
	QIM_BIN=$BATS_TEST_TMPDIR/bin
	mkdir -p "$QIM_BIN" "$notes"
	for name in log-keep stream-tap; do
		ln -sf "$real/$name" "$QIM_BIN"
	done
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

# A last stage that says that it is ready with its first line.
fake_ready() {
	fake offset-commit 'trap "" TERM
		while [[ $1 != --ready ]]; do shift; done
		read -r; echo ready >&$2; eval "exec $2>&-"; exec cat'
}

# start command...: in the background, with its own stderr; sets `supervisor`.
start() {
	"$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	supervisor=$!
}

# start_fan [option...]: the chain itself is `supervisor`, not a shell of ours.
start_fan() {
	start "$fanout" --lock-dir "$locks" -b localhost:1 -t outbox \
		-d dispatch -g group "$@"
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

# said TEXT: the supervisor started by start() has.
said() {
	grep -qF -e "$1" "$BATS_TEST_TMPDIR/err"
}

# pid_of STAGE: of the newest fake.
pid_of() {
	cat "$notes/$1.pid"
}
