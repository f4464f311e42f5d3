# shellcheck shell=bash
# supervisor.bash: a chain of fakes under its supervisor, and what is left of
# both; needs lib/common and lib/fakes.
#
# setup and teardown are here.
# shellcheck disable=SC2034,SC2154  # what tests use; bats and lib set these

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
