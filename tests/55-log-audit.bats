#!/usr/bin/env bats
# log-audit on the mock broker: every kind of finding, every form of a value,
# every message. Transactions and real damage are in kafka/.

# shellcheck disable=SC2030,SC2031  # bats runs each test in a subshell
bats_require_minimum_version 1.5.0
load lib/common

setup_file() {
	start_mock -t wrong:2 -t fine:4 -t words:1 -t ids:2 -t bytes:1 -t none:1 \
		-t many:4 --topic-error gone=UNKNOWN_TOPIC_OR_PART \
		--topic-error secret=TOPIC_AUTHORIZATION_FAILED
	produce -t wrong -p 0 <<-'END'
		a|{"conversation_seq":1,"who":"x"}
		a|{"conversation_seq":3,"who":"x"}
		a|{"conversation_seq":2,"who":"y"}
		a|{"conversation_seq":2,"who":7}
		a|{"conversation_seq":"0007","who":"7"}
		a|null
		|{"conversation_seq":-1}
		b|{"conversation_seq":1.5}
	END
	printf 'b|\n' | produce -t wrong -p 0 -Z
	produce -t wrong -p 1 <<-'END'
		a|{"conversation_seq":6,"who":"x"}
		a|{"conversation_seq":1,"who":"x"}
		c|{"conversation_seq":4,"who":"x"}
		c|{"conversation_seq":9,"who":"x"}
	END
	seq 0 1302 >"$BATS_FILE_TMPDIR/seqs"
	printf '%s\n' 1305 1304 1303 >>"$BATS_FILE_TMPDIR/seqs"
	seq 1306 2999 >>"$BATS_FILE_TMPDIR/seqs"
	awk '{ printf "k|seq=%05d\n", $1 }' "$BATS_FILE_TMPDIR/seqs" |
		produce -t words
	seq 2000 | jq -c '{conversation_seq: .}' | sed 's/^/k|/' |
		produce -t many
}

teardown_file() {
	stop_mock
}

produce() {
	kcat -P -b "$MOCK_BROKERS" -X acks=all -K '|' "$@"
}

audit() {
	timeout -k 5 60 log-audit -b "$MOCK_BROKERS" --connect-ms 20000 "$@"
}

# counts OPTION...: the last line, its numbers in the manual's order.
counts() {
	audit "$@" | tail -n 1 | jq -r '[.records, .unreadable, .groups,
		.duplicates, .inversions, .gaps, .missing] | join(" ")'
}

# refuses STATUS MESSAGE option...
refuses() {
	local status=$1 message=$2
	shift 2
	run "-$status" --separate-stderr audit "$@"
	# shellcheck disable=SC2154
	[ "${#stderr_lines[@]}" = 1 ] || fail "$stderr"
	expect_message "log-audit: error: $message"
	[ -z "$output" ]
}

@test "usage: 64 names the option, the value and what is allowed" {
	run -64 --separate-stderr log-audit -t wrong
	expect_message 'log-audit: error: -b: missing'
	refuses 64 '-t: missing'
	refuses 64 "-t: 'a/b': wants a topic's name" -t a/b
	refuses 64 "-o: 'end': wants one of: beginning, an offset, s@MS" \
		-t wrong -o end
	refuses 64 "-p: '0,x': wants numbers from 0 to" -t wrong -p 0,x
	refuses 64 "-c: '0': wants a number from 1 to" -t wrong -c 0
	refuses 64 '--by: empty' -t wrong --by ''
	refuses 64 "--from: '-1': wants a number from 0 to 9223372036854775807" \
		-t wrong --from -1
	refuses 64 "--list: 'x': wants a number from 0 to" -t wrong --list x
	refuses 64 "--expect-no: 'gaps,losses': wants all, or some of duplicates, inversions, gaps, unreadable with commas between" \
		-t wrong --expect-no gaps,losses
	refuses 64 "--expect-no: 'gaps,': wants all" -t wrong --expect-no gaps,
}

# bats test_tags=slow
@test "78, 65, 66, 69, 77: as outbox-read has them" {
	refuses 78 '-p 0,3: topic wrong has 2 partitions, from 0 on' -t wrong -p 0,3
	refuses 78 "-X auto.offset.reset: 'latest': refused" \
		-t wrong -X auto.offset.reset=latest
	refuses 65 'wrong[0]: offset out of range: start 50 (explicit), the log holds 0 to 9' \
		-t wrong -o 50
	refuses 66 "$BATS_TEST_TMPDIR/none: No such file" \
		-t wrong -F "$BATS_TEST_TMPDIR/none"
	refuses 69 'topic gone: not within 2000 ms: Broker: Unknown topic or partition' \
		-t gone --connect-ms 2000
	refuses 77 'topic secret: Broker: Topic authorization failed' -t secret
}

