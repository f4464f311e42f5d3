#!/usr/bin/env bats
# Offsets that aren't there: below the log, lost by the group, taken by aborted
# transactions, lost with the tail of a log. Each by itself, for one program,
# is in tests/kafka/15, 16, 40 and 50.

# shellcheck disable=SC2154  # set by the harness
bats_require_minimum_version 1.5.0
load ../lib/faults

setup() {
	faults_begin
}

teardown() {
	faults_end
}

# aborted TOPIC PARTITIONS: a transaction of each that never was.
aborted() {
	local p steps=()
	for ((p = 0; p < $2; p++)); do
		steps+=("$p:3:junk")
	done
	fault "an aborted transaction in $1"
	transact -X transactional.id="$GROUP" "$KAFKA_BROKERS" "$1" \
		begin "${steps[@]}" abort begin commit
}

has_end() {
	(($(kafka_end_offsets "$OUTBOX" | cut -d ' ' -f 2) >= $1))
}

@test "holes of aborted transactions; a second chain of the group is refused: 78" {
	local i chain
	faults_start
	for ((i = 0; i < $(long_or 50 3); i++)); do
		aborted "$OUTBOX" 4
		aborted "$DISPATCH" "$faults_partitions"
	done
	fault 'a second chain on this host'
	chain_command fanout
	run -78 "${chain[@]}" -b "$BROKERS"
	expect_message 'lock'
	caught_up 30 'aborted transactions'
	expect_whole
}

# offsets_deleted: until both chains have noticed, which takes them 10 s. A
# commit whose question what is committed was answered before puts them there
# again.
offsets_deleted() {
	local chain _
	for chain in fanout mailbox; do
		[[ -e $RUN/$chain.fatal ]] ||
			kafka_delete_group "$GROUP-$chain" || true # gone by now
	done
	for _ in {1..40}; do
		[[ ! -e $RUN/fanout.fatal || ! -e $RUN/mailbox.fatal ]] ||
			return 0
		sleep 0.5
	done
	return 1
}

@test "the group's offsets deleted: 78; below the log: 65; moved by a person, it goes on" {
	local p
	faults_start
	fault 'offsets deleted under both chains'
	wait_until 90 offsets_deleted
	expect_stop fanout 78 'offsets were deleted or expired'
	expect_stop mailbox 78 'offsets were deleted or expired'
	# The fan-out begins anew (--first beginning), the mailboxes know their
	# marks, and whose topic they are of.
	offset-commit -q -b "$KAFKA_BROKERS" -g "$GROUP-mailbox" \
		--lock-dir "$RUN/locks" --set "$DISPATCH=beginning" >"$RUN/moved"
	chains_start
	caught_up 60 'offsets deleted'
	chains_stop fanout
	fault 'records deleted behind an offset that went back'
	kafka_commit "$GROUP-fanout" "$OUTBOX" 0:1 1:1 2:1 3:1
	for p in 0 1 2 3; do
		kafka_delete_records "$OUTBOX" "$p" 20
	done
	chains_start fanout
	expect_stop fanout 65 'offset 1 is outside|out of range|the log holds'
	offset-commit -q -b "$KAFKA_BROKERS" -g "$GROUP-fanout" \
		--lock-dir "$RUN/locks" --set "$OUTBOX=beginning" >"$RUN/moved"
	chains_start fanout
	COMMITS_FALL=1
	expect_whole
}

# Where a topic allows it, a replica that lacks the tail becomes the leader.
@test "unclean election, the Outbox lost its tail: 65; what was delivered is told apart" {
	local leader follower end
	OUTBOX=$(unique outbox)
	kafka_create_topics "$OUTBOX:1:2" min.insync.replicas=1 \
		unclean.leader.election.enable=true
	faults_start
	leader=$(kafka_leader "$OUTBOX" 0)
	follower=$(kafka_admin topic "$OUTBOX" | cut -d ' ' -f 4 | tr , '\n' |
		grep -v "$leader")
	fault 'the follower killed'
	kafka_kill "$follower"
	end=$(kafka_end_offsets "$OUTBOX" | cut -d ' ' -f 2)
	wait_until 60 has_end "$((end + 300))"
	load_stop
	caught_up 40 'one replica left'
	fault 'the leader killed, the follower is back: unclean election'
	kafka_kill "$leader"
	kafka_run_node "$follower"
	expect_stop fanout 65 'the log holds'
	kafka_run_node "$leader"
	kafka_wait_isr "$OUTBOX" "$DISPATCH" __consumer_offsets
	offset-commit -q -b "$KAFKA_BROKERS" -g "$GROUP-fanout" \
		--lock-dir "$RUN/locks" --set "$OUTBOX=end" >"$RUN/moved"
	# Offsets mean other messages from here on.
	observer_stop
	observer_start
	chains_start fanout
	load_start
	COMMITS_FALL=1 RETRIED=1 AUDIT_FINDS=extra
	expect_whole
}
