# shellcheck shell=bash
# common.bash: what every test needs: paths, waiting, ports, servers, the mock.
#
# A bats file begins with
#	bats_require_minimum_version 1.5.0
#	load lib/common		(and lib/redis, lib/kafka where it needs them)
#
# Servers belong to the test file that started them (scope_dir) or, through the
# need_ functions, to the whole suite. setup_suite.bash ends what is left at
# the end; lib/watchdog does where bats itself was killed.
#
# Variables: QIM_BIN, the programs under test (build/bin), first in PATH.
# QIM_STATE, the directory of all state (in bats' own temporary directory).

[[ -z ${qim_root:-} ]] || return 0
qim_root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)

export LC_ALL=C
export QIM_BIN=${QIM_BIN:-$qim_root/build/bin}
# Beside them what only tests run, the Makefile's TOOLS.
[[ $PATH == "$QIM_BIN:"* ]] || export PATH=$QIM_BIN:${QIM_BIN%/bin}/tools:$PATH
if [[ -z ${QIM_STATE:-} ]]; then
	QIM_STATE=${BATS_SUITE_TMPDIR:+$BATS_SUITE_TMPDIR/qim}
	QIM_STATE=${QIM_STATE:-$(mktemp -d "${TMPDIR:-/tmp}/qim-XXXXXX")}
fi
export QIM_STATE
mkdir -p "$QIM_STATE"

# fail TEXT...: say it on stderr, return 1 (which fails a bats test).
fail() {
	printf '%s\n' "$*" >&2
	return 1
}

# scope_dir: the directory for the state of this test file.
scope_dir() {
	local name=${BATS_TEST_FILENAME:-shell}
	name=${name##*/}
	echo "$QIM_STATE/${name%.bats}"
}

# unique NAME: a name nobody else has, for topics and groups on a shared broker.
unique() {
	printf '%s-%s-%08x\n' "$1" "$(basename "$(scope_dir)")" "$SRANDOM"
}

# wait_until SECONDS command...: repeat the command (in a subshell, so it sets
# no variables here) until it succeeds; fails with its last output.
wait_until() {
	local seconds=$1 out end
	shift
	end=$((${EPOCHREALTIME/./} + seconds * 1000000))
	until out=$("$@" 2>&1 3>&-); do
		if ((${EPOCHREALTIME/./} > end)); then
			fail "not within $seconds s: $*${out:+: $out}"
			return
		fi
		sleep 0.05
	done
}

# has_handlers PID: it is a program by now, and has its handler for TERM.
has_handlers() {
	local name mask
	{
		read -r _ name
		mask=$(sed -n 's/^SigCgt:[[:space:]]*//p')
	} <"/proc/$1/status"
	[[ $name != bash ]] && (((0x$mask >> 14) & 1))
}

# to_nobody command...: its stdout is a pipe whose reader has gone already.
to_nobody() {
	local pipe=$BATS_TEST_TMPDIR/nobody reader writer status=0
	mkfifo "$pipe"
	exec {reader}<>"$pipe"
	exec {writer}>"$pipe" {reader}>&-
	rm "$pipe"
	"$@" >&"$writer" {writer}>&- || status=$?
	exec {writer}>&-
	return "$status"
}

# expect_message TEXT: TEXT is in what the last `run` saw on stderr (with
# --separate-stderr) or in its output.
expect_message() {
	# shellcheck disable=SC2154  # bats sets them
	[[ ${stderr-} == *"$1"* || ${output-} == *"$1"* ]] ||
		fail "expected the message: $1" $'\n'"status: ${status-}" \
			$'\n'"output: ${output-}" $'\n'"stderr: ${stderr-}"
}

port_is_taken() {
	local hex
	printf -v hex '%04X' "$1"
	grep -qE "^ *[0-9]+: [0-9A-F]+:$hex " /proc/net/tcp /proc/net/tcp6 \
		2>/dev/null
}

# free_port: a TCP port that nobody has and no other call in this suite gets.
# Below the range the kernel gives to clients, so that it stays free while the
# server that has it is down. Suites that run side by side share QIM_PORTS, the
# directory of those that are given.
free_port() {
	local port ports=${QIM_PORTS:-$QIM_STATE/ports}
	mkdir -p "$ports"
	while :; do
		port=$((15000 + SRANDOM % 17000))
		port_is_taken "$port" && continue
		(set -C && : >"$ports/$port") 2>/dev/null || continue
		echo "$port"
		return
	done
}

# daemon_start DIR CLEANUP command...: a server in a session of its own, its
# pid, output and status in DIR (see lib/watchdog).
daemon_start() {
	local dir=$1
	mkdir -p "$dir"
	rm -f "$dir/pid" "$dir/status"
	[[ -z $2 ]] || echo "$2" >"$dir/cleanup"
	setsid --fork "$qim_root/tests/lib/watchdog" \
		"${BATS_ROOT_PID:-$$}" "$@" </dev/null >/dev/null 2>&1
	wait_until 30 test -s "$dir/pid"
}

# daemon_pid DIR: its pid; fails when it isn't running.
daemon_pid() {
	[[ -s $1/pid && ! -e $1/status ]] && cat "$1/pid"
}

# Only the watchdog's word counts: until it has written the status it may
# still write into DIR.
daemon_is_gone() {
	[[ ! -e $1/pid || -e $1/status ]]
}

# daemon_signal DIR SIGNAL: TERM and KILL wait until it is gone (30 s), and a
# TERM reaches a stopped one too. Nothing to do where it isn't running.
daemon_signal() {
	local pid
	pid=$(daemon_pid "$1") || return 0
	kill "-$2" "$pid" 2>/dev/null || true
	case $2 in
	TERM | KILL)
		kill -CONT "$pid" 2>/dev/null || true
		wait_until 30 daemon_is_gone "$1"
		;;
	esac
}

