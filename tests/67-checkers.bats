#!/usr/bin/env bats
# What looks at mailboxes and topics after a fault: it finds nothing where all is
# well, and each kind of damage where there is one. And what counts the tests.

bats_require_minimum_version 1.5.0
load lib/common
load lib/redis
load lib/faults

# Both chains without a fault, on two nodes.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	redis_start a
	redis_start b
	start_mock -t outbox:2 -t dispatch:16 -t empty:16 -t turned:16
	export REDIS
	REDIS=127.0.0.1:$(redis_port a),127.0.0.1:$(redis_port b)
	python3 "$qim_root/tests/lib/messages.py" 60 >ledger
	outbox-write -q -b "$MOCK_BROKERS" -t outbox <ledger
	outbox-read -q -b "$MOCK_BROKERS" -t outbox -g f --first beginning -e |
		fanout-plan -n 16 |
		dispatch-produce -q -b "$MOCK_BROKERS" -t dispatch >receipts
	outbox-read -q -b "$MOCK_BROKERS" -t dispatch -g m --first beginning -e |
		mailbox-apply -q -n 16 -r "$REDIS" >receipts
}

teardown_file() {
	stop_mock
	redis_kill a
	redis_kill b
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	cp "$BATS_FILE_TMPDIR/ledger" .
}

boxes() {
	/usr/bin/python3 "$qim_root/tests/lib/mailboxes.py" "$REDIS" qim 16 <ledger
}

# expect_wrong KIND: that, and how often.
expect_wrong() {
	run -1 boxes
	expect_message "wrong: $1 ${2:-1},"
}

# eval_box LUA: with k[1], node a's first box, and m, its first entry and score.
eval_box() {
	redis_cli a EVAL "local k = redis.call('KEYS', '*:box:*')
		table.sort(k)
		local m = redis.call('ZRANGE', k[1], 0, 0, 'WITHSCORES')
		return $1" 0
}

@test "mailboxes: well; an entry missing, extra, moved; another content" {
	run -0 boxes
	expect_message 'missing 0  extra 0  twice 0'
	eval_box "redis.call('MSET', 'gone', m[1], 'score', m[2]) and redis.call('ZREM', k[1], m[1])"
	expect_wrong missing
	eval_box "redis.call('ZADD', k[1], 1000000, redis.call('GET', 'gone'))"
	expect_wrong mailbox_seq
	expect_wrong 'above mark'
	eval_box "redis.call('ZADD', k[1], redis.call('GET', 'score'), redis.call('GET', 'gone'))"
	redis_cli a DEL gone score
	run -0 boxes
	first=$(head -n 1 ledger)
	sed -i 1d ledger
	expect_wrong extra "$(jq '.recipients | length' <<<"$first")"
	jq -c '.payload.text = "x"' <<<"$first" >>ledger
	run -1 boxes
	expect_message 'wrong: content '
}

# The other node is asked last, and has the copy.
@test "mailboxes: a box on two nodes is twice there" {
	box=$(redis_cli a KEYS '*:box:*' | sort | head -n 1)
	redis_cli a MIGRATE 127.0.0.1 "$(redis_port b)" "$box" 0 1000 COPY
	expect_wrong twice "$(redis_cli a ZCARD "$box")"
	redis_cli b DEL "$box"
	box=$(redis_cli b KEYS '*:box:*' | sort | head -n 1)
	redis_cli b MIGRATE 127.0.0.1 "$(redis_port a)" "$box" 0 1000 COPY
	expect_wrong twice "$(redis_cli b ZCARD "$box")"
	redis_cli a DEL "$box"
}

# seen FANOUT END MAILBOX: what was observed: commits of so much of each
# partition, and the ends of the dispatch topic; marks are all 1000.
seen() {
	jq -cn --argjson f "$1" --argjson e "$2" --argjson m "$3" '
		{committed: {"0": $f, "1": $f},
		 ends: [range(16) | {"\(.)": $e}] | add},
		{committed: {"0": $m}, marks: {"0": 1000}}' >observed
}

topics() {
	/usr/bin/python3 "$qim_root/tests/lib/faults-check.py" "$MOCK_BROKERS" \
		outbox "${dispatch-dispatch}" 16 . "$@"
}

# bats test_tags=slow
@test "topics: well; a commit too early; nothing dispatched, accepted, observed" {
	seen 60 1000 1000
	run -0 topics
	expect_message 'unaccepted 0  undispatched 0  early 0'
	seen 60 1 1000
	run -1 topics
	expect_message 'wrong: early'
	seen 60 1000 1001
	run -1 topics
	expect_message 'wrong: early'
	run -0 topics marks-fall
	seen 60 1000 1000
	dispatch=empty run -1 topics
	expect_message 'wrong: undispatched'
	sed 's/"conversation_seq":1,/"conversation_seq":1000,/' -i ledger
	run -1 topics
	expect_message 'wrong: unaccepted'
	# No observation of a chain that has committed: nothing was looked at.
	cp "$BATS_FILE_TMPDIR/ledger" .
	for chain in ends marks; do
		seen 60 1000 1000
		sed "/$chain/d" -i observed
		run -1 topics
		expect_message 'wrong: unobserved'
		seen 60 1000 1000
		sed "/$chain/s/\"committed\":{[^}]*}/\"committed\":{}/" -i observed
		run -1 topics
		expect_message 'wrong: unobserved'
	done
}

