#!/usr/bin/env bats
# offset-commit while brokers are killed, frozen and started again: it never
# waits beyond its deadline, commits nothing that wasn't acknowledged, and
# moves nothing back.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

# cluster COUNT: with a topic and a group of its own.
cluster() {
	need_kafka "$1"
	topic=$(unique topic)
	group=$(unique group)
	dir=$BATS_TEST_TMPDIR
	err=$dir/err
	kafka_create_topic "$topic" 2
}

# Ten offsets more of both partitions at a time, until the file `stop` is
# there. The ledger has each before it is in the pipe.
acknowledge() {
	local n=1 next=0
	echo "{\"qim\":1,\"minor\":0,\"kind\":\"receipts\",\"from\":\"made-up\",\"run\":7,\"topic\":\"$topic\",\"group\":\"$group\",\"start\":[[\"$topic\",0,0,\"first\"],[\"$topic\",1,0,\"first\"]],\"durable\":true}"
	receipt 1 0 0
	while [[ ! -e $dir/stop ]]; do
		echo "$EPOCHREALTIME ack $((next + 10))" >>"$dir/ledger"
		receipt "$((++n))" "$next" "$((next + 10))"
		next=$((next + 10))
		sleep 0.05
	done
	echo "{\"end\":true,\"batches\":$n,\"records\":$n}"
}

# receipt N FROM NEXT
receipt() {
	echo "{\"batch\":$1,\"src\":[[\"$topic\",0,$2,$3],[\"$topic\",1,$2,$3]],\"in\":1,\"out\":1,\"dead\":0,\"bytes\":0,\"at\":[]}"
}

# start option...: offset-commit as $pid with such an input, and a poll of what
# is committed as $follow.
start() {
	echo "$EPOCHREALTIME ack 0" >"$dir/ledger"
	acknowledge 3>&- | stream-make 3>&- |
		offset-commit -v -b "$KAFKA_BROKERS" -g "$group" "$@" \
			2>"$err" 3>&- &
	pid=$!
	python3 -ES "$qim_root/tests/lib/kafka-admin.py" "$KAFKA_BROKERS" \
		follow "$group" "$topic" >"$dir/polls" 3>&- &
	follow=$!
}

teardown() {
	touch "$BATS_TEST_TMPDIR/stop"
	kill "$pid" "$follow" 2>/dev/null || true
}

count_commits() {
	grep -c 'info: committed in' "$err"
}

has_commits() {
	[ "$(count_commits)" -ge "$1" ]
}

# goes_on: three commits are made, from now on.
goes_on() {
	wait_until 90 has_commits "$(($(count_commits) + 3))"
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

# ends STATUS: with its input, if it hasn't by itself; it doesn't hang.
ends() {
	local status=0
	touch "$dir/stop"
	wait_until 60 gone "$pid"
	wait "$pid" || status=$?
	[ "$status" = "$1" ] || fail "exit $status, not $1: $(tail -n 3 "$err")"
	kill "$follow"
}

# expect_order [thawed]: what was polled is never above what was acknowledged by
# then, and never falls; of all that was ever committed nothing is below what
# was before it. A broker that was thawed answers polls with what it knew before
# until it has heard that it isn't the coordinator any more; one that is started
# again with what lies below its last high watermark.
expect_order() {
	sort -n "$dir/ledger" "$dir/polls" | awk -v thawed="${1-}" '
		$2 == "ack" { acked = $3; next }
		{ for (i = 2; i < NF; i += 2)
			if ($(i + 1) > acked ||
				$(i + 1) < was[$i] && thawed == "")
				{ print; wrong = 1 }
			else
				was[$i] = $(i + 1) }
		END { exit wrong }' || fail 'polled out of order'
	kcat -C -e -q -b "$KAFKA_BROKERS" -t __consumer_offsets \
		-f '%K %S\n%k%s' | python3 "$qim_root/tests/lib/commits.py" \
		"$group" >"$dir/log"
	awk '$3 < was[$2] { print; wrong = 1 } { was[$2] = $3 }
		END { exit wrong || NR < 4 }' "$dir/log" ||
		fail 'committed out of order'
}

expect_all_committed() {
	local last
	last=$(awk 'END { print $3 }' "$dir/ledger")
	[ "$(kafka_committed "$group" "$topic")" = "0 $last"$'\n'"1 $last" ]
}

kill_all() {
	local n
	for n in $(kafka_nodes); do
		kafka_kill "$n"
	done
}

start_all() {
	local n
	for n in $(kafka_nodes); do
		kafka_run_node "$n"
	done
}

# brokers_come_back COUNT
brokers_come_back() {
	cluster "$1"
	start --connect-ms 120000
	goes_on
	kill_all
	sleep 1
	kill -0 "$pid"
	start_all
	goes_on
	ends 0
	kafka_wait_isr "$topic" __consumer_offsets
	expect_order thawed
	expect_all_committed
}

# bats test_tags=long
@test "one broker, killed and started again: it goes on: 0" {
	brokers_come_back 1
}

# bats test_tags=long
@test "three brokers, all killed and started again: it goes on: 0" {
	brokers_come_back 3
}

# brokers_stay_away COUNT HOW BACK: and the input goes on.
brokers_stay_away() {
	local n
	cluster "$1"
	start --connect-ms 10000
	goes_on
	for n in $(kafka_nodes); do
		"$2" "$n"
	done
	ends 75
	for n in $(kafka_nodes); do
		"$3" "$n"
	done
	kafka_wait_isr "$topic" __consumer_offsets
	grep -Eq "error: not committed within 10000 ms: .*: $topic\[0\] [0-9]+ -> [0-9]+, " "$err"
	expect_order
}

@test "one broker, killed: 75 at the deadline, with what wasn't committed" {
	brokers_stay_away 1 kafka_kill kafka_run_node
}

@test "three brokers, all frozen: 75 at the deadline, with what wasn't committed" {
	brokers_stay_away 3 kafka_pause kafka_resume
}

# Others may be the coordinator while it is gone, so ask before.
# bats test_tags=long
@test "the coordinator is stopped in order, then another is frozen: it goes on: 0" {
	local node
	cluster 3
	start --connect-ms 120000
	goes_on
	node=$(kafka_admin coordinator "$group")
	kafka_term "$node"
	goes_on
	kafka_run_node "$node"
	kafka_wait_isr "$topic" __consumer_offsets
	node=$(kafka_admin coordinator "$group")
	kafka_pause "$node"
	goes_on
	kafka_resume "$node"
	kafka_wait_isr "$topic" __consumer_offsets
	goes_on
	ends 0
	expect_order thawed
	expect_all_committed
}
