# shellcheck shell=bash
# shellcheck disable=SC2034,SC2119,SC2120  # what chains.bash and tests use
# faults.bash: a fault while both chains and a load run on real brokers and
# Redis, and then everything that docs/guarantees.md promises, checked.
#
#	setup()		faults_begin
#	@test		faults_start [RATE]	load and chains run, something has
#						come through
#			fault 'what'		counts it; then the test does it
#			caught_up SECONDS NAME	what is in the Outbox by now is in
#						the mailboxes
#			expect_whole		the end of load and chains; all is
#						checked, and counted
#	teardown()	faults_end
#
# A test may set, before faults_start: CHAIN_BIN, another folder of programs
# (fail_bin dies at named points); FANOUT_MORE, MAILBOX_MORE, arrays of more
# arguments for the chains; BROKERS, where chains begin (KAFKA_BROKERS);
# CHAIN_REDIS, where they find Redis (REDIS); EXITS_MORE, codes that a stage may
# have too, as 77|78;
# CHAIN_ENV, an array of name=value; SECRETS, an array of what no log may
# have; after it MARKS_FALL=1, where Redis lost
# data, COMMITS_FALL=1, where two chains commit or a group is moved back, SHARED=1,
# where two chains do the same work, RETRIED=1, where brokers or the network have
# failed, so that without idempotence a request that is sent again repeats and
# inverts dispatches, AUDIT_FINDS, a kind. QIM_FAULTS is short (make check) or
# long: long_or LONG SHORT chooses.
#
# In RUN: ledger, what the writer of the Outbox was given; observed (observe.py);
# fanout.log and mailbox.log.

# shellcheck source=tests/lib/common.bash
source "${BASH_SOURCE[0]%/*}/common.bash"
# shellcheck source=tests/lib/kafka.bash
source "${BASH_SOURCE[0]%/*}/kafka.bash"
# shellcheck source=tests/lib/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"
# shellcheck source=tests/lib/chains.bash
source "${BASH_SOURCE[0]%/*}/chains.bash"

fail_bin=$qim_root/build/fail/bin
faults_partitions=16

# long_or LONG SHORT: prints what is for this tier.
long_or() {
	[[ ${QIM_FAULTS:-short} == long ]] && echo "$1" || echo "$2"
}

# A test's time is looked at before its setup.
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-$(long_or 6000 900)}

