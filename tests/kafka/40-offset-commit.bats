#!/usr/bin/env bats
# offset-commit on a real broker: what it has committed as others see it, a
# group with members, the broker stopped and back.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
	group=$(unique group)
	err=$BATS_TEST_TMPDIR/err
	kafka_create_topic "$topic" 2
	seq 100 | kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" -p 0
	seq 50 | kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" -p 1
}

# receipts: records in, receipts out, as if each batch were durable.
receipts() {
	stream-dump | jq -c --unbuffered 'if .qim then
			.kind = "receipts" | .from = "made-up" | .durable = true
		elif .batch then {batch, src, in: (.rec | length),
			out: (.rec | length), dead: 0, bytes: 0, at: []}
		else . end' | stream-make
}

reads() {
	timeout -k 5 60 outbox-read -b "$KAFKA_BROKERS" -t "$topic" -g "$group" "$@"
}

commits() {
	timeout -k 5 60 offset-commit -b "$KAFKA_BROKERS" -g "$group" "$@"
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

@test "to the end of the log, and a second run has nothing to do" {
	reads --first beginning -e | receipts | commits
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 50' ]
	reads -e | receipts | commits -v 2>"$err"
	run ! grep -q 'committed in' "$err"
}

@test "--set back, then only what lies between is read again" {
	reads --first end -e | receipts | commits
	commits -q --set "$topic:1=48"
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 48' ]
	reads -e | tee "$BATS_TEST_TMPDIR/read" | receipts | commits
	[ "$(stream-dump --rec <"$BATS_TEST_TMPDIR/read" | jq -r .value | xargs)" = '49 50' ]
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 50' ]
}

@test "--set: the forms of where, a topic with more partitions than one" {
	local big now
	big=$(unique big)
	kafka_create_topic "$big" 5
	for p in 0 1 3; do
		seq $((p + 1)) | kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$big" -p "$p"
	done
	kafka_delete_records "$big" 3 2
	run -0 --separate-stderr commits -q --set "$big=end"
	[ "$output" = "$(printf "$big[%d] none -> %d\n" 0 1 1 2 2 0 3 4 4 0)" ]
	# A topic's forms may differ by partition; the first offset isn't 0.
	run -0 --separate-stderr commits -q --set "$big:0,2-3=beginning" \
		--set "$big:1=1" --set "$topic:1=7"
	[ "$output" = "$(printf "$big[%d] %d -> %d\n" 0 1 0 2 0 0 3 4 2 1 2 1)
$topic[1] none -> 7" ]
	[ "$(kafka_committed "$group" "$big")" = $'0 0\n1 1\n2 0\n3 2\n4 0' ]
	# No record is that late: the end, as for a partition without records.
	run -0 --separate-stderr commits -q --set "$big=s@9999999999999"
	[ "$output" = "$(printf "$big[%d] %d -> %d\n" 0 0 1 1 1 2 2 0 0 3 2 4 4 0 0)" ]
	run -0 --separate-stderr commits -q --set "$big=s@0"
	[ "$(kafka_committed "$group" "$big")" = $'0 0\n1 0\n2 0\n3 2\n4 0' ]
	now=$(date +%s%3N)
	echo late | kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$big" -p 1
	run -0 --separate-stderr commits -q --set "$big:0-1=s@$now"
	[ "$output" = "$(printf "$big[%d] %d -> %d\n" 0 0 1 1 0 2)" ]
	run -65 --separate-stderr commits --set "$big:3=1" --set "$big:0=0"
	expect_message "$big[3]: offset out of range: start 1 (explicit), the log holds 2 to 4"
	run -78 --separate-stderr commits --set "$big:5=0"
	expect_message "--set: partitions 5: topic $big has 5, from 0 on"
	run -69 --separate-stderr commits --connect-ms 5000 --set "$big-x=0"
	expect_message "topic $big-x: not within 5000 ms: Broker: Unknown topic or partition"
	[ "$(kafka_committed "$group" "$big")" = $'0 1\n1 2\n2 0\n3 2\n4 0' ]
}

# made_up TOPIC:NEXT...: receipts of partition 0 of each up to NEXT.
made_up() {
	local one starts='' src=''
	for one; do
		starts+=",[\"${one%:*}\",0,0,\"first\"]"
		src+=",[\"${one%:*}\",0,0,${one#*:}]"
	done
	stream-make <<-EOF
		{"qim":1,"minor":0,"kind":"receipts","from":"made-up","run":7,"topic":"$topic","group":"$group","start":[${starts#,}],"durable":true}
		{"batch":1,"src":[${src#,}],"in":1,"out":1,"dead":0,"bytes":0,"at":[]}
		{"end":true,"batches":1,"records":1}
	EOF
}

made_up_head() {
	echo '{"qim":1,"minor":0,"kind":"receipts","from":"made-up","run":7,"topic":"'"$topic"'","group":"'"$group"'","start":[["'"$topic"'",0,'"$1"',"first"]],"durable":true}'
}

# made_up_receipt BATCH FROM NEXT
made_up_receipt() {
	echo '{"batch":'"$1"',"src":[["'"$topic"'",0,'"$2,$3"']],"in":1,"out":1,"dead":0,"bytes":0,"at":[]}'
}

is_at() {
	[ "$(kafka_committed "$group" "$topic")" = "$1" ]
}

is_made_again() {
	kafka_create_topic "$topic" 2
}

@test "one topic isn't there: 69 names it, the other's offset is committed" {
	made_up "$topic:5" "$topic-gone:5" >"$BATS_TEST_TMPDIR/receipts"
	run -69 --separate-stderr commits --connect-ms 10000 \
		<"$BATS_TEST_TMPDIR/receipts"
	[ "$stderr" = "offset-commit: error: not committed within 10000 ms: Broker: Unknown topic or partition: $topic-gone[0] none -> 5" ]
	[ "$(kafka_committed "$group" "$topic")" = '0 5' ]
}

@test "the topic is deleted and made again under the chain: 78, not believed" {
	local status=0 first=$BATS_TEST_TMPDIR/first all=$BATS_TEST_TMPDIR/all
	{
		made_up_head 0
		made_up_receipt 1 0 5
	} | stream-make >"$first"
	{
		made_up_head 0
		made_up_receipt 1 0 5
		made_up_receipt 2 5 9
		echo '{"end":true,"batches":2,"records":2}'
	} | stream-make >"$all"
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	commits <"$BATS_TEST_TMPDIR/pipe" 2>"$err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
	cat "$first" >&7
	wait_until 30 is_at '0 5'
	kafka_delete_topics "$topic"
	wait_until 30 is_made_again
	tail -c "+$(($(stat -c %s "$first") + 1))" "$all" >&7
	exec 7>&-
	wait "$pid" || status=$?
	[ "$status" = 78 ]
	[ "$(<"$err")" = "offset-commit: error: $topic[0]: committed was 5, now nothing is: the topic was deleted and created again, or the group's offsets were deleted or expired" ]
	[ -z "$(kafka_committed "$group" "$topic")" ]
}

@test "receipts beyond the end of the log are believed; outbox-read refuses to start there: 65" {
	made_up "$topic:101" | commits
	[ "$(kafka_committed "$group" "$topic")" = '0 101' ]
	run -65 --separate-stderr reads -e
	expect_message "$topic[0]: offset out of range: start 101 (stored), the log holds 0 to 100"
}

@test "the locks know a cluster by its id, whichever broker is asked" {
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	offset-commit -b "$KAFKA_BROKERS" -g "$group" --lock-dir "$BATS_TEST_TMPDIR/locks" \
		<"$BATS_TEST_TMPDIR/pipe" 2>"$err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
	made_up "$topic:5" | head -c -60 >&7
	wait_until 30 compgen -G "$BATS_TEST_TMPDIR/locks/$group:$topic:$(<"$KAFKA_DIR/cluster-id"):*"
	run -78 --separate-stderr commits -b "${KAFKA_BROKERS/127.0.0.1/localhost}" \
		--set "$topic:0=0" --lock-dir "$BATS_TEST_TMPDIR/locks"
	expect_message "$topic[0]: locked by pid $pid: "
	exec 7>&-
	wait "$pid" || [ $? = 75 ]
}

# The member has its partitions.
has_member() {
	grep -q 'rebalanced' "$BATS_TEST_TMPDIR/member"
}

@test "a group with members: 78 in words, --set too, nothing moved" {
	local member
	reads --first beginning -e | receipts >"$BATS_TEST_TMPDIR/receipts"
	timeout 60 kcat -b "$KAFKA_BROKERS" -X enable.auto.commit=false \
		-G "$group" "$topic" >/dev/null \
		2>"$BATS_TEST_TMPDIR/member" 3>&- &
	member=$!
	wait_until 30 has_member
	run -78 --separate-stderr commits <"$BATS_TEST_TMPDIR/receipts"
	expect_message 'commit: refused, the group has members: some consumer has subscribed with its name (UNKNOWN_MEMBER_ID)'
	run -78 --separate-stderr commits --set "$topic=end"
	expect_message 'commit: refused, the group has members'
	kill "$member"
	wait "$member" || true
	[ -z "$(kafka_committed "$group" "$topic")" ]
}

@test "the broker stops before a commit and comes back: it is committed" {
	local pid
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	reads --first beginning -e | receipts >"$BATS_TEST_TMPDIR/receipts"
	offset-commit -v -b "$KAFKA_BROKERS" -g "$group" --connect-ms 120000 \
		<"$BATS_TEST_TMPDIR/pipe" 2>"$err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
	# hello and the first, empty batch
	head -c 420 "$BATS_TEST_TMPDIR/receipts" >&7
	wait_until 30 grep -q 'committed in' "$err"
	kafka_kill 1
	tail -c +421 "$BATS_TEST_TMPDIR/receipts" >&7
	exec 7>&-
	sleep 1
	kill -0 "$pid"
	kafka_restart 1
	kafka_wait_isr "$topic"
	wait "$pid"
	[ "$(kafka_committed "$group" "$topic")" = $'0 100\n1 50' ]
}

@test "the broker stops (SIGSTOP) under a commit: 75 within the deadline" {
	local pid status=0
	reads --first beginning -e | receipts >"$BATS_TEST_TMPDIR/receipts"
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	offset-commit -v -b "$KAFKA_BROKERS" -g "$group" --connect-ms 10000 \
		<"$BATS_TEST_TMPDIR/pipe" 2>"$err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
	head -c 420 "$BATS_TEST_TMPDIR/receipts" >&7
	wait_until 30 grep -q 'committed in' "$err"
	kafka_pause 1
	tail -c +421 "$BATS_TEST_TMPDIR/receipts" >&7
	exec 7>&-
	wait_until 30 gone "$pid"
	wait "$pid" || status=$?
	kafka_resume 1
	[ "$status" = 75 ]
	grep -q "error: not committed within 10000 ms: .*$topic\[0\] 0 -> 100" "$err"
}
