#!/usr/bin/env bats
# Figures of whole chains, on the mock broker and on Redis: they agree with
# receipts, streams and what lies in Redis.

bats_require_minimum_version 1.5.0
load lib/common
load lib/applier

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkdir prom
}

teardown() {
	stop_mock
}

# value PROGRAM NAME [LABELS]: of a series.
value() {
	awk -v "start=$2{" -v "labels=${3-}" 'index($0, start) == 1 &&
		index($0, labels) { print $NF }' "prom/qim-c-$1.prom"
}

# sum PROGRAM NAME: of all series.
sum() {
	value "$1" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

# lines COUNT: messages, of which each has two recipients.
lines() {
	jq -cn "range($1) | {message_id: \"m\\(.)\", conversation_id: \"c\\(. % 7)\",
		conversation_seq: (. + 1), sender: \"ann\", created_at: 1,
		payload: \"hi\", recipients: [\"ann\", \"bob\"]}"
}

# of_all STATEMENT: what jq makes of all frames of a stream on stdin.
of_all() {
	stream-dump | jq -s "$1"
}

readonly show='--prom prom --chain c'

# bats test_tags=slow
@test "a fan-out's figures are those of its streams, its log and its commits" {
	start_mock -t outbox:2 -t dispatch:64 -t dead:1
	# shellcheck disable=SC2086
	lines 1000 | outbox-write -b "$MOCK_BROKERS" -t outbox $show
	[ "$(value outbox-write qim_records_total)" = 1000 ]
	[ "$(value outbox-write qim_in_records_total)" = 1000 ]
	[ "$(value outbox-write qim_deliveries_total 'state="delivered"')" = 1000 ]
	[ "$(value outbox-write qim_in_flight_records)" = 0 ]
	echo junk | kcat -b "$MOCK_BROKERS" -t outbox -p 0 -P
	# shellcheck disable=SC2086
	outbox-read -b "$MOCK_BROKERS" -t outbox -g g --first beginning -e \
		--batch 100 $show | tee records |
		fanout-plan --dead-letter dead $show | tee dispatches |
		dispatch-produce -b "$MOCK_BROKERS" -t dispatch $show |
		tee receipts |
		offset-commit -b "$MOCK_BROKERS" -g g $show
	"$qim_root/tests/lib/prom-check.py" prom/*.prom >/dev/null

	batches=$(of_all 'map(select(.batch)) | length' <records)
	for stage in outbox-read fanout-plan dispatch-produce offset-commit; do
		[ "$(value "$stage" qim_batches_total)" = "$batches" ]
		[ "$(value "$stage" qim_exit_code)" = 0 ]
	done
	[ "$(value outbox-read qim_records_total)" = 1001 ]
	[ "$(value outbox-read qim_out_bytes_total)" = "$(wc -c <records)" ]
	[ "$(value outbox-read qim_step_seconds_count 'step="read"')" = "$batches" ]
	[ "$(value fanout-plan qim_in_records_total)" = 1001 ]
	[ "$(value fanout-plan qim_records_total)" = 2001 ]
	[ "$(value fanout-plan qim_dead_letters_total)" = 1 ]
	[ "$(value dispatch-produce qim_in_bytes_total)" = "$(wc -c <dispatches)" ]
	[ "$(value dispatch-produce qim_records_total)" = \
		"$(of_all 'map(.in // 0) | add' <receipts)" ]
	[ "$(value dispatch-produce qim_deliveries_total 'state="delivered"')" = 2001 ]
	[ "$(sum dispatch-produce qim_deliveries_total)" = 2001 ]
	[ "$(value dispatch-produce qim_in_flight_batches)" = 0 ]
	[ "$(value dispatch-produce qim_in_flight_bytes)" = 0 ]
	for step in enqueue acks; do
		[ "$(value dispatch-produce qim_step_seconds_count "\"$step\"")" = \
			"$batches" ]
	done
	# The sum of what the receipts say of the same step.
	run of_all '[.[] | .at[]? | select(.[1] == "acks") | .[3] - .[2]] | add' \
		<receipts
	[ "$(value dispatch-produce qim_step_seconds_sum '"acks"' |
		awk '{ printf "%.0f", $1 * 1000000 }')" = "$output" ]

	(($(value offset-commit qim_step_seconds_count '"commit"') >= 1))
	[ "$(value offset-commit qim_records_total)" = 2001 ]
	for partition in 0 1; do
		label="partition=\"$partition\""
		next=$(kcat -b "$MOCK_BROKERS" -t outbox -p "$partition" -C -e \
			-q -f '%o\n' | wc -l)
		[ "$(value outbox-read qim_position_offset "$label")" = "$next" ]
		[ "$(value outbox-read qim_lag_records "$label")" = 0 ]
		[ "$(value offset-commit qim_committed_offset "$label")" = "$next" ]
		[ "$(value offset-commit qim_acknowledged_offset "$label")" = "$next" ]
	done
}

# Nobody reads on: the position stands, the log grows, the stage is blocked.
# bats test_tags=slow
@test "a reader's lag grows while it waits for the next stage, and ends at 0" {
	start_mock -t outbox:1
	lines 3000 | outbox-write -b "$MOCK_BROKERS" -t outbox
	mkfifo pipe
	exec 7<>pipe
	# shellcheck disable=SC2086
	outbox-read -b "$MOCK_BROKERS" -t outbox -g g --first beginning \
		--batch 10 $show >pipe 7>&- 3>&- &
	pid=$!
	lags() {
		local lag
		lag=$(value outbox-read qim_lag_records)
		((${lag:-0} >= $1))
	}
	wait_until 20 lags 1000
	cp prom/qim-c-outbox-read.prom prom/qim-c-once.prom # of one moment
	position=$(value once qim_position_offset)
	before=$(value once qim_lag_records)
	[ $((position + before)) -eq 3000 ]
	cat <pipe >/dev/null 7>&- 3>&- &
	reader=$!
	exec 7>&-
	wait_until 20 is_lag 0
	[ "$(value outbox-read qim_position_offset)" = 3000 ]
	kill "$pid"
	wait "$pid"
	wait "$reader"
}

is_lag() {
	[ "$(value outbox-read qim_lag_records)" = "$1" ]
}

is_more() {
	local now
	now=$(value "$1" "$2" "${4-}")
	((${now:-0} >= $3))
}

is_there() {
	[ -n "$(value "$@")" ]
}

# The file plan: dispatches of 50 messages.
make_plan() {
	start_mock -t outbox:1
	lines 50 | outbox-write -b "$MOCK_BROKERS" -t outbox
	outbox-read -b "$MOCK_BROKERS" -t outbox -g g --first beginning -e |
		fanout-plan -n 4 >plan
}

# bats test_tags=slow
@test "retries, request times and errors by kind come out of a broker's trouble" {
	make_plan
	start_mock -t outbox:1 -t dispatch:4 \
		--error produce=NOT_LEADER_FOR_PARTITION:3 \
		--error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:8
	mkfifo pipe
	# All records in each request, however slowly they come.
	# shellcheck disable=SC2086
	{
		dispatch-produce -b "$MOCK_BROKERS" -t dispatch \
			-X linger.ms=1000 $show <pipe |
			offset-commit -b "$MOCK_BROKERS" -g g $show
	} 3>&- &
	exec 7>pipe
	# Held open: the statistics come once a second.
	head -c -20 plan >&7
	wait_until 20 is_more dispatch-produce qim_retries_total 150
	wait_until 20 is_there dispatch-produce qim_kafka_request_mean_seconds
	tail -c 20 plan >&7
	exec 7>&-
	wait "$!"
	[ "$(value dispatch-produce qim_exit_code)" = 0 ]
	# Three requests with all of the 50 records each.
	[ "$(value dispatch-produce qim_retries_total)" = 150 ]
	(($(value offset-commit qim_retries_total) >= 1))
	(($(value offset-commit qim_kafka_errors_total 'kind="leader"') >= 1))
}

@test "an OUT_OF_ORDER_SEQUENCE is counted where the program ends of it" {
	make_plan
	start_mock -t outbox:1 -t dispatch:4 \
		--error produce=OUT_OF_ORDER_SEQUENCE_NUMBER:20
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	# shellcheck disable=SC2086
	run -75 bash -c "dispatch-produce -b $MOCK_BROKERS -t dispatch $show \
		<plan >receipts"
	(($(value dispatch-produce qim_kafka_errors_total 'kind="out_of_order"') >= 1))
	[ "$(value dispatch-produce qim_exit_code)" = 75 ]
}

# bats test_tags=slow
@test "mailbox-apply's figures are those of its receipts and its quarantine" {
	start a
	messages | stream >in
	# shellcheck disable=SC2086
	apply $show <in >out
	[ "$(value mailbox-apply qim_records_total)" = 11 ]
	[ "$(value mailbox-apply qim_batches_total)" = 4 ]
	[ "$(value mailbox-apply qim_mailbox_entries_total)" = \
		"$(of_all 'map(.out // 0) | add' <out)" ]
	[ "$(value mailbox-apply qim_skipped_total)" = 0 ]
	[ "$(value mailbox-apply qim_step_seconds_count)" = 4 ]
	(($(value mailbox-apply qim_redis_rounds_total "node=\"$R\"") >= 4))
	[ "$(value mailbox-apply qim_redis_rounds_total)" = \
		"$(value mailbox-apply qim_redis_round_seconds_count)" ]
	[ "$(value mailbox-apply qim_redis_in_flight_rounds)" = 0 ]
	[ "$(sum mailbox-apply qim_redis_errors_total)" = 0 ]
	# Again: all of it lies below the marks.
	# shellcheck disable=SC2086
	apply $show <in >out
	[ "$(value mailbox-apply qim_skipped_total)" = 11 ]
	[ "$(value mailbox-apply qim_mailbox_entries_total)" = 0 ]
	# A duplicate, a conflict and junk.
	{
		echo '{"conversation_id":"x","conversation_seq":1,"to":["lou"],"sender":"x"}'
		echo '{"conversation_id":"x","conversation_seq":1,"to":["lou"],"sender":"x"}'
		echo '{"conversation_id":"x","conversation_seq":1,"to":["lou"],"sender":"y"}'
	} | stream >in
	redis_cli a FLUSHALL >/dev/null
	# shellcheck disable=SC2086
	apply $show <in >out
	[ "$(value mailbox-apply qim_repeats_total)" = 1 ]
	[ "$(value mailbox-apply qim_quarantined_total)" = \
		"$(of_all 'map(.dead // 0) | add' <out)" ]
	[ "$(value mailbox-apply qim_quarantined_total)" = 1 ]
}

# bats test_tags=slow
@test "a node that dies: errors, connections made again, rewinds" {
	start a
	run_waiting --connections 1 --prom prom --chain c
	redis_kill a
	touch go
	wait_until 10 is_more mailbox-apply qim_redis_errors_total 1 '"transport"'
	redis_run a
	wait "$PID"
	(($(value mailbox-apply qim_redis_reconnects_total) >= 1))
	(($(value mailbox-apply qim_redis_rewinds_total) >= 1))
	[ "$(value mailbox-apply qim_redis_errors_total '"lost_data"')" = 0 ]
	start a
	run_waiting --connections 1 --prom prom --chain c
	redis_cli a FLUSHALL >/dev/null
	touch go
	wait "$PID" || status=$?
	[ "$status" -eq 75 ]
	[ "$(value mailbox-apply qim_redis_errors_total '"lost_data"')" = 1 ]
}
