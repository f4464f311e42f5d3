#!/usr/bin/env bats
# Both chains on three brokers and two Redis: every mailbox against what was
# sent, in peace and with stages killed; tests/faults kills them under load.

bats_require_minimum_version 1.5.0
export BATS_TEST_TIMEOUT=1800 # looked at before setup
load ../lib/common
load ../lib/kafka
load ../lib/redis
load ../lib/chains

setup() {
	messages=60000
	[[ ${QIM_FAULTS:-short} == short ]] || messages=200000
	need_kafka 3
	RUN=$BATS_TEST_TMPDIR
	OUTBOX=$(unique outbox) DISPATCH=$(unique dispatch) GROUP=$(unique group)
	kafka_create_topics "$OUTBOX:4:3" "$DISPATCH:64:3"
	redis_start whole-a
	redis_start whole-b
	REDIS=127.0.0.1:$(redis_port whole-a),127.0.0.1:$(redis_port whole-b)
}

teardown() {
	end_chains
	redis_stop whole-a
	redis_stop whole-b
}

@test "messages with 1 to 300 recipients: every mailbox as it was sent" {
	python3 "$qim_root/tests/lib/messages.py" "$messages" >"$RUN/sent"
	outbox-write -b "$KAFKA_BROKERS" -t "$OUTBOX" <"$RUN/sent"
	run_to_end
	expect_committed_end "$GROUP-fanout" "$OUTBOX"
	expect_committed_end "$GROUP-mailbox" "$DISPATCH"
	run -0 expect_mailboxes "$RUN/sent"
	sed "s/^/# /" <<<"$output" >&3
	[[ $output == *"messages $messages "*"inverted 0"* ]]
	run -0 audit --drained
	[[ $output == *'"messages":'$messages,* ]]
}

@test "each of the seven stages killed (-9) at random moments: the same" {
	local victims=(fanout/outbox-read fanout/fanout-plan
		fanout/dispatch-produce fanout/offset-commit mailbox/outbox-read
		mailbox/mailbox-apply mailbox/offset-commit) victim
	python3 "$qim_root/tests/lib/messages.py" "$messages" 2 >"$RUN/sent"
	split -n l/${#victims[@]} -d -a 3 "$RUN/sent" "$RUN/piece."
	start_chains
	local n=0
	for victim in $(shuf -e "${victims[@]}"); do
		outbox-write -b "$KAFKA_BROKERS" -t "$OUTBOX" \
			<"$(printf '%s/piece.%03d' "$RUN" $n)"
		sleep "0.$((RANDOM % 900 + 100))"
		kill_stage "${victim%/*}" "${victim#*/}"
		n=$((n + 1))
	done
	stop_chains
	run_to_end
	expect_committed_end "$GROUP-fanout" "$OUTBOX"
	expect_committed_end "$GROUP-mailbox" "$DISPATCH"
	run -0 audit --drained
	sed "s/^/# /" <<<"killed ${#victims[@]}; $output" >&3
	[[ $output == *'"messages":'$messages,* ]]
}
