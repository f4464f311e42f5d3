#!/usr/bin/env bats
# The demo on messages of our own; the sample itself is only looked at.

bats_require_minimum_version 1.5.0
load lib/common

demo=$qim_root/tests/demo/run

setup() {
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
	input=$BATS_TEST_TMPDIR/input
}

# Nothing is left behind, whatever happened.
teardown() {
	[ -z "$(ls "$BATS_TEST_TMPDIR/tmp")" ]
	wait_until 5 nobody_is_left
}

# A child that a chain has just forked may outlive it for a moment.
nobody_is_left() {
	! pgrep -fa "$BATS_TEST_TMPDIR/tmp/"
}

# message CONVERSATION SEQ RECIPIENTS
message() {
	printf '{"message_id":"%s-%s","conversation_id":"%s","conversation_seq":%s,"sender":"ann","created_at":%s,"payload":{"text":"你好 %s 🚲"},"recipients":[%s]}\n' \
		"$1" "$2" "$1" "$2" "$((1000 + $2))" "$2" "$3"
}

three_messages() {
	message team 1 '"ann","bob","ольга"'
	message team 2 '"ann","bob","ольга"'
	message pair 1 '"ann","bob"'
}

# bats test_tags=slow
@test "the demo passes on a file of one's own, and shows an inbox" {
	three_messages >"$input"
	run -0 --separate-stderr "$demo" "$input"
	[[ $output == *'3 messages went through both chains into 3 mailboxes'* ]]
	[[ $output == *'The inbox of ann'* ]]
	[[ $output == *'你好 2 🚲'* ]]
	[[ $output == *'mailbox entries          8         8'* ]]
	[[ $output == *'Each mailbox has exactly what was sent to it'* ]]
	for step in read plan enqueue acks apply commit; do
		grep -qE "^  (fanout|mailbox) .* $step +[1-9]" <<<"$output"
	done
	[ "$(LC_ALL=C.UTF-8 wc -L <<<"$output")" -le 80 ]
}

# bats test_tags=slow
@test "lines that aren't messages are refused by number, the others compared" {
	{
		echo 'no json'
		three_messages
		echo
		message team 2 '"eve"'
		message team 0 '"eve"'
		# What is refused takes no number from the one after it.
		echo '{"conversation_id":"other","conversation_seq":1}'
		message other 1 '"eve"'
	} >"$input"
	run -0 --separate-stderr "$demo" "$input"
	expect_message 'demo: line 6: has the conversation and number of line 3: left out'
	expect_message 'outbox-write: error: line 1: '
	expect_message 'outbox-write: error: line 7: '
	expect_message 'demo: lines refused: 3; the others go on'
	[[ $output == *'mailbox entries          9         9'* ]]
}

# bats test_tags=slow
@test "a mailbox that differs: 1, with an example" {
	three_messages >"$input"
	# shellcheck disable=SC2016
	export QIM_DEMO_TAMPER='redis-cli -s "$REDIS" --scan --pattern "*:box:bob" |
		xargs -I{} redis-cli -s "$REDIS" ZPOPMAX {}'
	run -1 --separate-stderr "$demo" "$input"
	[[ $output == *"differs: missing: 1, such as ('bob', ("* ]]
	[[ $output != *'Each mailbox has exactly'* ]]
	# shellcheck disable=SC2016
	export QIM_DEMO_TAMPER='printf "\227\0\241x\241x\241x\1\241x\200" |
		redis-cli -x -s "$REDIS" HSET "$(redis-cli -s "$REDIS" --scan \
			--pattern "*:log:pair" | head -n 1)" 1'
	run -1 --separate-stderr "$demo" "$input"
	[[ $output == *'differs: content: 1, such as '* ]]
}

# bats test_tags=slow
@test "no message at all, no file: 1, and why" {
	: >"$input"
	run -1 --separate-stderr "$demo" "$input"
	expect_message 'demo: no line is a message'
	run -1 --separate-stderr "$demo" "$input.none"
	expect_message "demo: $input.none: can't be read"
}

# bats test_tags=slow
@test "a chain that fails: 1, with what it said" {
	three_messages >"$input"
	mkdir "$BATS_TEST_TMPDIR/bin"
	ln -s "$QIM_BIN"/* "$BATS_TEST_TMPDIR/bin"
	rm "$BATS_TEST_TMPDIR/bin/fanout-plan"
	printf '#!/bin/bash\nexit 65\n' >"$BATS_TEST_TMPDIR/bin/fanout-plan"
	chmod +x "$BATS_TEST_TMPDIR/bin/fanout-plan"
	run -1 --separate-stderr env QIM_BIN="$BATS_TEST_TMPDIR/bin" \
		"$demo" "$input"
	expect_message 'demo: the fan-out chain ended'
	echo "$stderr"
	[[ $stderr =~ "qim-fanout: error: fanout-plan: pid "[0-9]+": exit 65: bad data" ]]
}

@test "Ctrl-C: ends all that it started" {
	three_messages >"$input"
	# Its own process group, as at a terminal.
	QIM_DEMO_TAMPER='sleep 60' env --default-signal=INT setsid "$demo" \
		"$input" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	pid=$!
	wait_until 60 pgrep -g "$pid" -x sleep
	kill -INT -- "-$pid"
	status=0
	wait "$pid" || status=$?
	[ "$status" = 130 ]
}

# bats test_tags=slow
@test "the sample is the same each time, dense, in order, and many scripts" {
	"$qim_root/tests/demo/sample" >"$BATS_TEST_TMPDIR/one"
	PYTHONHASHSEED=7 "$qim_root/tests/demo/sample" |
		cmp - "$BATS_TEST_TMPDIR/one"
	python3 -ES - "$BATS_TEST_TMPDIR/one" <<-'EOF'
		import json, sys
		seqs, before, text, most = {}, 0, "", 0
		for line in open(sys.argv[1], encoding="utf-8"):
		    m = json.loads(line)
		    c = m["conversation_id"]
		    assert m["conversation_seq"] == seqs.get(c, 0) + 1, m
		    seqs[c] = m["conversation_seq"]
		    assert m["created_at"] >= before, m
		    before = m["created_at"]
		    assert m["sender"] in m["recipients"], m
		    assert len(set(m["recipients"])) == len(m["recipients"]), m
		    text += m["payload"]["text"]
		    most = max(most, len(m["recipients"]))
		assert most == 20000, most
		assert len(seqs) > 60, len(seqs)
		for char in "ñпбдو你आあ안🚲":
		    assert char in text or char in "дآあ你", char
	EOF
}
