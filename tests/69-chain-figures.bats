#!/usr/bin/env bats
# What a supervisor shows of its chain: its state, that it lives, and what dying
# stages have said. Stages are of our own making but in the last two tests.

# shellcheck disable=SC2016,SC2030,SC2031,SC2154  # stages are scripts; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes
load lib/redis

setup() {
	supervisor=''
	fake_chain
	fake_ready
	prom=$BATS_TEST_TMPDIR/prom
	file=$prom/qim-fanout:group@locks-supervisor.prom
	mkdir "$prom"
}

teardown() {
	[[ -z $supervisor ]] || kill -9 "$supervisor" 2>/dev/null || true
	pkill -9 -f -- "$BATS_TEST_TMPDIR/bin/" || true # a fake has no parent's death
	stop_mock
}

# value NAME [PROGRAM [LABELS]]: of a series in `file`.
value() {
	sed -n "s/^$1{program=\"${2-supervisor}\",chain=\"[^\"]*\"${3-}} //p" "$file"
}

shows() {
	local have
	have=$(value "$1" "${@:3}")
	[[ $have == "$2" ]] || fail "$1 is $have"
}

states() {
	shows qim_chain_up "$1" && shows qim_chain_ready "$2" &&
		shows qim_chain_to_end "$3"
}

start_shown() {
	start_fan --prom "$prom" --back-off 60000-60000 "$@"
}

# A stage that says in its last file that UNPROVEN deliveries are, and ends with
# 75, where $notes/unproven has that number; else it has no file.
fake_unproven() {
	fake dispatch-produce 'trap "" TERM
		while [[ $1 != --prom ]]; do shift; done
		[[ -e '"$notes"'/unproven ]] || exec cat
		labels="program=\"dispatch-produce\",chain=\"$4\""
		printf "%s\n" \
			"qim_start_timestamp_seconds{$labels} $EPOCHREALTIME" \
			"qim_deliveries_total{$labels,state=\"delivered\"} 100" \
			"qim_deliveries_total{$labels,state=\"unproven\"} $(<'"$notes"'/unproven)" \
			>"$2/qim-$4-dispatch-produce.prom"
		[[ ! -e '"$notes"'/stays ]] || exec cat
		rm '"$notes"'/unproven
		exit 75'
}

# bats test_tags=slow
@test "each state of a chain is shown, in a file that everyone may read" {
	umask 077
	fake fanout-plan 'trap "" TERM; [[ -e '"$notes"'/go ]] || exit 69; exec cat'
	began=$EPOCHSECONDS
	start_shown
	wait_until 10 said 'start again in'
	wait_until 10 shows qim_stage_deaths_total 1 fanout-plan ',code="69"'
	states 1 0 0
	promtool check metrics <"$file"
	"$qim_root/tests/lib/prom-check.py" "$file"
	[ "$(stat -c %a "$file")" = 644 ]
	(($(value qim_chain_changed_timestamp_seconds) >= began))
	(($(value qim_chain_changed_timestamp_seconds) <= EPOCHSECONDS))
	touch "$notes/go"
	kill -HUP "$supervisor"
	wait_until 10 shows qim_chain_ready 1
	states 1 1 0
	shows qim_chain_starts_total 2
	kill "$supervisor"
	expect_end 0
	states 0 0 1
	[ "$(ls "$prom")" = "${file##*/}" ]
}

# bats test_tags=slow
@test "an end that nobody asked the supervisor for isn't shown as one; with -e it is" {
	start_shown
	wait_until 10 shows qim_chain_ready 1
	kill "$(pid_of outbox-read)"
	expect_end 0
	states 0 0 0
	short_chain
	for option in -e --exit-at-end; do
		rm "$file"
		start_shown --stage "outbox-read=$option"
		expect_end 0
		states 0 0 1
	done
	fake outbox-read 'exit 65'
	start_shown
	expect_end 65
	states 0 0 0
}

