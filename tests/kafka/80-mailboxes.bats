#!/usr/bin/env bats
# 100,000 mailbox entries over two Redis that are killed, restored from old
# copies and replaced by replicas, and from a topic that is applied again, twice
# at once and in part: mailbox-audit finds nothing, and where there is another
# run to compare with all is equal. QIM_MESSAGES (17000) and QIM_NODES (2) make
# it larger: tests/long asks for a million entries.

# shellcheck disable=SC2030,SC2031,SC2034,SC2154  # each test sets its own for chains
bats_require_minimum_version 1.5.0
export BATS_TEST_TIMEOUT=3600 # looked at before setup
load ../lib/common
load ../lib/kafka
load ../lib/redis
load ../lib/chains

setup_file() {
	need_kafka 1
	export OUTBOX DISPATCH FANOUT_GROUP RUN=$BATS_FILE_TMPDIR
	OUTBOX=$(unique outbox) DISPATCH=$(unique dispatch)
	GROUP=$(unique group) FANOUT_GROUP=$GROUP-fanout
	kafka_create_topics "$OUTBOX:4" "$DISPATCH:64"
	python3 "$qim_root/tests/lib/messages.py" "${QIM_MESSAGES:-17000}" 8 |
		outbox-write -q -b "$KAFKA_BROKERS" -t "$OUTBOX"
	run_to_end fanout
}

setup() {
	need_kafka 1
	RUN=$BATS_TEST_TMPDIR
	GROUP=$(unique group)
	MAILBOX_MORE=()
	nodes=${QIM_NODES:-2} patience=$((120 + ${QIM_MESSAGES:-0} / 500))
	total=$(kafka_count "$DISPATCH")
	cd "$RUN" || exit
}

teardown() {
	end_chains
	for ((i = 0; i < 2 * nodes; i++)); do
		redis_kill "n$i"
	done
}

