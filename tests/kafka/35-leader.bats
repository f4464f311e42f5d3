#!/usr/bin/env bats
# dispatch-produce while brokers die, stop, change leaders, and while the
# network is bad: whatever has a receipt is in the topic, and what has none is
# sent again until all has one. tests/long has more, and ten times of each.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154

bats_require_minimum_version 1.5.0
export BATS_TEST_TIMEOUT=600 # looked at before setup
load ../lib/common
load ../lib/kafka
load ../lib/produce

setup_file() {
	need_kafka 3
	make_plan 20000
}

setup() {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=false
	need_kafka 3
}

teardown() {
	end_runs
}

@test "the check itself: a batch with a receipt that isn't there is found" {
	local elsewhere
	begin check
	elsewhere=$(unique elsewhere)
	kafka_create_topic "$elsewhere" 64
	run_once -m 5
	checks topic "$KAFKA_BROKERS" "$topic" "$plan" "$RUN/receipts.00000"
	topic=$elsewhere run_once -m 5
	run -1 checks topic "$KAFKA_BROKERS" "$topic" "$plan" \
		"$RUN"/receipts.0000[01]
	[[ ${lines[0]} =~ ^'batches 10 of '.*', missing '[1-9][0-9]*', wrong 0' ]]
	# Nor may a receipt be left out, or a record be there that isn't planned.
	run -1 checks topic "$KAFKA_BROKERS" "$topic" "$plan" \
		"$RUN/receipts.00001"
	expect_message 'planned'
	checks rest -m 2 "$plan" >"$RUN/short"
	run -1 checks topic "$KAFKA_BROKERS" "$topic" "$RUN/short"
	[[ ${lines[0]} =~ ', wrong '[1-9] ]]
}

# bats test_tags=long
@test "a leader is killed: nothing that has a receipt is missing" {
	leader_killed 'leader killed'
}

# bats test_tags=long
@test "the same with an idempotent producer" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	leader_killed 'leader killed, idempotent'
}

# bats test_tags=long
@test "a leader isn't heard until records time out: 75, and again from the last receipt" {
	records_time_out 'timeouts'
}

@test "fresh idempotent producers while leaders change: what has a receipt is there" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	fresh_producers 1
}

# bats test_tags=long
@test "two of three brokers gone: no receipt; they are back: it goes on" {
	begin gone
	brokers_gone 'two gone' 1 2
}

# bats test_tags=long
@test "a broker that is stopped (SIGSTOP) for 10 s" {
	leader_paused 10
}

@test "a slow network: 100 ms there and back, 3,000 kbit" {
	begin slow
	plan=$RUN/short
	checks rest -m 20 "$BATS_FILE_TMPDIR/plan" >"$plan"
	brokers=$KAFKA_PROXIED
	proxy_set brokers delay both 50ms
	proxy_set brokers throttle both 375000
	start_all
	expect_all 'slow network'
}

# bats test_tags=long
@test "every connection is reset once a second" {
	resets 1500000
}

# bats test_tags=long
@test "connections half-open for longer than socket.timeout.ms" {
	half_open 4
}

# bats test_tags=long
@test "connections that a firewall has forgotten" {
	begin forgotten
	brokers=$KAFKA_PROXIED
	options=(-X socket.timeout.ms=2000)
	start_half
	proxy_set brokers forget
	go
	expect_all 'forgotten'
}