# bats test_tags=slow
@test "what a dying stage said is summed up, once, over runs and supervisors" {
	fake_unproven
	start_shown --back-off 1-1
	wait_until 10 shows qim_chain_ready 1
	shows qim_chain_unproven_total 0
	echo 2 >"$notes/unproven"
	kill -9 "$(pid_of dispatch-produce)"
	wait_until 10 shows qim_chain_unproven_total 2
	# Its file is there yet, and not its successor's.
	wait_until 10 shows qim_chain_starts_total 3
	wait_until 10 shows qim_chain_ready 1
	kill -9 "$(pid_of dispatch-produce)"
	wait_until 10 shows qim_chain_starts_total 4
	shows qim_chain_unproven_total 2
	kill "$supervisor"
	expect_end 0
	shows qim_chain_unproven_total 2
	shows qim_stage_deaths_total 2 dispatch-produce ',code="137"'
	# Under a service manager each run has a supervisor.
	echo 3 >"$notes/unproven"
	start_shown --once
	expect_end 75
	states 0 0 0
	shows qim_chain_unproven_total 5
	shows qim_chain_starts_total 5
	shows qim_stage_deaths_total 2 dispatch-produce ',code="75"'
	"$qim_root/tests/lib/prom-check.py" "$prom"/*supervisor.prom
}

# bats test_tags=slow
@test "kill -9 of the supervisor: its file stays as it is; the next one sums up" {
	echo 4 >"$notes/unproven"
	touch "$notes/stays"
	fake_unproven
	start_shown
	wait_until 10 shows qim_chain_ready 1
	kill -9 "$supervisor"
	wait "$supervisor" || true
	kill "$(pid_of outbox-read)"
	wait_until 10 gone "$(pid_of offset-commit)"
	states 1 1 0
	shows qim_chain_unproven_total 0
	cp "$file" "$BATS_TEST_TMPDIR/before"
	sleep 1.1
	cmp "$BATS_TEST_TMPDIR/before" "$file"
	rm "$notes/unproven"
	start_shown
	wait_until 10 shows qim_chain_starts_total 2
	shows qim_chain_unproven_total 4
	# What it has summed up already, it doesn't again.
	wait_until 10 shows qim_chain_ready 1
	kill "$supervisor"
	expect_end 0
	start_shown
	wait_until 10 shows qim_chain_starts_total 3
	shows qim_chain_unproven_total 4
}

# above NAME NUMBER
above() {
	(($(value "$1") > $2))
}

# bats test_tags=slow
@test "a supervisor that lives says so, where nothing happens and where it waits" {
	start_shown
	wait_until 10 shows qim_chain_ready 1
	ready=$supervisor
	fake outbox-read 'exit 69'
	start_shown -g other
	wait_until 10 said 'start again in'
	sleep 1
	now=$EPOCHSECONDS
	wait_until 30 above qim_supervisor_heartbeat_timestamp_seconds "$now"
	file=$prom/qim-fanout:other@locks-supervisor.prom
	wait_until 30 above qim_supervisor_heartbeat_timestamp_seconds "$now"
	kill "$ready"
}

@test "a folder that goes away, and what lies in the way, stop nothing" {
	start_shown --back-off 1-1
	wait_until 10 shows qim_chain_ready 1
	echo kept >"$BATS_TEST_TMPDIR/other"
	mv "$prom" "$prom-away" # in one step
	kill -9 "$(pid_of outbox-read)"
	wait_until 10 said 'ready: run 2,'
	mkdir "$prom"
	runs=2
	for what in true 'ln -s ../other' mkfifo; do
		$what "$file.new"
		kill -9 "$(pid_of outbox-read)"
		runs=$((runs + 1))
		wait_until 10 said "ready: run $runs,"
		# What lies in the way is removed.
		wait_until 10 shows qim_chain_starts_total "$runs"
		wait_until 10 shows qim_chain_ready 1
	done
	[ "$(<"$BATS_TEST_TMPDIR/other")" = kept ]
	kill "$supervisor"
	expect_end 0
	run ! pgrep -f -- "$prom"
}

@test "without a folder it is in the chain's own; HUP with another one moves it" {
	mkdir "$BATS_TEST_TMPDIR/second"
	conf=$BATS_TEST_TMPDIR/conf
	printf '%s\n' brokers=x outbox=o dispatch=d fanout.group=group >"$conf"
	start "$fanout" --lock-dir "$locks" -f "$conf"
	file=$locks/fanout:group/${file##*/}
	wait_until 10 shows qim_chain_ready 1
	echo "prom=$BATS_TEST_TMPDIR/second" >>"$conf"
	kill -HUP "$supervisor"
	old=$file file=$BATS_TEST_TMPDIR/second/${file##*/}
	wait_until 10 shows qim_chain_ready 1
	shows qim_chain_starts_total 2
	[ ! -e "$old" ]
	kill "$supervisor"
	expect_end 0
}