# stop_everything: end all servers of this suite. Their data is of no use to
# anybody, so no time is spent on an orderly end.
stop_everything() {
	local file
	while IFS= read -r file; do
		daemon_signal "${file%/*}" KILL
	done < <(find "$QIM_STATE" -type f -name pid)
	while IFS= read -r file; do
		rm -rf -- "$(<"$file")"
	done < <(find "$QIM_STATE" -type f -name cleanup)
}

# under_lock NAME command...: one process of the suite at a time.
under_lock() {
	local lock status=0
	exec {lock}>"$QIM_STATE/$1.lock"
	flock "$lock"
	shift
	"$@" || status=$?
	exec {lock}>&-
	return "$status"
}

mock_has_answered() {
	daemon_pid "$1" >/dev/null || return 0
	[[ $(head -c 4096 "$1/out" 2>/dev/null; echo x) == *$'\n'x ]]
}

# start_mock [broker-mock's arguments]: sets and exports MOCK_BROKERS, the
# bootstrap servers, and MOCK_PID. Each test file has one at a time; a second
# start ends the first. It may be called in setup_file.
start_mock() {
	local dir
	dir=$(scope_dir)/mock
	stop_mock
	rm -rf "$dir"
	daemon_start "$dir" '' broker-mock "$@"
	wait_until 30 mock_has_answered "$dir" || true
	MOCK_BROKERS=$(head -n 1 "$dir/out")
	if ! MOCK_PID=$(daemon_pid "$dir") ||
		[[ ! $MOCK_BROKERS =~ ^[^,:\ ]+:[0-9]+(,[^,:\ ]+:[0-9]+)*$ ]]
	then
		stop_mock
		fail "broker-mock doesn't start: it said '$MOCK_BROKERS'," \
			"$(<"$dir/err")"
		return
	fi
	export MOCK_BROKERS MOCK_PID
}

stop_mock() {
	daemon_signal "$(scope_dir)/mock" TERM
}
