#!/usr/bin/env bats
# Brokers killed, ended in order, frozen, and gone, one or all, under both
# chains. What single programs do then is in tests/kafka/35, 40 and 41; fresh
# producers while leaders change, with receipts against the topic, in 35.

bats_require_minimum_version 1.5.0
load ../lib/faults

setup() {
	faults_begin
	RETRIED=1
}

teardown() {
	faults_end
	need_kafka 3
}

coordinator() {
	kafka_admin coordinator "$GROUP-$1"
}

start_nodes() {
	local node
	for node; do
		kafka_run_node "$node"
	done
}

# Each of the three leads a third of all partitions. An idempotent producer keeps
# the order, and repeats nothing, whatever is sent again.
@test "a leader and coordinator killed (-9), another one ended (-TERM)" {
	local round node how
	CHAIN_ENV=(QIM_FANOUT_PRODUCER_IDEMPOTENCE=true)
	RETRIED=''
	faults_start
	for ((round = 1; round <= $(long_or 3 1); round++)); do
		for how in kill/fanout term/mailbox; do
			node=$(coordinator "${how#*/}")
			fault "broker $node: ${how%/*}"
			"kafka_${how%/*}" "$node"
			caught_up 40 "broker $node, coordinator of ${how#*/}: ${how%/*}"
			start_nodes "$node"
			kafka_wait_isr "$OUTBOX" "$DISPATCH" __consumer_offsets
		done
	done
	expect_whole
}

# A stage that is started again begins another file.
receipts() {
	local file
	for file in "$RUN"/receipts*; do
		stream-dump --part <"$file" 2>/dev/null
	done | grep -c '"out":[1-9]'
}

# in_flight: batches that dispatch-produce was given and has no receipt for, as
# it says once a second.
in_flight() {
	sed -n 's/^qim_in_flight_batches{.*} //p' \
		"$RUN"/locks/fanout*/qim-*-dispatch-produce.prom
}

has_in_flight() {
	(($(in_flight) > 0))
}

nothing_in_flight() {
	(($(in_flight) == 0))
}

# The Outbox can't be written then. So that there is something to dispatch its
# reader is held up before, while the load goes on; and the broker that is left
# leads what it reads.
@test "two of three brokers gone: no receipt; all gone; back: it goes on" {
	local before left node
	FANOUT_MORE+=(--tap "dispatch-produce=$RUN/receipts" --tap-files 999)
	faults_start
	wait_until 30 receipts
	left=$(kafka_leader "$OUTBOX" 0)
	signal_stage STOP fanout outbox-read
	sleep 2
	wait_until 30 nothing_in_flight
	sleep 1
	before=$(receipts)
	fault 'two brokers killed'
	for node in 1 2 3; do
		((node == left)) || kafka_kill "$node"
	done
	signal_stage CONT fanout outbox-read
	wait_until 30 has_in_flight
	# Longer than it takes to go on without one broker. The same stage, or a
	# new one: nothing more is acknowledged.
	sleep "$(long_or 60 10)"
	(($(receipts) == before)) || fail "$(receipts) receipts, not $before"
	fault 'the third one killed'
	kafka_kill "$left"
	sleep "$(long_or 60 2)"
	start_nodes 1 2 3
	caught_up 120 'all brokers gone, and started again'
	expect_whole
}

@test "a broker frozen (SIGSTOP), for longer than its session" {
	local round node
	faults_start
	for ((round = 1; round <= $(long_or 3 1); round++)); do
		node=$(coordinator fanout)
		fault "broker $node stopped"
		kafka_pause "$node"
		sleep "$(long_or 45 7)"
		kafka_resume "$node"
		caught_up 60 "broker $node stopped"
		kafka_wait_isr "$OUTBOX" "$DISPATCH" __consumer_offsets
	done
	expect_whole
}

# For longer than records have, then 20 s in which all goes on: a producer that is
# idempotent has lost records so (librdkafka's issue 4134).
# bats test_tags=long
@test "two of three brokers frozen (SIGSTOP), again and again" {
	local round node
	CHAIN_ENV=(QIM_FANOUT_PRODUCER_IDEMPOTENCE=true)
	FANOUT_MORE+=(--stage dispatch-produce=-X
		--stage dispatch-produce=message.timeout.ms=30000)
	faults_start
	for ((round = 1; round <= $(long_or 5 1); round++)); do
		node=$(coordinator fanout)
		fault "all brokers but $node stopped"
		kafka_pause $((node % 3 + 1))
		kafka_pause $(((node + 1) % 3 + 1))
		sleep 45
		kafka_resume $((node % 3 + 1))
		kafka_resume $(((node + 1) % 3 + 1))
		sleep 20
	done
	caught_up 60 'two brokers stopped'
	kafka_wait_isr "$OUTBOX" "$DISPATCH" __consumer_offsets
	expect_whole
}
