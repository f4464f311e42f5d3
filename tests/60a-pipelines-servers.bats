#!/usr/bin/env bats
# The chains with the real programs, on the mock broker and Redis.

# shellcheck disable=SC2154  # bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/redis
load lib/fakes

teardown_file() {
	stop_mock
}

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
	locks=$BATS_TEST_TMPDIR/locks
	"$fanout" --lock-dir "$locks" -b "$MOCK_BROKERS" -t outbox -d dispatch \
		-g fanout -n 8 --first beginning 2>"$BATS_TEST_TMPDIR/fanout.err" 3>&- &
	fanout_pid=$!
	start_mailbox
}

start_mailbox() {
	"$mailbox" -v --lock-dir "$locks" -b "$MOCK_BROKERS" -t dispatch -g mailbox -n 8 \
		-r "$redis" --prefix "$prefix" \
		2>"$BATS_TEST_TMPDIR/mailbox.err" 3>&- &
	mailbox_pid=$!
}

# bats test_tags=slow
@test "messages go through both chains; after a loss the mailbox chain rewinds" {
	need_servers
	redis=unix:$REDIS_SOCKET prefix=$(unique rewind)
	messages | outbox-write -b "$MOCK_BROKERS" -t outbox
	start_both
	wait_until 60 has_entries 180
	boxes >"$BATS_TEST_TMPDIR/first"
	kill "$fanout_pid" "$mailbox_pid"
	wait "$fanout_pid"
	wait "$mailbox_pid"
	redis-cli -s "$REDIS_SOCKET" --scan --pattern "$prefix:*" |
		xargs redis-cli -s "$REDIS_SOCKET" DEL
	has_entries 0
	start_mailbox
	wait_until 60 has_entries 180
	kill "$mailbox_pid"
	wait "$mailbox_pid"
	boxes | cmp - "$BATS_TEST_TMPDIR/first"
}

# bats test_tags=slow
@test "a mailbox chain is checked from the marks: before its first run, and without Redis" {
	need_redis
	start_mock -t dispatch:4
	box=("$mailbox" --check -b "$MOCK_BROKERS" -t dispatch -g "$(unique g)"
		-n 4 --connect-ms 500)
	run -0 --separate-stderr "${box[@]}" -r "unix:$REDIS_SOCKET" \
		--prefix "$(unique first)"
	[ -z "$output" ]
	run -69 --separate-stderr "${box[@]}" -r localhost:1
	[ "${stderr_lines[-1]}" = 'qim-mailbox: error: mailbox-read: exit 69: not reachable' ]
	[ "${#stderr_lines[@]}" -eq 2 ]
}

# left_of PID: processes that this supervisor has started, and its own forks.
left_of() {
	local pids
	pids=$(grep -lzx "QIM_SUPERVISOR=$1" /proc/[0-9]*/environ 2>/dev/null |
		cut -d / -f 3
		pgrep -f -- "$locks") || true
	[[ -z $pids ]] || fail "$(ps -o pid,ppid,stat,args -p "${pids//$'\n'/,}")"
}

# state_is STATE: of the one that start() started; not of one before it.
state_is() {
	grep -qx "state=$1" "$locks/fanout:g/state" &&
		grep -qx "pid=$supervisor" "$locks/fanout:g/state"
}

# It may be past that within a look.
has_begun() {
	state_is starting || state_is ready
}

# bats test_tags=slow
@test "kill -9 of a supervisor at any moment: nothing is left but files under its lock" {
	start_mock -t outbox:2 -t dispatch:4
	messages | outbox-write -b "$MOCK_BROKERS" -t outbox
	locks=$BATS_TEST_TMPDIR/locks TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
	export TMPDIR
	for moment in 0.02 0.05 0.1 0.15 0.2 0.3 starting ready draining waiting; do
		b=$MOCK_BROKERS ms=30000
		# Nobody listens there: 69.
		[[ $moment != waiting ]] || b=127.0.0.1:1 ms=500
		start "$fanout" --lock-dir "$locks" -b "$b" -t outbox \
			-d dispatch -g g -n 4 --first beginning \
			--connect-ms "$ms" --back-off 60000-60000 \
			--tap "fanout-plan=$BATS_TEST_TMPDIR/tap"
		case $moment in
		0.*) sleep "$moment" ;;
		draining)
			wait_until 60 state_is ready
			kill -STOP "$(sed -n 's/^process=\([0-9]*\) offset-commit$/\1/p' "$locks/fanout:g/state")"
			kill "$supervisor"
			wait_until 20 state_is draining
			;;
		starting) wait_until 20 has_begun ;;
		*) wait_until 60 state_is "$moment" ;;
		esac
		kill -9 "$supervisor"
		wait "$supervisor" || true
		if [[ $moment == draining ]]; then
			kill -CONT "$(sed -n 's/^process=\([0-9]*\) offset-commit$/\1/p' "$locks/fanout:g/state")"
		fi
		wait_until 20 left_of "$supervisor"
		run -69 "$fanout" --status --lock-dir "$locks" -g g
	done
	[ -z "$(ls "$TMPDIR")" ]
	run find "$BATS_TEST_TMPDIR" -type p -o -name '*.pid' -o -name marks
	[ -z "$output" ]
	# And the chain can be started at once.
	run -0 "$fanout" --once --lock-dir "$locks" -b "$MOCK_BROKERS" -t outbox \
		-d dispatch -g g -n 4 --first beginning --stage outbox-read=-e
}

# bats test_tags=slow
@test "a wrong order of stages is refused: 76" {
	need_servers
	cat >"$BATS_TEST_TMPDIR/chain" <<-EOF
		set -u
		chain_name=wrong chain_kind=wrong chain_synopsis=usage
		chain_here=$QIM_BIN chain_values="-g --lock-dir"
		source "$qim_root/pipelines/chain.bash"
		chain_build() {
			chain_add outbox-read -b "$MOCK_BROKERS" -t outbox -g g -e --first beginning
			chain_add offset-commit -b "$MOCK_BROKERS" -g g
		}
		chain_main "\$@"
	EOF
	run -76 --separate-stderr bash "$BATS_TEST_TMPDIR/chain" -g g \
		--lock-dir "$BATS_TEST_TMPDIR/locks"
	[[ $stderr =~ "wrong: error: offset-commit: pid "[0-9]+": exit 76: wrong kind of stream, its last line: " ]]
	expect_message 'wrong: error: stopped: '
}