# faults_begin [BROKERS [REDIS_SETTING...]]: topics, groups and two Redis of
# this test's own, on the suite's cluster of 3 unless given.
faults_begin() {
	[[ -n ${1-} ]] || need_kafka 3
	RUN=$BATS_TEST_TMPDIR/run
	mkdir -p "$RUN/tmp"
	OUTBOX=$(unique outbox) DISPATCH=$(unique dispatch) GROUP=$(unique group)
	kafka_create_topics "$OUTBOX:4" "$DISPATCH:$faults_partitions"
	REDIS=
	local name
	for name in fault-a fault-b; do
		redis_start "$name" --appendonly yes --appendfsync everysec \
			"${@:2}"
		REDIS+=,127.0.0.1:$(redis_port "$name")
	done
	REDIS=${REDIS#,}
	CHAIN_BIN=$QIM_BIN BROKERS=${1:-$KAFKA_BROKERS}
	FANOUT_MORE=(-v -n "$faults_partitions")
	MAILBOX_MORE=(-v -n "$faults_partitions")
	CHAIN_ENV=() SECRETS=() MARKS_FALL='' COMMITS_FALL='' SHARED=''
	CHAIN_REDIS='' EXITS_MORE='' AUDIT_FINDS='' RETRIED=''
	faults=0 kills=0
	declare -gA killed=() # by chain
}

faults_end() {
	local file pids
	[[ -n ${RUN-} ]] || return 0 # no cluster
	[[ -n ${BATS_TEST_COMPLETED-} ]] ||
		tail -n 6 "$RUN"/*.log "$RUN"/*.err >&2
	# What a test that has failed left, stopped ones too.
	for file in "$RUN"/[!k]*.pid; do
		[[ ! -s $file ]] || kill -9 "$(<"$file")" 2>/dev/null || true
	done
	readarray -t pids < <(left_over)
	kill -9 "${pids[@]}" 2>/dev/null || true
	redis_kill fault-a
	redis_kill fault-b
}

# fault TEXT: one more.
fault() {
	faults=$((faults + 1))
	echo "-- fault: $1" | tee -a "$RUN/fanout.log" >>"$RUN/mailbox.log"
}

# load_start [RATE]: so many messages a second. An Outbox that can't be written
# is waited for. load_stop: what was begun is in the Outbox.
load_start() {
	local bytes
	load_rate=${1:-300}
	touch "$RUN/ledger"
	bytes=$(ledger_bytes)
	python3 "$qim_root/tests/lib/load.py" "$load_rate" "$SRANDOM" \
		"$RUN/ledger" outbox-write -q --with-parent \
		-b "$KAFKA_BROKERS" -t "$OUTBOX" >"$RUN/load.err" 2>&1 3>&- &
	echo $! >"$RUN/load.pid"
	wait_until 30 ledger_above "$bytes"
}

ledger_bytes() {
	stat -c %s "$RUN/ledger"
}

ledger_above() {
	(($(ledger_bytes) > $1))
}

load_stop() {
	[[ -s $RUN/load.pid ]] || return 0
	kill "$(<"$RUN/load.pid")"
	wait "$(<"$RUN/load.pid")" || fail "the load: $(<"$RUN/load.err")"
	rm "$RUN/load.pid"
}

# chains_start [NAME...]: fanout, mailbox, or both, under their supervisor;
# fanout@2 is another one of the kind. What is to be killed stands in
# RUN/NAME.failpoint (common/base/failpoint.h). An exit other than 0 is left in
# RUN/NAME.fatal. chains_stop [NAME...]: drained.
chains_start() {
	local name
	(($#)) || set -- fanout mailbox
	for name; do
		rm -f "$RUN/$name".{fatal,pid}
		keep_chain "$name" 3>&- &
		echo $! >"$RUN/keep-$name.pid"
		wait_until 30 test -s "$RUN/$name.pid"
	done
}

# Its waiting is the tests' time. It ends with bats, whatever ends that.
keep_chain() {
	local KAFKA_BROKERS=$BROKERS REDIS=${CHAIN_REDIS:-$REDIS} chain status=0
	local pid watch
	chain_command "${1%@*}"
	chain=("${chain[@]/--once/--back-off=50-500}")
	env "${CHAIN_ENV[@]}" FAILPOINT="@$RUN/$1.failpoint" \
		QIM_BIN="$CHAIN_BIN" TMPDIR="$RUN/tmp" QIM_FAULTS_RUN="$RUN" \
		"${chain[@]}" --give-up=100000/60 >>"$RUN/$1.log" 2>&1 &
	pid=$!
	echo "$pid" >"$RUN/$1.pid"
	{ tail --pid="${BATS_ROOT_PID:-$PPID}" -f /dev/null && kill "$pid"; } &
	watch=$!
	wait "$pid" || status=$?
	pkill -P "$watch" || true
	# 143: told to stop at its start.
	((status == 0 || status == 143)) || echo "$status" >"$RUN/$1.fatal"
}

chains_stop() {
	local name
	(($#)) || set -- fanout mailbox
	for name; do
		kill -TERM "$(<"$RUN/$name.pid")" 2>/dev/null || true
		wait "$(<"$RUN/keep-$name.pid")" || true
		rm "$RUN/$name.pid"
		[[ ! -e $RUN/$name.fatal ]] ||
			fail "$name: exit $(<"$RUN/$name.fatal"):" \
				"$(tail -n 5 "$RUN/$name.log")" || return
	done
}

has_come_through() {
	mailbox-read -q -r "$REDIS" positions -t "$DISPATCH" \
		-n "$faults_partitions" | awk '{ n += $3 } END { exit n == 0 }'
}

# observer_start: a new RUN/observed. observer_stop: it is whole.
observer_start() {
	python3 "$qim_root/tests/lib/observe.py" "$KAFKA_BROKERS" "$REDIS" \
		"$OUTBOX" "$DISPATCH" "$GROUP" "$RUN" "${SECRETS[@]}" \
		2>"$RUN/observer.err" 3>&- &
	echo $! >"$RUN/observer.pid"
}

observer_stop() {
	kill "$(<"$RUN/observer.pid")"
	wait "$(<"$RUN/observer.pid")" || fail "$(<"$RUN/observer.err")"
	rm "$RUN/observer.pid"
}

# faults_start [RATE]
faults_start() {
	observer_start
	chains_start
	load_start "$@"
	wait_until 60 has_come_through
}

# was_named CHAIN: its supervisor has named each stage that was killed. A run has
# one cause: what is killed in one that ends already has no name.
was_named() {
	local named
	named=$(grep -cE ': warning: .*: pid [0-9]+: killed by signal 9' \
		"$RUN/$1.log")
	((named == ${killed[$1]-0})) || fail "$1: named $named of ${killed[$1]-0}"
}

was_killed() {
	kills=$((kills + 1))
	killed[$1]=$((${killed[$1]-0} + 1))
}

# kill_at CHAIN PROGRAM POINT [PASS [MS]]: the program dies there, and the chain
# is started again.
kill_at() {
	wait_until 60 was_named "$1" || return
	fault "$2 killed at $3"
	echo "$2/$3:${4:-1}:${5:-0}" >"$RUN/failpoint.new"
	mv "$RUN/failpoint.new" "$RUN/$1.failpoint"
	wait_until 60 test ! -e "$RUN/$1.failpoint" ||
		fail "$1: $2 doesn't come to $3: $(tail -n 5 "$RUN/$1.log")" ||
		return
	was_killed "$1"
}

# kill_now CHAIN PROGRAM: -9.
kill_now() {
	wait_until 60 was_named "$1" || return
	fault "$2 killed"
	kill_stage "$1" "$2"
	was_killed "$1"
}

# kill_supervisor CHAIN: -9, and it is started again, as systemd would. The new
# one knows of it, and waits for the stages that are left.
kill_supervisor() {
	local seen
	wait_until 30 was_named "$1" || return
	fault "the supervisor of $1 killed"
	seen=$(taken_over "$1")
	kill -9 "$(<"$RUN/$1.pid")"
	wait "$(<"$RUN/keep-$1.pid")" || true
	rm "$RUN/$1.pid"
	chains_start "$1"
	wait_until 30 was_taken_over "$1" $((seen + 1))
}

taken_over() {
	grep -c 'supervisor [0-9]*, before this one, was killed' "$RUN/$1.log" ||
		true
}

was_taken_over() {
	(($(taken_over "$1") == $2)) || fail "$1: taken over $(taken_over "$1") times"
}

# kill_log CHAIN: the log-keep of the stages' lines, which is a process of the
# chain: the run ends by it.
kill_log() {
	wait_until 30 was_named "$1" || return
	fault "log-keep of the stages of $1 killed"
	wait_until 30 kill_child "$1" 'log-keep.* --last-dir ' || return
	was_killed "$1"
}

kill_child() {
	local pid
	pid=$(pgrep -P "$(<"$RUN/$1.pid")" -f "$2") && kill -9 "$pid"
}

# kill_own_log CHAIN: the log-keep of the supervisor's own lines; no run ends by
# it.
kill_own_log() {
	local pid
	wait_until 30 was_named "$1" || return
	wait_until 30 own_log_pid "$1" || return
	pid=$(own_log_pid "$1")
	fault "log-keep of the supervisor of $1 killed"
	kill -9 "$pid"
	wait_until 30 own_log_is_not "$1" "$pid"
}

own_log_pid() {
	pgrep -P "$(<"$RUN/$1.pid")" -f "log-keep --with-parent qim-$1="
}

own_log_is_not() {
	local pid
	pid=$(own_log_pid "$1") && [[ $pid != "$2" ]]
}

# caught_up SECONDS WHAT: after the fault's end, all that the Outbox holds by now
# is in the mailboxes and committed within so many seconds; says how many.
caught_up() {
	local took
	took=$(KAFKA_ADMIN_SECONDS=$1 kafka_admin reach "$GROUP-fanout" "$OUTBOX" \
		"$GROUP-mailbox" "$DISPATCH" 2>&1) ||
		fail "$2: not caught up within $1 s: $took:" \
			"$(tail -q -n 4 "$RUN"/{fanout,mailbox}.log)" || return
	echo "# $2: caught up in $took s (of $1)" >&3
}

# expect_stop CHAIN CODE TEXT: its supervisor has ended, since a person must act,
# and the log says so.
expect_stop() {
	wait_until 90 test -e "$RUN/$1.fatal" ||
		fail "$1 goes on: $(tail -n 3 "$RUN/$1.log")" || return
	if [[ $(<"$RUN/$1.fatal") != "$2" ]] ||
		! grep -qE -- "$3" "$RUN/$1.log"
	then
		fail "$1: $(<"$RUN/$1.fatal"): $(tail -n 3 "$RUN/$1.log")"
		return
	fi
	EXITS_MORE+=${EXITS_MORE:+|}$2
}

# Of a group, every commit in the order of the log: nothing is lower than before.
expect_no_commit_back() {
	kcat -C -e -q -b "$KAFKA_BROKERS" -t __consumer_offsets \
		-f '%K %S\n%k%s' |
		python3 "$qim_root/tests/lib/commits.py" "$1" |
		awk '$3 < was[$2] { back++; if (was[$2] - $3 > most) most = was[$2] - $3 }
			{ was[$2] = $3 }
			END { printf "of %d commits %d back, by %d at most\n", NR, back, most
				exit back > 0 || NR < 1 }' >"$RUN/commits" ||
		[[ -n $COMMITS_FALL ]] || fail "group $1: $(<"$RUN/commits")" ||
		return
	[[ -z $COMMITS_FALL ]] || echo "# $1: $(<"$RUN/commits")" >&3
}

# Every death has a cause: what was killed here, what was told to stop before it
# had a handler, or an exit that may pass. And what was killed is what the
# supervisor names.
expect_deaths() {
	local bad level codes="0|69|71|74|75${EXITS_MORE:+|$EXITS_MORE}"
	bad=$(grep -hE ': pid [0-9]+: (exit|killed)' "$RUN"/{fanout,mailbox}*.log |
		grep -vE ": (exit ($codes)|killed by signal 9)\b" |
		grep -vE ": (outbox|mailbox)-read: .* killed by signal (2|15)\b") ||
		true
	[[ -z $bad ]] || fail "unexpected: $bad" || return
	for level in info warning; do
		bad=$(cat "$RUN"/{fanout,mailbox}*.log |
			grep -cE ": $level: .*: pid [0-9]+: killed by signal 9") || true
		((bad == kills)) ||
			fail "$level: $bad stages died of a SIGKILL, not $kills" ||
			return
	done
}

# memory_of PROGRAM: the bound that its manual has for all its memory with the
# defaults, in MiB. Of a name that the kernel has cut, too.
memory_of() {
	local page
	for page in "$qim_root/man/$1"*.1; do
		sed -nE 's/.*less than ([0-9]+) MiB in all.*/\1/p' "$page"
	done | grep -x '[0-9]*'
}

# The bounds of the manuals; threads and descriptors: librdkafka's are a thread
# and four descriptors for each broker, and the same again for what it knew
# before.
expect_small() {
	local name most kib threads descriptors seen=0
	local always=(outbox-read fanout-plan dispatch-produc mailbox-apply
		offset-commit log-keep)
	while read -r name kib threads descriptors; do
		[[ " ${always[*]} stream-tap " == *" $name "* ]] || continue
		most=$(memory_of "$name") || fail "$name: no bound" || return
		[[ $name == stream-tap ]] || seen=$((seen + 1))
		((kib <= most * 1024 && threads <= 16 && descriptors <= 64)) ||
			fail "$name: $kib KiB, $threads threads," \
				"$descriptors descriptors" || return
	done < <(tail -n 1 "$RUN/observed" | jq -r '.processes | to_entries[] |
		"\(.key) \(.value[0]) \(.value[1]) \(.value[2])"')
	((seen == ${#always[@]})) || fail "$seen of ${#always[@]} programs were seen"
}

# No payload, no secret, in what was logged or anybody can read.
expect_no_secret() {
	local word
	[[ $(tail -n 1 "$RUN/observed" | jq -c .found) == '[]' ]] ||
		fail "in arguments or environment: $(tail -n 1 "$RUN/observed")" ||
		return
	for word in xxxxx "${SECRETS[@]}"; do
		! grep -F -- "$word" "$RUN"/{fanout,mailbox}*.log ||
			fail "a secret or a payload is in a log" || return
	done
}

# left_over: pids of the chains' processes.
left_over() {
	grep -lzxF "QIM_FAULTS_RUN=$RUN" /proc/[0-9]*/environ 2>/dev/null |
		cut -d / -f 3
}

nothing_left() {
	local pids
	pids=$(left_over)
	[[ -z $pids ]] ||
		fail "left over: $(ps -o pid=,args= -p "${pids//$'\n'/,}")"
}

expect_nothing_left() {
	wait_until 10 nothing_left || return
	[[ -z $(ls -A "$RUN/tmp") ]] || fail "left over: $(ls -A "$RUN/tmp")"
}

# tally LOST TWICE: adds this test's counts to those that tests/run prints.
tally() {
	local sent
	sent=$(wc -l <"$RUN/ledger")
	echo "# faults injected $faults, messages sent $sent, lost $1, twice in a mailbox $2" >&3
	[[ -z ${QIM_FAULTS_TALLY:-} ]] ||
		echo "$faults $sent $1 $2" >>"$QIM_FAULTS_TALLY"
}

# count_of KIND: what mailboxes.py found of it, in RUN/boxes.
count_of() {
	sed -nE "s/^wrong: $1 ([0-9]+),.*/\1/p" "$RUN/boxes" | grep . || echo 0
}

# expect_mailboxes_whole: of each message in the ledger each recipient has one.
expect_mailboxes_whole() {
	local status=0
	/usr/bin/python3 "$qim_root/tests/lib/mailboxes.py" "$REDIS" qim \
		"$faults_partitions" <"$RUN/ledger" >"$RUN/boxes" || status=$?
	tally "$(count_of missing)" "$(count_of twice)"
	((status == 0)) || fail "$(<"$RUN/boxes")"
}

# mailbox-audit finds nothing, or just what the test says that it does.
expect_audit() {
	local status=0
	audit --drained --list 1000000 >"$RUN/audited" || status=$?
	[[ $status:$AUDIT_FINDS == 0: ]] ||
		[[ -n $AUDIT_FINDS && $(jq -r 'select(.found).found' \
			"$RUN/audited" | sort -u) == "$AUDIT_FINDS" ]] ||
		fail "$(tail -n 20 "$RUN/audited")"
}

# again_most: how many messages may have been dispatched again. For each start of
# the fan-out but the first a full window: what dispatch-produce(1) has for -w, of
# batches with what load.py writes at once.
again_most() {
	local window starts
	window=$(sed -nE 's/^Batches in flight.*; ([0-9]+) unless given\.$/\1/p' \
		"$qim_root/man/dispatch-produce.1")
	starts=$(cat "$RUN"/fanout*.log |
		grep -c ': info: outbox-read: pid [0-9]*: started')
	echo $(((starts - 1) * window * load_rate / 2))
}

# expect_dispatched: the topics.
expect_dispatched() {
	local words=(${MARKS_FALL:+marks-fall} ${RETRIED:+retried})
	[[ -n $SHARED$COMMITS_FALL$RETRIED ]] || words+=("again=$(again_most)")
	/usr/bin/python3 "$qim_root/tests/lib/faults-check.py" "$KAFKA_BROKERS" "$OUTBOX" \
		"$DISPATCH" "$faults_partitions" "$RUN" "${words[@]}" \
		>"$RUN/checked" || fail "$(<"$RUN/checked")" || return
	sed 's/^/# /' "$RUN/checked" >&3
}

# expect_whole [SECONDS]: to catch up within (60).
expect_whole() {
	load_stop
	caught_up "${1:-60}" 'at the end'
	chains_stop
	observer_stop
	expect_mailboxes_whole
	expect_dispatched
	expect_audit
	expect_committed_end "$GROUP-fanout" "$OUTBOX"
	expect_committed_end "$GROUP-mailbox" "$DISPATCH"
	expect_no_commit_back "$GROUP-fanout"
	expect_no_commit_back "$GROUP-mailbox"
	expect_deaths
	expect_small
	expect_no_secret
	expect_nothing_left
	tail -n 1 "$RUN/observed" | jq -c .processes | sed 's/^/# /' >&3
}
