#!/usr/bin/env bats
# A bad network between both chains and three brokers, and a clock that jumps.
# What dispatch-produce alone does then is in tests/kafka/35.

# shellcheck disable=SC2034  # the harness reads them
bats_require_minimum_version 1.5.0
load ../lib/faults

setup() {
	faults_begin
	RETRIED=1
}

teardown() {
	faults_end
	clear_faketime
	proxy_clear brokers
}

# What libfaketime shares between processes stays where they end by _exit or a
# signal.
clear_faketime() {
	local file pid
	for file in /dev/shm/faketime_shm_*; do
		pid=${file##*_}
		[[ -e /proc/$pid ]] ||
			rm -f "$file" "/dev/shm/sem.faketime_sem_$pid"
	done
}

@test "a slow network; connections cut, reset, half-open, forgotten" {
	local i how
	BROKERS=$KAFKA_PROXIED
	FANOUT_MORE+=(-X socket.timeout.ms=4000)
	MAILBOX_MORE+=(-X socket.timeout.ms=4000)
	faults_start
	fault '100 ms there and back, 3,000 kbit'
	proxy_set brokers delay both 50ms
	proxy_set brokers throttle both 375000
	sleep "$(long_or 60 4)"
	proxy_clear brokers
	caught_up 30 'a slow network'
	for ((i = 0; i < $(long_or 60 2); i++)); do
		for how in cut reset; do
			fault "connections: $how"
			proxy_set brokers "$how"
			sleep 0.7
		done
	done
	caught_up 30 'connections cut and reset'
	fault 'silence'
	proxy_set brokers hold both
	sleep "$(long_or 60 5)"
	proxy_set brokers resume both
	caught_up 40 'silence'
	fault 'connections forgotten'
	proxy_set brokers forget
	caught_up 40 'connections forgotten'
	expect_whole
}

# hold_or_resume HOW: of all brokers, one after the other, in any order.
hold_or_resume() {
	local node
	for node in $(shuf -e 1 2 3); do
		proxy_set "$node" "$1" both
		sleep "0.$((SRANDOM % 900 + 100))"
	done
}

# bats test_tags=long
@test "connections cut within an answer or a request; brokers silent in turns" {
	local i
	BROKERS=$KAFKA_PROXIED
	FANOUT_MORE+=(-X socket.timeout.ms=4000)
	MAILBOX_MORE+=(-X socket.timeout.ms=4000)
	faults_start
	for ((i = 0; i < $(long_or 90 10); i++)); do
		fault 'connections cut after so many bytes'
		proxy_set brokers cut-after both $((SRANDOM % 100000 + 1000))
		sleep 0.7
	done
	proxy_clear brokers
	caught_up 40 'connections cut after so many bytes'
	for ((i = 0; i < $(long_or 30 3); i++)); do
		fault 'silent one after the other'
		hold_or_resume hold
		sleep "$((SRANDOM % 3))"
		hold_or_resume resume
	done
	caught_up 40 'silent one after the other'
	expect_whole
}

# The wall clock of all processes of both chains; a broker refuses records from
# more than an hour ahead, unless it stamps them itself. libfaketime's stat(2)
# takes a semaphore of all processes, which one that is killed then never gives
# back: bash itself waits for it for ever.
@test "the clock jumps by 50 minutes, ahead and back" {
	local i offset name
	CHAIN_ENV=("LD_PRELOAD=$(find /usr/lib -name libfaketime.so.1 | head -n 1)"
		"FAKETIME_TIMESTAMP_FILE=$RUN/clock" FAKETIME_CACHE_DURATION=1
		FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1)
	echo +0 >"$RUN/clock"
	faults_start
	for ((i = 0; i < $(long_or 3 1); i++)); do
		for offset in +3000 +0; do
			fault "the clock: $offset s"
			echo "$offset" >"$RUN/clock"
			sleep "$(long_or 10 2)"
			caught_up 30 "the clock: $offset s"
		done
	done
	# librdkafka waits by the wall clock: what it awaits when that goes back
	# comes late, so that a stop may be abandoned (75).
	for name in fanout mailbox; do
		chains_stop "$name" || true
	done
	CHAIN_ENV=()
	chains_start
	expect_whole
}
