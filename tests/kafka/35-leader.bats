#!/usr/bin/env bats
# dispatch-produce while brokers die, stop, change leaders, and while the
# network is bad: whatever has a receipt is in the topic, and what has none is
# sent again until all has one. QIM_ROUNDS (1) is how often; tests/long asks for
# ten. Copies and inversions are counted, and printed.
# shellcheck disable=SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup_file() {
	local outbox
	need_kafka 3
	outbox=$(unique outbox)
	kafka_create_topic "$outbox" 4
	python3 "$qim_root/tests/lib/messages.py" 60000 |
		outbox-write -b "$KAFKA_BROKERS" -t "$outbox"
	outbox-read -b "$KAFKA_BROKERS" -t "$outbox" -o beginning -e \
		--batch 100 | fanout-plan >"$BATS_FILE_TMPDIR/plan"
	kafka_delete_topics "$outbox"
}

setup() {
	export BATS_TEST_TIMEOUT=900
	need_kafka 3
	rounds=${QIM_ROUNDS:-1}
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=false
	brokers=$KAFKA_BROKERS
}

teardown() {
	[[ -z ${runner:-} ]] || kill "$runner" 2>/dev/null || true
	[[ -z ${fault:-} ]] || wait "$fault" || true # it is in time
	need_kafka 3
}

# begin ROUND [config=value]...: a new topic and a new directory of runs.
begin() {
	topic=$(unique dispatch)
	kafka_create_topic "$topic" 64 "${@:2}"
	RUN=$BATS_TEST_TMPDIR/$1
	mkdir "$RUN"
	plan=$BATS_FILE_TMPDIR/plan
	options=()
}

checks() {
	/usr/bin/python3 "$qim_root/tests/lib/dispatch-check.py" "$@"
}

receipts_of_runs() {
	find "$RUN" -name 'receipts.*' | sort
}

# run_once [-m BATCHES]: one process, for what has no receipt yet; leaves its
# status in RUN/statuses. 3: nothing was left.
run_once() {
	local files status=0
	readarray -t files < <(receipts_of_runs)
	checks rest "$@" "$plan" "${files[@]}" >"$RUN/input" || return
	produce <"$RUN/input" >"$RUN/receipts.$(printf %05d ${#files[@]})" ||
		status=$?
	echo "$status" >>"$RUN/statuses"
}

produce() {
	dispatch-produce -v -b "$brokers" -t "$topic" "${options[@]}" \
		2>>"$RUN/err"
}

# run_all: until every batch has a receipt. What isn't "start again" is fatal.
run_all() {
	local left=0
	while run_once || { left=$?; false; }; do
		[[ $(tail -n 1 "$RUN/statuses") =~ ^(0|69|75|137)$ ]] ||
			fail "exit $(tail -n 1 "$RUN/statuses"): $(tail -n 3 "$RUN/err")" ||
			return
	done
	((left == 3)) && touch "$RUN/done"
}

start_runner() {
	run_all 3>&- &
	runner=$!
}

receipt_count() {
	local files
	readarray -t files < <(receipts_of_runs)
	checks count "${files[@]}"
}

has_receipts() {
	local count
	count=$(receipt_count) && ((count >= $1))
}

# Until the first batches are through; there must be much more to come.
wait_for_load() {
	wait_until 60 has_receipts 5
	[[ ! -e $RUN/done ]] || fail "the plan is too short for a fault"
}