# again FROM: into another topic, what the Outbox has from there on.
again() {
	outbox-read -q -b "$MOCK_BROKERS" -t outbox -o "$1" -e | fanout-plan -n 16 |
		dispatch-produce -q -b "$MOCK_BROKERS" -t turned >receipts
}

# bats test_tags=slow
@test "topics: more dispatched again than may be; first copies out of order" {
	seen 60 1000 1000
	run -0 topics again=0
	expect_message 'excess 0  disorder 0'
	again 10
	again 0
	dispatch=turned run -1 topics retried again=0
	expect_message 'wrong: excess'
	dispatch=turned run -0 topics retried
	dispatch=turned run -0 topics retried again=60
	dispatch=turned run -1 topics again=60
	expect_message 'wrong: disorder'
	[[ $output != *'wrong: excess'* ]]
}

@test "as many again as a window of batches at each start but the first" {
	RUN=$BATS_TEST_TMPDIR load_rate=300
	for pid in 5 6 7; do
		for stage in outbox-read fanout-plan; do
			echo "qim-fanout: info: $stage: pid $pid: started"
		done
	done >fanout.log
	[ "$(again_most)" = 4800 ]
}

# death CHAIN WHAT: what its supervisor says of one.
death() {
	echo "qim-$1: info: fanout-plan: pid 1: $2"
	echo "qim-$1: warning: fanout-plan: pid 1: $2; start again in 0.1 s"
}

# finds TEXT COMMAND...: it fails, and says so.
finds() {
	run -1 "${@:2}"
	expect_message "$1"
}

# bats test_tags=slow
@test "a run: deaths nobody caused or named, a process too large, a secret, what is left over" {
	RUN=$BATS_TEST_TMPDIR EXITS_MORE='' SECRETS=(horse)
	: >mailbox.log
	{
		death fanout 'killed by signal 9 (KILL)'
		death fanout 'exit 75: try again'
	} >fanout.log
	kills=1
	run -0 expect_deaths
	declare -A killed=([fanout]=2)
	finds 'fanout: named 1 of 2' was_named fanout
	killed[fanout]=1
	run -0 was_named fanout
	run -0 was_named mailbox
	kills=2
	finds 'info: 1 stages died of a SIGKILL, not 2' expect_deaths
	death fanout 'killed by signal 9 (KILL)' | head -n 1 >>fanout.log
	finds 'warning: 1 stages died of a SIGKILL, not 2' expect_deaths
	death fanout 'killed by signal 9 (KILL)' | tail -n 1 >>fanout.log
	run -0 expect_deaths
	for how in 'exit 70: internal error' 'exit 77: not authorised' \
		'killed by signal 6 (ABRT)' 'exit 750: none'
	do
		death mailbox "$how" >mailbox.log
		finds "unexpected: " expect_deaths
	done
	EXITS_MORE=77
	death mailbox 'exit 77: not authorised' >mailbox.log
	run -0 expect_deaths

	jq -cn '{processes: ([["outbox-read", "fanout-plan", "dispatch-produc",
		"mailbox-apply", "offset-commit", "log-keep"][] | {(.): [3000, 9, 9]}] |
		add), found: []}' >small
	cp small observed
	run -0 expect_small
	run -0 expect_no_secret
	for value in '[32769, 9, 9]' '[9000, 17, 9]' '[9000, 9, 65]'; do
		jq -c ".processes.\"fanout-plan\" = $value" small >observed
		finds 'fanout-plan: ' expect_small
	done
	jq -c '.processes."stream-tap" = [3073, 1, 9]' small >observed
	finds 'stream-tap: ' expect_small
	jq -c 'del(.processes."fanout-plan")' small >observed
	finds '5 of 6 programs were seen' expect_small
	jq -c '.found = ["fanout-plan"]' small >observed
	finds 'in arguments or environment' expect_no_secret
	cp small observed
	for word in horse xxxxx; do
		echo "a $word" >mailbox.log
		finds 'is in a log' expect_no_secret
	done

	mkdir tmp
	run -0 expect_nothing_left
	touch tmp/file
	finds 'left over: file' expect_nothing_left
	rm tmp/file
	QIM_FAULTS_RUN=$RUN sleep 60 3>&- &
	wait_until 10 grep -qx sleep "/proc/$!/comm"
	finds 'sleep 60' expect_nothing_left
	kill $!
	wait $! || true
	run -0 expect_nothing_left
}

# run_tests NAME BODY...: tests/run of these tests alone.
run_tests() {
	mkdir -p tree/tests
	cp "$qim_root/tests/run" tree/tests
	echo 'setup_suite() { :; }' >tree/tests/setup_suite.bash
	printf '@test "%s" { %s; }\n' "$@" >tree/tests/01-tests.bats
	run env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$HOME" QIM_BIN=none/bin \
		tree/tests/run quick 3>&-
}

# bats test_tags=slow
@test "tests that fail, are skipped or killed are counted as failed" {
	run_tests a true b true
	[ "$status" -eq 0 ]
	[ "${lines[-1]}" = '2 passed, 0 failed' ]
	run_tests a true b false
	[ "$status" -eq 1 ]
	[ "${lines[-1]}" = '1 passed, 1 failed' ]
	run_tests a true b skip
	[ "$status" -eq 1 ]
	[ "${lines[-1]}" = '1 passed, 1 failed' ]
	# shellcheck disable=SC2016
	run_tests a true b 'kill -9 $$' c true
	[ "$status" -eq 1 ]
	[ "${lines[-1]}" = '2 passed, 1 failed' ]
	expect_message 'bats: 2 of 3 tests ended'
}
