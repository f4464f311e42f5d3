#!/usr/bin/env bats
# Where Kafka and Redis disagree, on a real broker: the mailbox chain says both
# numbers and stops, and goes on once a person has set the mark.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka
load ../lib/redis

setup() {
	need_kafka 1
	cd "$BATS_TEST_TMPDIR" || exit
	OUTBOX=$(unique outbox) DISPATCH=$(unique dispatch) GROUP=$(unique group)
	kafka_create_topics "$OUTBOX:1:1" "$DISPATCH:1:1"
	redis_start a --appendonly yes
	R=127.0.0.1:$(redis_port a)
}

# dispatches FROM TO: messages to ann, through the fan-out chain.
dispatches() {
	local i
	for ((i = $1; i <= $2; i++)); do
		printf '{"message_id":"m%s","conversation_id":"c","conversation_seq":%s,"sender":"bob","created_at":1,"payload":1,"recipients":["ann"]}\n' "$i" "$i"
	done | outbox-write -b "$KAFKA_BROKERS" -t "$OUTBOX"
	outbox-read -b "$KAFKA_BROKERS" -t "$OUTBOX" -g "$GROUP.f" --first beginning -e |
		fanout-plan -n 1 |
		dispatch-produce -b "$KAFKA_BROKERS" -t "$DISPATCH" |
		offset-commit -b "$KAFKA_BROKERS" -g "$GROUP.f"
}

chain() {
	"$qim_root/pipelines/mailbox" --once --lock-dir "$BATS_TEST_TMPDIR/locks" -b "$KAFKA_BROKERS" -t "$DISPATCH" \
		-g "$GROUP" -r "$R" -n 1 --stage outbox-read=-e \
		--stage outbox-read=--first --stage outbox-read=beginning "$@"
}

entries() {
	mailbox-read -q -r "$R" -n 1 box -u ann -c 100 | jq -c .conversation_seq |
		tr '\n' ' '
}

@test "retention has passed the mark: 65, the numbers, --set-mark, and on" {
	dispatches 1 4
	chain
	[ "$(entries)" = '1 2 3 4 ' ]
	dispatches 5 12
	kafka_delete_records "$DISPATCH" 0 9
	run -65 --separate-stderr chain
	expect_message "${DISPATCH}[0]: offset out of range: start 4 (file), the log holds 9 to 12"
	# As the message of mailbox-apply(1) says.
	run -0 mailbox-apply -q -r "$R" -n 1 --set-mark "$DISPATCH:0=9"
	[ "$output" = "${DISPATCH}[0] 4 -> 9" ]
	offset-commit -q -b "$KAFKA_BROKERS" -g "$GROUP" --set "$DISPATCH=9"
	chain
	[ "$(entries)" = '1 2 3 4 10 11 12 ' ]
	# What was passed over can be dispatched again.
	offset-commit -q -b "$KAFKA_BROKERS" -g "$GROUP.f" --set "$OUTBOX=4"
	dispatches 13 13
	chain
	[ "$(entries)" = '1 2 3 4 10 11 12 5 6 7 8 9 13 ' ]
}

@test "no mark, and the topic no longer begins at 0: the same" {
	dispatches 1 6
	kafka_delete_records "$DISPATCH" 0 2
	run -65 --separate-stderr chain
	expect_message "${DISPATCH}[0]: offset out of range: start 0 (file), the log holds 2 to 6"
	mailbox-apply -q -r "$R" -n 1 --set-mark "$DISPATCH:0=2"
	chain
	[ "$(entries)" = '3 4 5 6 ' ]
}

@test "a mark beyond the log: 65" {
	dispatches 1 3
	mailbox-apply -q -r "$R" -n 1 --set-mark "$DISPATCH:0=7"
	run -65 --separate-stderr chain
	expect_message "${DISPATCH}[0]: offset out of range: start 7 (file), the log holds 0 to 3"
}

@test "Redis lost all: the same mailboxes with the same mailbox_seqs" {
	local before
	dispatches 1 6
	chain
	before=$(mailbox-read -q -r "$R" -n 1 box -u ann -c 100)
	redis_cli a FLUSHALL
	chain
	[ "$(mailbox-read -q -r "$R" -n 1 box -u ann -c 100)" = "$before" ]
}
