# shellcheck shell=bash
# produce.bash: dispatch-produce run again and again while a test does harm,
# and at the end its receipts and the topic against the plan. Needs
# lib/common and lib/kafka.
#
#	make_plan 20000		in setup_file
#	begin NAME		a topic, and the directory RUN
#	start_half		half of the plan is through, then it waits
#	go			the rest; what the test does now is done to that
#	expect_all NAME		all has a receipt, and is in the topic
#
# Variables between them, and tests: brokers, for -b; options, for dispatch-produce;
# plan, a file; runner and fault, pids, which end_runs ends.

# shellcheck disable=SC2154  # set by lib/common

# make_plan MESSAGES: three to five dispatches each, through the real stages.
make_plan() {
	local outbox
	outbox=$(unique outbox)
	kafka_create_topic "$outbox" 4
	python3 "$qim_root/tests/lib/messages.py" "$1" |
		outbox-write -b "$KAFKA_BROKERS" -t "$outbox"
	outbox-read -b "$KAFKA_BROKERS" -t "$outbox" -o beginning -e \
		--batch 100 | fanout-plan >"$BATS_FILE_TMPDIR/plan"
	kafka_delete_topics "$outbox"
}

# begin NAME [config=value]...
begin() {
	topic=$(unique dispatch)
	kafka_create_topic "$topic" 64 "${@:2}"
	RUN=$BATS_TEST_TMPDIR/$1
	mkdir "$RUN"
	mkfifo "$RUN/gate"
	# Open for both, so that neither end ever waits for the other.
	exec {gate}<>"$RUN/gate"
	plan=$BATS_FILE_TMPDIR/plan
	brokers=$KAFKA_BROKERS
	options=()
	runner='' fault=
}