@test "every kind of finding, with its place" {
	audit -t wrong -p 0 >"$BATS_TEST_TMPDIR/out"
	diff - "$BATS_TEST_TMPDIR/out" <<-'END'
		{"found":"inversion","group":"a","partition":0,"offset":2,"seq":2,"after_offset":1,"after_seq":3}
		{"found":"duplicate","group":"a","partition":0,"offset":3,"seq":2}
		{"found":"unreadable","partition":0,"offset":5,"why":"no field 'conversation_seq'"}
		{"found":"unreadable","partition":0,"offset":6,"why":"field 'conversation_seq': '-1': wants an integer from 0 to 2^63 - 1"}
		{"found":"unreadable","partition":0,"offset":7,"why":"field 'conversation_seq': wants a text or an integer"}
		{"found":"unreadable","partition":0,"offset":8,"why":"no value"}
		{"found":"gap","group":"a","first":4,"last":6}
		{"records":9,"unreadable":4,"groups":1,"duplicates":1,"inversions":1,"gaps":1,"missing":3}
	END
}

@test "groups span partitions, inversions don't" {
	# a: 1 3 2 2 7 and 6 1: no inversion at 6, which starts its partition.
	# Which of the two 1 is the first one, the brokers decide: where it is
	# that of partition 1, it stands after 6.
	run -0 counts -t wrong
	[[ "$output" == '13 4 2 2 '[12]' 2 6' ]]
	audit -t wrong --list 99 | jq -sc 'map(select(.found == "gap"))' |
		diff - <(echo '[{"found":"gap","group":"a","first":4,"last":5},{"found":"gap","group":"c","first":5,"last":8}]')
}

@test "--by a field of the value, a number or the same in digits" {
	run -0 counts -t wrong -p 0 --by who
	[ "$output" = '9 4 3 0 0 2 5' ]
	audit -t wrong -p 0 --by who | jq -se 'map(select(.found == "gap") | [.group, .first, .last]) == [["x", 2, 2], ["7", 3, 6]]'
	# One field may be all of them.
	run -0 counts -t wrong -p 0 --by who --id who
	[ "$output" = '9 4 3 2 0 2 5' ]
}

@test "--from: numbers that are due before the least one" {
	run -0 counts -t wrong -p 1
	[ "$output" = '4 0 2 0 1 2 8' ]
	run -0 counts -t wrong -p 1 --from 0
	[ "$output" = '4 0 2 0 1 4 13' ]
	run -0 counts -t wrong -p 1 --from 5
	[ "$output" = '4 0 2 0 1 2 5' ]
}

@test "the two inversions of a leader's change, in words of a text" {
	audit -t words --seq seq --from 0 >"$BATS_TEST_TMPDIR/out"
	jq -se 'map(select(.found) | [.found, .after_seq, .seq]) ==
		[["inversion", 1305, 1304], ["inversion", 1304, 1303]]' \
		"$BATS_TEST_TMPDIR/out"
	jq -se '.[-1] == {records: 3000, unreadable: 0, groups: 1, duplicates: 0,
		inversions: 2, gaps: 0, missing: 0}' "$BATS_TEST_TMPDIR/out"
}

@test "--expect-no: 1 where there are some, after the counts" {
	run -1 --separate-stderr audit -t wrong -p 0 --list 0 --expect-no all
	[ "$output" = '{"records":9,"unreadable":4,"groups":1,"duplicates":1,"inversions":1,"gaps":1,"missing":3}' ]
	[ "$stderr" = 'log-audit: error: 1 duplicates, 1 inversions, 1 gaps, 4 unreadable: none expected' ]
	run -1 --separate-stderr audit -t wrong -p 0 --expect-no gaps
	[ "$stderr" = 'log-audit: error: 1 gaps: none expected' ]
	run -1 audit -t wrong -p 0 --expect-no duplicates,unreadable
	run -0 audit -t words --seq seq --expect-no duplicates,gaps,unreadable
	run -1 audit -t words --seq seq --expect-no inversions
	run -0 audit -t none --expect-no all
	[ "$output" = '{"records":0,"unreadable":0,"groups":0,"duplicates":0,"inversions":0,"gaps":0,"missing":0}' ]
}

@test "--list bounds each kind alone" {
	run -0 audit -t words --seq seq --list 1
	[ "${#lines[@]}" = 2 ]
	run -0 audit -t wrong --list 0
	[ "${#lines[@]}" = 1 ]
}

