#!/usr/bin/env bats
# The faults of tests/kafka/35-leader.bats for longer, and ten times over.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154

bats_require_minimum_version 1.5.0
export BATS_TEST_TIMEOUT=3600 # looked at before setup
load ../lib/common
load ../lib/kafka
load ../lib/produce

setup_file() {
	need_kafka 3
	make_plan 40000
}

setup() {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=false
	need_kafka 3
}

teardown() {
	end_runs
}

@test "a leader is killed, ten times" {
	for round in {1..10}; do
		leader_killed "leader killed, $round"
	done
}

@test "the same with an idempotent producer" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	for round in {1..10}; do
		leader_killed "leader killed, idempotent, $round"
	done
}

@test "a leader isn't heard until records time out, with and without idempotence" {
	for round in 1 2; do
		for QIM_FANOUT_PRODUCER_IDEMPOTENCE in false true; do
			records_time_out \
				"timeouts, $QIM_FANOUT_PRODUCER_IDEMPOTENCE, $round"
		done
	done
}

@test "fresh idempotent producers while leaders change, ten times" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	for round in {1..10}; do
		fresh_producers "$round"
	done
}

@test "fewer in sync than min.insync.replicas: no receipt; then it goes on" {
	begin in-sync min.insync.replicas=3
	brokers_gone 'too few in sync' 2
}

@test "a broker that is stopped (SIGSTOP) for 45 s" {
	leader_paused 45
}

@test "every connection is reset once a second, for half a minute" {
	resets 400000
}

@test "connections half-open for 30 s" {
	half_open 30
}