# All has a receipt, and is in the topic. Two counts of the copies agree.
expect_all() {
	local files status said audit
	wait "$runner" || fail "the runs: $(tail -n 3 "$RUN/err")" || return
	runner=
	readarray -t files < <(receipts_of_runs)
	said=$(checks topic "$KAFKA_BROKERS" "$topic" "$plan" "${files[@]}") ||
		fail "$said" || return
	audit=$(log-audit -b "$KAFKA_BROKERS" -t "$topic" --id id --list 0 |
		tail -n 1)
	status=$(sort "$RUN/statuses" | uniq -c | awk '{ printf " %sx%s", $1, $2 }')
	echo "# $1: exits$status; $said; $(jq -r '"log-audit: " +
		"duplicates \(.duplicates), inversions \(.inversions)"' <<<"$audit")" >&3
	[[ $said =~ records\ ([0-9]+)\ of\ ([0-9]+),.*duplicates\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
	[ "${BASH_REMATCH[3]}" = "$(jq .duplicates <<<"$audit")" ] ||
		fail "log-audit: $audit" || return
	kafka_delete_topics "$topic"
}

@test "the check itself: a batch with a receipt that isn't there is found" {
	local elsewhere
	begin 1
	elsewhere=$(unique elsewhere)
	kafka_create_topic "$elsewhere" 64
	run_once -m 5
	checks topic "$KAFKA_BROKERS" "$topic" "$plan" "$RUN/receipts.00000"
	topic=$elsewhere run_once -m 5
	run -1 checks topic "$KAFKA_BROKERS" "$topic" "$plan" \
		"$RUN"/receipts.0000[01]
	[[ ${lines[0]} =~ ^'batches 10 of '.*', missing '[1-9][0-9]*', wrong 0' ]]
	# Nor may a receipt be left out.
	run -1 checks topic "$KAFKA_BROKERS" "$topic" "$plan" \
		"$RUN/receipts.00001"
	expect_message 'planned'
	run -1 checks topic "$KAFKA_BROKERS" "$elsewhere" \
		<(checks rest -m 2 "$plan") "$RUN/receipts.00000"
}

# leader_killed NAME [option]...: -9, under load.
leader_killed() {
	local name=$1 round leader
	for ((round = 1; round <= rounds; round++)); do
		begin "$round"
		options=("${@:2}")
		start_runner
		wait_for_load
		leader=$(kafka_leader "$topic" 0)
		kafka_kill "$leader"
		[[ ! -e $RUN/done ]] || fail "it was killed too late"
		kafka_wait_new_leader "$topic" 0 "$leader"
		kafka_restart "$leader"
		expect_all "$name"
		kafka_wait_isr
	done
}

@test "a leader is killed: nothing that has a receipt is missing" {
	leader_killed 'leader killed'
}

@test "the same with an idempotent producer" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	leader_killed 'leader killed, idempotent'
}

@test "records time out before there is a new leader: 75, and again from the last receipt" {
	leader_killed 'timeouts' -X message.timeout.ms=2000
	grep -qx 75 "$RUN/statuses"
}

@test "the same with timeouts and an idempotent producer" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	leader_killed 'timeouts, idempotent' -X message.timeout.ms=2000
	grep -qx 75 "$RUN/statuses"
}

# A fresh producer is one that a broker knows nothing of: where the first of
# five requests meets a broker that doesn't lead yet, and the second one that
# does, librdkafka may take the first for delivered. Leaders are elected again
# and again, a broker comes and goes, and every run is a short one.
@test "fresh idempotent producers while leaders change: what has a receipt is there" {
	local round unproven
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	for ((round = 1; round <= rounds; round++)); do
		begin "$round"
		options=(-X max.in.flight=5 -X linger.ms=0)
		change_leaders 12 3>&- &
		fault=$!
		while kill -0 "$fault" 2>/dev/null && run_once -m 8; do
			[[ $(tail -n 1 "$RUN/statuses") =~ ^(0|75)$ ]] ||
				fail "$(tail -n 3 "$RUN/err")"
		done
		wait "$fault"
		start_runner
		expect_all 'fresh producers'
		kafka_wait_isr
	done
	unproven=$(cat "$BATS_TEST_TMPDIR"/*/err |
		sed -n 's/.*, unproven \([0-9]*\),.*/\1/p' |
		awk '{ n += $1; runs += $1 > 0 } END {
			print n + 0 " records in " runs + 0 " of " NR " runs" }')
	echo "# reports without an offset: $unproven; leaders were moved" \
		"$(cat "$BATS_TEST_TMPDIR"/*/moves | tr '\n' ' ')times" >&3
}