@test "a file that somebody else has written is not run" {
	code='a[$(touch '"$notes"'/ran)]'
	fake_unproven
	printf '%s\n' "qim_chain_starts_total{program=\"supervisor\",chain=\"fanout:group@locks\"} $code" \
		"qim_stage_deaths_total{program=\"$code\",chain=\"fanout:group@locks\",code=\"1\"} 1" \
		"qim_chain_unproven_total{program=\"supervisor\",chain=\"fanout:group@locks\"} 08" \
		"$code 1" >"$file"
	echo "$code" >"$notes/unproven"
	start_shown
	wait_until 10 said 'start again in'
	wait_until 10 shows qim_chain_starts_total 1
	shows qim_chain_unproven_total 8
	[ ! -e "$notes/ran" ]
	"$qim_root/tests/lib/prom-check.py" "$file"
}

# ---- with the real programs ----

messages() {
	jq -cn "range($1; $2) | {message_id: \"m\\(.)\", conversation_id: \"c\",
		conversation_seq: (. + 1), sender: \"ann\", created_at: 1,
		payload: \"hi\", recipients: [\"ann\", \"bob\"]}"
}

# ends_of ERROR SUM LABELS: what it makes of its first record ends
# dispatch-produce; its next start knows nothing of it.
ends_of() {
	local name=${3%% *} labels=${3#* }
	start_mock -t outbox:1 -t dispatch:4 --error "produce=$1:1@1"
	kcat -b "$MOCK_BROKERS" -t outbox -P < <(messages 0 1)
	start "$fanout" --lock-dir "$locks" --prom "$prom" -b "$MOCK_BROKERS" \
		-t outbox -d dispatch -g "$2" -n 4 --first beginning \
		--back-off 100-100
	file=$prom/qim-fanout:$2@locks-supervisor.prom
	wait_until 20 above "qim_chain_$2_total" 0
	wait_until 20 shows qim_chain_ready 1
	shows qim_stage_deaths_total 1 dispatch-produce ',code="75"'
	file=$prom/qim-fanout:$2@locks-dispatch-produce.prom
	wait_until 20 shows "$name" 0 dispatch-produce ",$labels"
	kill "$supervisor"
	expect_end 0
}

# bats test_tags=slow
@test "what ends dispatch-produce is in the sums when it runs again" {
	export QIM_BIN=$qim_root/build/bin QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	ends_of OUT_OF_ORDER_SEQUENCE_NUMBER out_of_order \
		'qim_kafka_errors_total kind="out_of_order"'
	# Acknowledged without an offset.
	ends_of DUPLICATE_SEQUENCE_NUMBER unproven \
		'qim_deliveries_total state="unproven"'
	"$qim_root/tests/lib/prom-check.py" "$prom"/*.prom
}

# bats test_tags=slow
@test "data that Redis has lost is in the sums when the chain runs again" {
	redis_start lost --appendonly yes --appendfsync always
	redis=127.0.0.1:$(redis_port lost)
	start_mock -t outbox:1 -t dispatch:4
	export QIM_BIN=$qim_root/build/bin
	plan() {
		messages "$1" "$2" | outbox-write -b "$MOCK_BROKERS" -t outbox
		outbox-read -b "$MOCK_BROKERS" -t outbox -g g --first beginning \
			-e | fanout-plan -n 4 |
			dispatch-produce -b "$MOCK_BROKERS" -t dispatch |
			offset-commit -b "$MOCK_BROKERS" -g g
	}
	plan 0 50
	start "$mailbox" --lock-dir "$locks" --prom "$prom" -b "$MOCK_BROKERS" \
		-t dispatch -g group -n 4 -r "$redis" --back-off 100-100
	file=$prom/qim-mailbox:group@locks-supervisor.prom
	wait_until 20 shows qim_chain_ready 1
	redis_cli lost FLUSHALL
	plan 50 100
	wait_until 20 shows qim_chain_lost_data_total 1
	wait_until 20 shows qim_chain_ready 1
	kill "$supervisor"
	expect_end 0
	"$qim_root/tests/lib/prom-check.py" "$prom"/*.prom
}