# end_runs: in teardown. What restarts brokers has ended before the next test
# looks whether they are all up.
end_runs() {
	local pid
	for pid in ${runner:-} ${fault:-}; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

checks() {
	/usr/bin/python3 "$qim_root/tests/lib/dispatch-check.py" "$@"
}

receipts_of_runs() {
	find "$RUN" -name 'receipts.*' | sort
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

# produce: RUN/input; leaves its status in RUN/statuses.
produce() {
	local number status=0
	printf -v number %05d "$(receipts_of_runs | wc -l)"
	dispatch-produce -v -b "$brokers" -t "$topic" "${options[@]}" \
		>"$RUN/receipts.$number" 2>>"$RUN/err" || status=$?
	echo "$status" >>"$RUN/statuses"
	[[ $status =~ ^(0|69|75)$ ]] ||
		fail "exit $status: $(tail -n 3 "$RUN/err")"
}

# run_once [-m BATCHES]: one process, for what has no receipt yet. 3: nothing
# was left.
run_once() {
	local files
	readarray -t files < <(receipts_of_runs)
	checks rest "$@" "$plan" "${files[@]}" >"$RUN/input" || return
	produce <"$RUN/input"
}

# run_all: until every batch has a receipt.
run_all() {
	local status=0
	while ((status == 0)); do
		run_once || status=$?
	done
	((status == 3))
}

start_all() {
	{
		run_all
		touch "$RUN/done"
	} 3>&- &
	runner=$!
}

# feed_halves BYTES: the second one when the gate opens.
feed_halves() {
	head -c "$1" "$RUN/whole"
	read -r <"$RUN/gate" || true
	tail -c "+$(($1 + 1))" "$RUN/whole"
}

# start_half: returns when exactly the first half has receipts; sets through,
# how many these are.
start_half() {
	local half
	checks rest "$plan" >"$RUN/whole"
	half=$(($(stat -c %s "$RUN/whole") / 2))
	head -c "$half" "$RUN/whole" >"$RUN/half"
	through=$(checks count "$RUN/half")
	{
		feed_halves "$half" | produce
		run_all
	} 3>&- &
	runner=$!
	wait_until 120 has_receipts "$through"
}

go() {
	echo >&"$gate"
}

# expect_all NAME: the topic holds what the receipts say, which is all; copies
# are counted, by log-audit too, and printed.
expect_all() {
	local files exits said audit
	wait "$runner" || fail "the runs: $(tail -n 3 "$RUN/err")" || return
	runner=
	readarray -t files < <(receipts_of_runs)
	said=$(checks topic "$KAFKA_BROKERS" "$topic" "$plan" "${files[@]}") ||
		fail "$said" || return
	audit=$(log-audit -b "$KAFKA_BROKERS" -t "$topic" --id id --list 0 |
		tail -n 1)
	exits=$(sort "$RUN/statuses" | uniq -c | awk '{ printf " %sx%s", $1, $2 }')
	echo "# $1: exits$exits; $said" >&3
	[[ $said =~ records\ ([0-9]+)\ of\ ([0-9]+),.*duplicates\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] ||
		fail "not all: $said" || return
	[ "${BASH_REMATCH[3]}" = "$(jq .duplicates <<<"$audit")" ] ||
		fail "log-audit: $audit" || return
	kafka_delete_topics "$topic"
}

# leader_killed NAME [option]...: -9, while the second half is on its way.
leader_killed() {
	local leader
	begin "$1"
	options=("${@:2}")
	start_half
	leader=$(kafka_leader "$topic" 0)
	go
	kafka_kill "$leader"
	[ ! -e "$RUN/statuses" ] || fail 'it was killed too late' || return
	kafka_wait_new_leader "$topic" 0 "$leader"
	kafka_restart "$leader"
	expect_all "$1"
	kafka_wait_isr
}

# records_time_out NAME: the leader of some isn't heard until a run has ended
# with 75 for it; the next ones go on from its last receipt.
records_time_out() {
	local leader
	begin "$1"
	brokers=$KAFKA_PROXIED
	options=(-X message.timeout.ms=8000)
	start_half
	leader=$(kafka_leader "$topic" 0)
	proxy_set "$leader" hold both
	go
	wait_until 120 grep -qx 75 "$RUN/statuses"
	proxy_clear "$leader"
	expect_all "$1"
}

# brokers_gone NAME NODE...: what is sent meanwhile has no receipt before they
# are back. They are away long enough to be fenced.
brokers_gone() {
	local node
	start_half
	for node in "${@:2}"; do
		kafka_kill "$node"
	done
	go
	sleep 8
	[ "$(receipt_count)" = "$through" ] || fail 'a receipt was given' || return
	kill -0 "$runner"
	for node in "${@:2}"; do
		kafka_restart "$node"
	done
	expect_all "$1, $through batches before"
	kafka_wait_isr
}

# leader_paused SECONDS
leader_paused() {
	local leader
	begin paused
	start_half
	leader=$(kafka_leader "$topic" 0)
	kafka_pause "$leader"
	go
	sleep "$1"
	kafka_resume "$leader"
	expect_all "SIGSTOP for $1 s"
	kafka_wait_isr
}

# half_open SECONDS: longer than socket.timeout.ms.
half_open() {
	local leader
	begin half-open
	brokers=$KAFKA_PROXIED
	options=(-X socket.timeout.ms=2000)
	start_half
	leader=$(kafka_leader "$topic" 0)
	proxy_set "$leader" hold down
	go
	sleep "$1"
	proxy_clear "$leader"
	expect_all "half-open for $1 s"
}

# resets BYTES: of all connections once a second, which carry so many bytes a
# second, so that there are several.
resets() {
	local count=0
	begin resets
	brokers=$KAFKA_PROXIED
	proxy_set brokers throttle up "$1"
	start_all
	while kill -0 "$runner" 2>/dev/null && [[ ! -e $RUN/done ]]; do
		sleep 1
		proxy_set brokers reset
		count=$((count + 1))
	done
	proxy_clear brokers
	expect_all "$count times all connections reset"
	((count > 2))
}

# A fresh producer is one that a broker knows nothing of: where the first of
# five requests meets a broker that doesn't lead yet, and the second one that
# does, librdkafka may take the first for delivered (a report without an
# offset). Leaders are elected again and again, a broker comes and goes, and
# every run is a short one.
fresh_producers() {
	begin "fresh-$1"
	options=(-X max.in.flight=5 -X linger.ms=0)
	change_leaders 12 3>&- &
	fault=$!
	while kill -0 "$fault" 2>/dev/null && run_once -m 8; do :; done
	wait "$fault"
	fault=
	start_all
	expect_all 'fresh producers'
	kafka_wait_isr
	sed -n 's/.*, unproven \([0-9]*\),.*/\1/p' "$RUN/err" |
		awk -v moves="$(<"$RUN/moves")" '{ n += $1 } END { print "# " n + 0,
			"reports without an offset in", NR, "runs, leaders moved",
			moves, "times" }' >&3
}

# change_leaders SECONDS: of all partitions, again and again; broker 3 ends and
# starts meanwhile. When it returns all are started.
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
