# shellcheck shell=bash
# chains.bash: both chains on real servers, kept running while stages are
# killed, and the comparison at the end. Needs lib/common, lib/kafka, lib/redis.
#
# The caller sets: RUN, a directory; OUTBOX, DISPATCH, topics; GROUP, a prefix
# of groups; REDIS, a list for -r; KAFKA_BROKERS; and where wanted FANOUT_MORE
# and MAILBOX_MORE, arrays of more arguments for a chain.

# chain_command NAME: sets `chain`, the command that starts it.
# shellcheck disable=SC2154  # the caller sets them
chain_command() {
	chain=("$qim_root/pipelines/$1" --once --lock-dir "$RUN/locks"
		-b "$KAFKA_BROKERS" -g "$GROUP-$1")
	case $1 in
	fanout) chain+=(-t "$OUTBOX" -d "$DISPATCH" --first beginning
		"${FANOUT_MORE[@]}") ;;
	mailbox) chain+=(-t "$DISPATCH" -r "$REDIS" "${MAILBOX_MORE[@]}") ;;
	esac
}

# keep_running NAME: start a chain again whenever it ends, until the file
# RUN/stop is there. An exit that asks for a person is left in RUN/NAME.fatal.
# Not by the supervisor, whose waiting would be the tests' time: a run each.
keep_running() {
	local name=$1 status chain
	chain_command "$name"
	while [[ ! -e $RUN/stop ]]; do
		"${chain[@]}" >>"$RUN/$name.log" 2>&1 &
		echo $! >"$RUN/$name.pid"
		# Or it is told by nobody: stop_chains has looked before.
		[[ ! -e $RUN/stop ]] || kill $! 2>/dev/null || true
		status=0
		wait $! || status=$?
		rm -f "$RUN/$name.pid"
		echo "-- $name ended: $status" >>"$RUN/$name.log"
		case $status in
		0 | 69 | 71 | 74 | 75 | 143) ;; # 143: told to stop at its start
		*)
			echo "$status" >"$RUN/$name.fatal"
			return
			;;
		esac
	done
}

# start_chains, stop_chains, run_to_end [NAME...]: these, or both.
start_chains() {
	local name
	(($#)) || set -- fanout mailbox
	rm -f "$RUN/stop" "$RUN"/*.fatal
	for name; do
		keep_running "$name" 3>&- &
		echo $! >"$RUN/keep-$name.pid"
	done
}

# The pid of a stage of a running chain.
stage_pid() {
	local chain
	chain=$(cat "$RUN/$1.pid") && pgrep -P "$chain" -x "${2:0:15}"
}

# signal_stage SIGNAL CHAIN STAGE
signal_stage() {
	kill "-$1" "$(stage_pid "$2" "$3" | head -n 1)"
}

# kill_stage CHAIN STAGE: -9, as soon as it is there. Fails where it never is.
# Of a chain that ends it may have gone between a look and the other.
kill_stage() {
	wait_until 60 kill_found "$1" "$2"
}

kill_found() {
	local pid
	pid=$(stage_pid "$1" "$2" | head -n 1)
	[[ -n $pid ]] && kill -9 "$pid"
}

stop_chains() {
	local name
	(($#)) || set -- fanout mailbox
	touch "$RUN/stop"
	for name; do
		kill -TERM "$(cat "$RUN/$name.pid")" 2>/dev/null || true
		wait "$(cat "$RUN/keep-$name.pid")" || true
		[[ ! -e $RUN/$name.fatal ]] ||
			fail "$name: exit $(cat "$RUN/$name.fatal"):" \
				"$(tail -n 5 "$RUN/$name.log")" || return
	done
}

# end_chains: whatever of them a test that has failed left, in teardown.
end_chains() {
	local file
	touch "$RUN/stop"
	for file in "$RUN"/{fanout,mailbox}*.pid; do
		[[ ! -s $file ]] || kill "$(<"$file")" 2>/dev/null || true
	done
}

# Once more, up to the end of their topics.
run_to_end() {
	local name chain
	(($#)) || set -- fanout mailbox
	for name; do
		chain_command "$name"
		"${chain[@]}" --stage outbox-read=-e || return
	done
}

# The committed offsets of a group are the topic's end.
expect_committed_end() {
	diff <(kafka_committed "$1" "$2" | sort -n) \
		<(kafka_end_offsets "$2" | sort -n) || fail "$1 isn't at the end of $2"
}

# The mailboxes against the messages in a file, by another program than qim's.
expect_mailboxes() {
	python3 "$qim_root/tests/lib/mailboxes.py" "$REDIS" <"$1"
}

# audit [OPTION...]: nothing is found; prints the counts.
audit() {
	mailbox-audit -q -b "$KAFKA_BROKERS" -t "$DISPATCH" -r "$REDIS" \
		--outbox "$OUTBOX" -g "${FANOUT_GROUP:-$GROUP-fanout}" "$@"
}

# How many dispatches have been applied.
marks_sum() {
	mailbox-read -q -r "$REDIS" positions -t "$DISPATCH" |
		awk '{ n += $3 } END { print n }'
}

marks_reach() {
	local sum
	sum=$(marks_sum) || return
	((sum >= $1)) || fail "the marks are at $sum of $1"
}

# dump_mailboxes: a line for each key but marks and counters, in order, with
# all it holds.
dump_mailboxes() {
	python3 -B "$qim_root/tests/lib/mailbox-dump.py" "$REDIS"
}