@test "a dispatch topic: --id, where a message has several dispatches" {
	local conversation
	for conversation in c0 c1; do
		seq 25 | jq -c --arg c $conversation '{message_id: "\($c)-\(.)",
			conversation_id: $c, conversation_seq: ., sender: "s",
			created_at: 1, payload: "p",
			recipients: ["ann", "bob", "eve", "lou"]}'
	done | sed 's/^/x|/' | produce -t fine
	run -0 counts -t ids --id id
	[ "$output" = '0 0 0 0 0 0 0' ]
	for _ in 1 2; do
		outbox-read -b "$MOCK_BROKERS" -t fine -o beginning -e |
			fanout-plan -q -n 2 --max-recipients 2 |
			dispatch-produce -q -b "$MOCK_BROKERS" -t ids >"$BATS_TEST_TMPDIR/receipts"
		counts -t ids --id id >>"$BATS_TEST_TMPDIR/counts"
	done
	awk 'NR == 1 { n = $1; exit !(n > 50 && $2 == 0 && $3 == 2 && $4 == 0 && $6 == 0) }' "$BATS_TEST_TMPDIR/counts"
	awk 'NR == 1 { n = $1 } NR == 2 { exit !($1 == 2 * n && $4 == n && $5 == 0) }' "$BATS_TEST_TMPDIR/counts"
	audit -t ids --id id | jq -se '.[0] | .found == "duplicate" and (.id.base64 | length == 24)'
}

@test "msgpack, bytes as a key, numbers at their limit" {
	/usr/bin/python3 - "$BATS_TEST_TMPDIR" <<-'END'
		import msgpack, sys
		for i, v in enumerate([{"n": 0}, {"n": 2**63 - 1}, {"n": 2**63}, {"n": b"12"}, {1: 2, "n": [1]}]):
		    open(f"{sys.argv[1]}/{i}", "wb").write(b"\xff\x00|" + msgpack.packb(v))
		open(f"{sys.argv[1]}/5", "wb").write(b"k|\xdf\xff\xff\xff\xff")
	END
	for i in 0 1 2 3 4 5; do
		produce -t bytes -D '~' <"$BATS_TEST_TMPDIR/$i"
	done
	audit -t bytes --seq n >"$BATS_TEST_TMPDIR/out"
	jq -r .why "$BATS_TEST_TMPDIR/out" | grep -v null | diff - <(
		echo "field 'n': '9223372036854775808': wants an integer from 0 to 2^63 - 1"
		echo "field 'n': wants a text or an integer"
		echo "msgpack: 8589934590 declared at 5, 0 bytes left"
	)
	jq -se '.[1] | .found == "inversion" and .group == {base64: "/wA="} and .seq == 12' \
		"$BATS_TEST_TMPDIR/out"
	grep -qx '{"found":"gap","group":{"base64":"/wA="},"first":13,"last":9223372036854775806}' \
		"$BATS_TEST_TMPDIR/out"
	tail -n 1 "$BATS_TEST_TMPDIR/out" | grep -q '"missing":9223372036854775805}'
}

@test "-o and -c bound what is read" {
	run -0 counts -t words --seq seq -o 2000
	[ "$output" = '1000 0 1 0 0 0 0' ]
	run -0 counts -t words --seq seq -c 1305
	[ "$output" = '1305 0 1 0 1 1 1' ]
	run -0 counts -t words --seq seq -o s@99999999999999
	[ "$output" = '0 0 0 0 0 0 0' ]
}

@test "--check finds the topic and reads nothing" {
	run -0 audit -t words --check
	[ -z "$output" ]
	refuses 69 'topic gone: not within 300 ms' -t gone --check \
		--connect-ms 300
}

@test "-v tells the bounds of each partition" {
	run -0 --separate-stderr audit -v -t words --seq seq
	expect_message 'log-audit: info: words[0]: from 0 (explicit), the log holds 0 to 3000'
}

@test "a reader that is gone: 75; a full disk: 74" {
	run -75 --separate-stderr to_nobody log-audit -b "$MOCK_BROKERS" -t many
	expect_message 'log-audit: error: '
	# shellcheck disable=SC2016
	run -74 --separate-stderr bash -c 'log-audit -b "$1" -t many >/dev/full' - \
		"$MOCK_BROKERS"
	expect_message 'log-audit: error: write to fd 1: No space left on device'
}

@test "a signal before the end: 75, how far it came" {
	local pid status=0
	start_mock -t half:1 --error fetch=NOT_LEADER_FOR_PARTITION:100000
	echo 'k|{"conversation_seq":1}' | produce -t half
	log-audit -b "$MOCK_BROKERS" -t half -v >"$BATS_TEST_TMPDIR/out" \
		2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	wait_until 10 grep -q 'the log holds 0 to 1' "$BATS_TEST_TMPDIR/err"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -qx 'log-audit: error: stopped by a signal after 0 records' \
		"$BATS_TEST_TMPDIR/err"
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
}