# change_leaders SECONDS: of all partitions, again and again; broker 3 ends and
# starts meanwhile. When it returns all are up.
change_leaders() {
	local rotate
	/usr/bin/python3 "$qim_root/tests/lib/kafka-rotate.py" \
		"$KAFKA_BROKERS" "$topic" 64 "$1" >"$RUN/moves" &
	rotate=$!
	while kill -0 "$rotate" 2>/dev/null; do
		kafka_restart 3
		sleep 6
	done
	wait "$rotate"
}

# no_receipt_while_gone NODE...: half of the plan is through; what is sent
# while these brokers are away has no receipt before they are back.
no_receipt_while_gone() {
	local half through node
	checks rest "$plan" >"$RUN/input"
	half=$(($(stat -c %s "$RUN/input") / 2))
	head -c "$half" "$RUN/input" >"$RUN/half"
	through=$(checks count "$RUN/half")
	{
		cat "$RUN/half"
		wait_until 300 test -e "$RUN/go"
		tail -c "+$((half + 1))" "$RUN/input"
	} | produce >"$RUN/receipts.00000" 3>&- &
	runner=$!
	wait_until 120 has_receipts "$through"
	for node in "$@"; do
		kafka_kill "$node"
	done
	touch "$RUN/go"
	# Long enough for the dead to be fenced, and the others to be asked.
	sleep 8
	[ "$(receipt_count)" = "$through" ]
	kill -0 "$runner"
	for node in "$@"; do
		kafka_restart "$node"
	done
	echo 0 >"$RUN/statuses"
	expect_all "$# of 3 brokers gone after $through batches"
}

@test "two of three brokers gone: no receipt; they are back: it goes on" {
	begin 1
	no_receipt_while_gone 1 2
	kafka_wait_isr
}

@test "fewer in sync than min.insync.replicas: the same" {
	begin 1 min.insync.replicas=3
	no_receipt_while_gone 2
	kafka_wait_isr
}

@test "a broker that is stopped (SIGSTOP) for long" {
	local leader
	begin 1
	start_runner
	wait_for_load
	leader=$(kafka_leader "$topic" 0)
	kafka_pause "$leader"
	sleep $((rounds > 1 ? 45 : 12))
	kafka_resume "$leader"
	expect_all 'SIGSTOP'
	kafka_wait_isr
}

@test "a slow network: 100 ms there and back, 3,000 kbit" {
	begin 1
	plan=$BATS_TEST_TMPDIR/short
	checks rest -m 30 "$BATS_FILE_TMPDIR/plan" >"$plan"
	brokers=$KAFKA_PROXIED
	proxy_set brokers delay both 50ms
	proxy_set brokers throttle both 375000
	start_runner
	expect_all 'slow network'
}

# For so long that connections are reset several times.
@test "every connection is reset once a second" {
	local resets=0
	begin 1
	brokers=$KAFKA_PROXIED
	plan=$BATS_TEST_TMPDIR/short
	checks rest -m 150 "$BATS_FILE_TMPDIR/plan" >"$plan"
	proxy_set brokers throttle up $((rounds > 1 ? 200000 : 800000))
	start_runner
	wait_for_load
	while [[ ! -e $RUN/done ]] && kill -0 "$runner"; do
		sleep 1
		proxy_set brokers reset
		resets=$((resets + 1))
	done
	expect_all "$resets resets"
	((resets > 2))
}

@test "connections half-open for longer than socket.timeout.ms" {
	local leader
	begin 1
	brokers=$KAFKA_PROXIED
	options=(-X socket.timeout.ms=2000)
	start_runner
	wait_for_load
	leader=$(kafka_leader "$topic" 0)
	proxy_set "$leader" hold down
	[[ ! -e $RUN/done ]] || fail 'too late'
	sleep $((rounds > 1 ? 20 : 5))
	proxy_clear "$leader"
	expect_all 'half-open'
}

@test "connections that a firewall has forgotten" {
	begin 1
	brokers=$KAFKA_PROXIED
	options=(-X socket.timeout.ms=2000)
	start_runner
	wait_for_load
	proxy_set brokers forget
	[[ ! -e $RUN/done ]] || fail 'too late'
	expect_all 'forgotten'
}