# start_nodes FIRST [--setting value]...: as many as `nodes`, n<FIRST> and on;
# sets REDIS.
start_nodes() {
	local i first=$1
	shift
	REDIS=
	for ((i = first; i < first + nodes; i++)); do
		redis_start "n$i" "$@"
		REDIS+=,127.0.0.1:$(redis_port "n$i")
	done
	REDIS=${REDIS#,}
}

# The topic once more, from its beginning or from the marks, without a group.
apply() {
	outbox-read -q -b "$KAFKA_BROKERS" -t "$DISPATCH" -o "${1:-beginning}" -e |
		mailbox-apply -q -r "$REDIS" >receipts
}

forget_marks() {
	mailbox-apply -q -r "$REDIS" --set-mark "$DISPATCH:0-63=0" >moved
}

# expect_same FILE: the mailboxes stand as in an earlier dump.
expect_same() {
	dump_mailboxes >dump
	cmp dump "$1" || fail "the mailboxes differ from $1"
}

# finish: the chain up to the topic's end, and what it says of all.
finish() {
	stop_chains mailbox
	run_to_end mailbox
	expect_committed_end "$GROUP-mailbox" "$DISPATCH"
	run -0 audit --drained
	echo "# $1; $output" >&3
}

# Small batches, one after the other: many moments to die at, and the chain
# doesn't get to the end before.
slowly() {
	MAILBOX_MORE=(--stage "outbox-read=--batch=$((${QIM_MESSAGES:-17000} / 700))" --stage mailbox-apply=-w1)
}

@test "nodes killed (-9) and restarted, AOF every second: nothing is wrong" {
	local i node at='' auditor
	start_nodes 0 --appendonly yes --appendfsync everysec
	slowly
	start_chains mailbox
	# Beside the running chain; where a node has just gone it ends with 69.
	(
		while [[ ! -e stop ]]; do
			audit || echo "exit $?"
		done
	) >audits 2>&1 3>&- &
	auditor=$!
	for ((i = 1; i <= 6; i++)); do
		node=n$((i % nodes))
		wait_until "$patience" marks_reach $((total * i / 8))
		at+=" $(marks_sum)"
		redis_kill "$node"
		redis_run "$node"
	done
	finish "killed at$at of $total"
	wait "$auditor"
	run ! grep -e '"found"' -e 'exit 1$' audits
}

@test "applied again, by two at once, and a part appended again: all equal" {
	local before
	start_nodes 0
	apply
	dump_mailboxes >first
	run -0 audit --drained
	# All of it again.
	forget_marks
	apply
	expect_same first
	# Twice at once, over what stands there and from nothing.
	forget_marks
	apply & apply
	wait $!
	expect_same first
	start_nodes "$nodes"
	apply & apply
	wait $!
	expect_same first
	# What stands in one partition once more at later offsets.
	before=$(kafka_count "$DISPATCH")
	outbox-read -q -b "$KAFKA_BROKERS" -t "$DISPATCH" -p 5 -o beginning -e |
		stream-dump | sed "s/$DISPATCH/another/g" |
		jq -c 'if .kind then .kind = "dispatches" | .partitions = 64
			elif .rec then .rec |= map([null, 5, .[3], .[4], .[5], [.[0], .[1]]])
			else . end' | stream-make |
		dispatch-produce -q -b "$KAFKA_BROKERS" -t "$DISPATCH" >produced
	(($(kafka_count "$DISPATCH") > before + 100))
	mailbox-read -q -r "$REDIS" positions -t "$DISPATCH" >marks
	run -0 audit
	[[ $output == *"\"unapplied\":$(($(kafka_count "$DISPATCH") - before)),"* ]]
	apply @marks
	expect_same first
	run -0 audit --drained
	[[ $output == *"\"repeats\":$(($(kafka_count "$DISPATCH") - before)),"* ]]
	echo "# $output" >&3
}

@test "a node restored from an old copy: noticed, rewound, the same" {
	start_nodes 0
	slowly
	start_chains mailbox
	wait_until "$patience" marks_reach $((total / 3))
	marks_sum >saved
	redis_cli n1 SAVE
	wait_until "$patience" marks_reach "$total"
	dump_mailboxes >first
	redis_kill n1
	redis_run n1
	marks_sum >restored
	wait_until "$patience" marks_reach "$total"
	wait_until 60 expect_committed_end "$GROUP-mailbox" "$DISPATCH"
	finish "restored, the marks at $(<saved) to $(<restored), of $total"
	expect_same first
	grep -E 'redis .*(lost data|this chain goes on from)' mailbox.log
}

# The chain finds the nodes by links to their sockets: a promoted replica takes
# the place of its master.
link_node() {
	ln -sfn "$(redis_socket "$2")" "$RUN/node$1"
}

# follow REPLICA MASTER: until it has all.
follow() {
	redis_cli "$1" REPLICAOF 127.0.0.1 "$(redis_port "$2")"
	wait_until 60 is_following "$1"
}

is_following() {
	redis_cli "$1" INFO replication | grep -q 'master_link_status:up'
}

# What was committed lies below the mark of a promoted replica.
expect_committed_below_marks() {
	kafka_committed "$GROUP-mailbox" "$DISPATCH" >committed
	mailbox-read -q -r "$REDIS" positions -t "$DISPATCH" |
		awk 'NR == FNR { offset[$1] = $2; next }
			offset[$2] > $3 { print "committed", offset[$2], "mark", $0; bad = 1 }
			END { exit bad }' committed -
}

@test "masters killed and replicas promoted, --wait-replicas 1: nothing is lost" {
	local i k at='' master=() replica=()
	# A new replica would be waited for, in case there comes another.
	start_nodes 0 --appendonly yes --repl-diskless-sync-delay 0
	start_nodes "$nodes" --appendonly yes --repl-diskless-sync-delay 0
	REDIS=
	for ((i = 0; i < nodes; i++)); do
		master[i]=n$i replica[i]=n$((nodes + i))
		follow "${replica[i]}" "${master[i]}"
		link_node "$i" "${master[i]}"
		REDIS+=,unix:$RUN/node$i
	done
	REDIS=${REDIS#,}
	slowly
	MAILBOX_MORE+=(--stage mailbox-apply=--wait-replicas=1)
	start_chains mailbox
	for ((k = 1; k <= 4; k++)); do
		i=$((k % nodes))
		wait_until "$patience" marks_reach $((total * k / 6))
		at+=" $(marks_sum)"
		redis_kill "${master[i]}"
		redis_cli "${replica[i]}" REPLICAOF NO ONE
		link_node "$i" "${replica[i]}"
		expect_committed_below_marks
		# The dead one comes back as the replica of its replica.
		redis_run "${master[i]}"
		set -- "${master[i]}" "${replica[i]}"
		master[i]=$2 replica[i]=$1
		follow "${replica[i]}" "${master[i]}"
	done
	finish "promoted at$at of $total"
	run ! grep -E 'lost data|this chain goes on from' mailbox.log
}

@test "what Kafka has deleted is compared where it can be" {
	local p
	start_nodes 0
	apply
	run -0 audit
	[[ $output == *'"unchecked":0,'* ]]
	# Not of partition 5: in it all stands twice by now.
	kafka_delete_records "$DISPATCH" 6 100
	run -0 audit --drained
	[[ $output == *'"unchecked":0,'* ]]
	for p in 0 1 2 3; do
		kafka_delete_records "$OUTBOX" "$p" 1000
	done
	run -0 audit --drained
	[[ $output != *'"unchecked":0,'* ]]
	redis_cli "n$((5 % nodes))" DEL 'qim:{5}:top'
	run -1 audit --list 0
	[[ $output == *'"order":'[1-9]* ]]
}
