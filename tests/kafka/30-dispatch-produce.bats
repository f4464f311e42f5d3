#!/usr/bin/env bats
# dispatch-produce on a real broker: what a broker refuses a whole request for,
# several connections, in-sync replicas that are missing.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
	stream=$BATS_TEST_TMPDIR/in.qim
	answer=$BATS_TEST_TMPDIR/out.qim
}

# dispatches PARTITIONS BATCHES RECORDS [FILTER]: to partitions in turn, in
# requests of many; the jq FILTER may change the record number $i.
dispatches() {
	jq -nc --argjson p "$1" --argjson b "$2" --argjson r "$3" '
		{qim: 1, minor: 0, kind: "dispatches", from: "x", run: 7,
			topic: "outbox", group: "g",
			start: [["outbox", 0, 0, "stored"]], partitions: $p},
		(range($b) as $n | {batch: ($n + 1),
			src: [["outbox", 0, ($n * $r), (($n + 1) * $r)]],
			at: [], rec: [range($n * $r; ($n + 1) * $r) as $i |
				[null, $i % $p, "k\($i)", "v\($i)", null, [0, $i]] |
				'"${4:-.}"']}),
		{end: true, batches: $b, records: ($b * $r)}' |
		stream-make >"$stream"
}

produce() {
	timeout -k 5 60 dispatch-produce -b "$KAFKA_BROKERS" -t "$topic" "$@"
}

receipts() {
	stream-dump <"$answer" 2>/dev/null | jq -c 'select(.src and .batch)'
}

# show TOPIC FORMAT: its records, from an independent reader. On stderr kcat
# may name a broker that is gone.
show() {
	kcat -C -b "$KAFKA_BROKERS" -t "$1" -e -q -f "$2\n" \
		2>"$BATS_TEST_TMPDIR/kcat"
}

# refuses RECORD TEXT: in a batch of 40, record 45 is at fault.
refuses() {
	local idempotent dead
	dispatches 4 3 40 "if \$i == 45 then $1 else . end"
	for idempotent in false true; do
		export QIM_FANOUT_PRODUCER_IDEMPOTENCE=$idempotent
		run -65 bash -c 'timeout 60 dispatch-produce -q \
			-b "$KAFKA_BROKERS" -t "$1" <"$2" >"$3"' \
			_ "$topic" "$stream" "$answer"
		[ "$output" = "dispatch-produce: error: $topic [1]: the record from outbox [0] offset 45: $2 (not persisted)" ]
		run -0 jq -sc 'map([.batch, .out])' <(receipts)
		[ "$output" = '[[1,40]]' ]

		dead=$(unique dead)
		kafka_create_topic "$dead" 1
		produce -q --dead-letter "$dead" <"$stream" >"$answer"
		run -0 jq -sc 'map([.batch, .out, .dead])' <(receipts)
		[ "$output" = '[[1,40,0],[2,39,1],[3,40,0]]' ]
		run -0 show "$dead" '%S %h'
		[ "${#lines[@]}" -eq 1 ]
		[[ $output == *"qim-topic=outbox,qim-partition=0,qim-offset=45,qim-reason=$topic [1]: $2 (not persisted),qim-program=dispatch-produce" ]]
		# The others of its request are all there.
		run -0 bash -c 'sort -u | wc -l' < <(show "$topic" %s)
		[ "$output" = 119 ]
	done
}

@test "a record too large among others: it alone is at fault" {
	kafka_create_topic "$topic" 4 max.message.bytes=20000
	refuses '.[3] = "x" * 30000' \
		"30003 bytes: larger than the topic's max.message.bytes, 20000"
}

@test "a record without a key on a compacted topic: it alone is at fault" {
	kafka_create_topic "$topic" 4 cleanup.policy=compact
	refuses '.[2] = null' \
		'3 bytes: Broker: Broker failed to validate record'
}

@test "a dead letter fits its topic, whatever the record" {
	local dead
	dead=$(unique dead)
	kafka_create_topic "$topic" 4
	kafka_create_topic "$dead" 1 max.message.bytes=5000
	dispatches 4 1 4 'if $i == 2 then .[3] = "x" * 2000000 else . end'
	produce -q --dead-letter "$dead" <"$stream" >"$answer"
	run -0 jq -c '[.out, .dead]' <(receipts)
	[ "$output" = '[3,1]' ]
	run -0 show "$dead" %S
	((output > 3000 && output < 5000))
}

@test "--connections 4: the same partitions, each in order, receipts in order" {
	local idempotent
	dispatches 8 40 100 'if $i % 3 == 0 then .[1] = -1 else . end'
	for idempotent in false true; do
		topic=$(unique topic)
		kafka_create_topic "$topic" 8
		QIM_FANOUT_PRODUCER_IDEMPOTENCE=$idempotent produce -v \
			--connections 4 <"$stream" >"$answer" \
			2>"$BATS_TEST_TMPDIR/err"
		grep -q ' info: delivered 4000, unproven 0, not persisted 0, ' \
			"$BATS_TEST_TMPDIR/err"
		run -0 jq -sc 'map(.batch) == [range(1; 41)], (map(.out) | add)' \
			<(receipts)
		[ "$output" = $'true\n4000' ]
		show "$topic" '%p %k %s' >"$BATS_TEST_TMPDIR/have"
		[ "$(cut -d ' ' -f 2 "$BATS_TEST_TMPDIR/have" | sort -u | wc -l)" \
			-eq 4000 ]
		# In each partition the records are in the order of the input.
		run -0 awk '{ n = substr($3, 2) + 0
			if (($1 in last) && n <= last[$1]) bad++
			last[$1] = n } END { print bad + 0 }' \
			"$BATS_TEST_TMPDIR/have"
		[ "$output" = 0 ]
		# By the key, as kcat places it; or as the record says.
		kafka_create_topic "$topic.kcat" 8
		seq 0 3 3999 | sed 's/.*/k&:v&/' | kcat -P -b "$KAFKA_BROKERS" \
			-t "$topic.kcat" -K : -p -1 -X topic.partitioner=murmur2_random
		diff <(show "$topic.kcat" '%p %k %s' | sort) \
			<(awk '(substr($2, 2) + 0) % 3 == 0' \
				"$BATS_TEST_TMPDIR/have" | sort)
		run -0 awk '{ n = substr($2, 2) + 0
			bad += n % 3 != 0 && n % 8 != $1 }
			END { print bad + 0 }' "$BATS_TEST_TMPDIR/have"
		[ "$output" = 0 ]
	done
}

# It has to know itself: it would take records until then.
leader_is_alone() {
	[ "$(KAFKA_BROKERS=127.0.0.1:$(<"$KAFKA_DIR/$1/port") \
		kafka_isr "$topic" 0)" = "$1" ]
}

@test "min.insync.replicas not met: no receipt, 75, and the counts say what is known" {
	local leader follower
	need_kafka 3
	kafka_create_topics "$topic:1:2" min.insync.replicas=2
	leader=$(kafka_leader "$topic" 0)
	follower=$(kafka_isr "$topic" 0 | tr , '\n' | grep -vx "$leader")
	kafka_kill "$follower"
	wait_until 60 leader_is_alone "$leader"
	dispatches 1 3 10
	run -75 --separate-stderr bash -c 'timeout 60 dispatch-produce \
		-b "$KAFKA_BROKERS" -t "$1" -X message.timeout.ms=1500 \
		<"$2" >"$3"' _ "$topic" "$stream" "$answer"
	[[ ${stderr_lines[0]} =~ ^'dispatch-produce: warning: delivered 0, unproven 0, not persisted '([0-9]+)', possibly persisted '([0-9]+)'; ' ]]
	((BASH_REMATCH[1] + BASH_REMATCH[2] == 30))
	[[ ${stderr_lines[1]} == "dispatch-produce: error: $topic [0]: the record from outbox [0] offset "*': Local: Message timed out ('*' persisted)' ]]
	run -0 receipts
	[ -z "$output" ]
	run -0 show "$topic" %s
	[ -z "$output" ]
	# It goes on where it is started again.
	kafka_restart "$follower"
	kafka_wait_isr "$topic"
	produce <"$stream" >"$answer"
	run -0 jq -sc 'map(.batch)' <(receipts)
	[ "$output" = '[1,2,3]' ]
}

@test "times that the topic refuses: 75, no dead letter" {
	local dead
	# As those of a clock that is two hours ahead would be.
	kafka_create_topic "$topic" 3 message.timestamp.before.max.ms=1
	dead=$(unique dead)
	kafka_create_topic "$dead" 1
	dispatches 3 3 10
	run -75 --separate-stderr bash -c 'timeout 60 dispatch-produce -q \
		-b "$KAFKA_BROKERS" -t "$1" --dead-letter "$2" \
		-X linger.ms=100 <"$3" >"$4"' \
		_ "$topic" "$dead" "$stream" "$answer"
	[[ $stderr == *"the record from outbox [0] offset "*": Broker: Invalid timestamp: this host's clock, or the topic's message.timestamp limits (not persisted)" ]]
	run -0 receipts
	[ -z "$output" ]
	[ "$(kafka_count "$topic")$(kafka_count "$dead")" = 00 ]
}

@test "--kafka-stats: what a benchmark reads of it" {
	kafka_create_topic "$topic" 8
	dispatches 8 20 100
	produce --connections 2 --kafka-stats "$BATS_TEST_TMPDIR/stats" \
		-X statistics.interval.ms=200 <"$stream" >"$answer"
	run -0 jq -se --arg t "$topic" 'group_by(.name) | map(last) |
		length == 2 and (map(.txmsgs) | add) == 2000 and
		(map(.brokers[] | select(.nodeid > 0) | .req.Produce) | add) > 0
		and all(.[].brokers[]; .int_latency.p99 != null and
			.outbuf_latency.p99 != null and .rtt.p99 != null)
		and all(.[].topics[$t]; .batchsize.avg != null and
			.batchcnt.avg != null)' "$BATS_TEST_TMPDIR/stats"
}
