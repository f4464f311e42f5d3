#!/usr/bin/env bats
# offset-commit: receipts into committed offsets, on the mock broker. What only
# a real broker does (groups with members) is in kafka/.

# shellcheck disable=SC2030,SC2031,SC2154  # a subshell each; lib sets them
bats_require_minimum_version 1.5.0
load lib/common
load lib/committer

setup_file() {
	mock_with_records
}

@test "commits what is acknowledged, holes too, once the end came: 0" {
	{
		hello '[[0,0],[1,0]]'
		receipt 1 0,0,0 1,0,0
		receipt 2 0,0,5
		receipt 3 0,5,9 1,0,50
		finish 3
	} | makes
	commits 0
	[ -z "$stderr" ]
	[ "$(committed)" = '0 9, 1 50' ]
}

@test "a first run's start is committed before any receipt, an old one isn't" {
	set_to t:1=9
	hello '[[0,7],[1,3]]' | makes
	commits 75
	expect_message 'input: torn: it ends without an end frame'
	[ "$(committed)" = '0 7, 1 9' ]
	{ hello '[[0,5],[1,3]]' && finish 0; } | makes
	commits 0 -v
	[ "$(count_commits)" = 0 ]
	[ "$(committed)" = '0 7, 1 9' ]
}

@test "a replay is absorbed, and nothing moves back" {
	set_to t:0=20
	{ hello '[[0,5]]' && receipt 1 0,5,5 && receipt 2 0,5,19 && finish 2; } | makes
	commits 0 -v
	[ "$(count_commits)" = 0 ]
	[ "$(committed)" = '0 20, 1 none' ]
	{ hello '[[0,5]]' && receipt 1 0,5,19 && receipt 2 0,19,21 && finish 2; } | makes
	commits 0 -v --every-batch
	expect_message 't[0] 20 -> 21'
	[ "$(count_commits)" = 1 ]
}

@test "a partition that joins later" {
	set_to t:1=10
	{
		hello '[[0,0]]'
		receipt 1 0,0,0
		receipt 2 1,10,10
		receipt 3 1,10,12
		finish 3
	} | makes
	commits 0
	[ "$(committed)" = '0 0, 1 12' ]
	{ hello '[[0,0]]' && receipt 1 1,50,50 && finish 1; } | makes
	commits 65
	expect_message 't[1]: the stream starts at 50, committed is 12'
}

@test "a torn input: 75, with what was acknowledged committed" {
	{ hello '[[0,0]]' && receipt 1 0,0,5 && receipt 2 0,5,9 && finish 2; } | makes
	truncate -s -1 "$stream"
	commits 75
	expect_message 'input: torn: it ends inside the frame at byte'
	[ "$(committed)" = '0 9, 1 none' ]
	{ hello '[[0,9]]' && receipt 1 0,9,11; } | makes
	commits 75
	expect_message 'input: torn: it ends without an end frame'
	[ "$(committed)" = '0 11, 1 none' ]
}

@test "damaged or out of order: 65, with what came before committed" {
	{ hello '[[0,0]]' && receipt 1 0,0,5 && receipt 2 0,6,9 && finish 2; } | makes
	commits 65
	expect_message 't[0]: offsets 6 to 9, wants them from 5 on'
	[ "$(committed)" = '0 5, 1 none' ]
	{ hello '[[0,5]]' && receipt 1 0,5,7 && receipt 2 0,7,9; } | makes
	truncate -s -1 "$stream"
	printf x >>"$stream"
	commits 65
	[ "$(committed)" = '0 7, 1 none' ]
}

@test "--every-batch commits each receipt by itself; else they are gathered" {
	twenty() {
		hello '[[0,0]]'
		for n in {1..20}; do
			receipt "$n" "0,$((n - 1)),$n"
		done
		finish 20
	}
	twenty | makes
	set_to t:0=0
	commits 0 -v --every-batch
	[ "$(count_commits)" = 20 ]
	[ "$(committed)" = '0 20, 1 none' ]
	group=$(unique group)
	twenty | makes
	commits 0 -v --interval 60000
	# The first at once, the rest at the end.
	[ "$(count_commits)" -le 2 ]
	expect_message '-> 20'
	[ "$(committed)" = '0 20, 1 none' ]
}

@test "-v says each move and how long it took" {
	set_to t=0
	{ hello '[[0,0],[1,0]]' && receipt 1 0,0,5 1,0,6 && finish 1; } | makes
	commits 0 -v
	grep -Eqx 'offset-commit: info: committed in [0-9]+\.[0-9] ms: t\[0\] 0 -> 5, t\[1\] 0 -> 6' \
		<<<"$stderr"
}

@test "commits while the input is still open" {
	opens
	{ hello '[[0,0]]' && receipt 1 0,0,5; } | stream-make >&7
	wait_until 10 is_committed '0 5, 1 none'
	exec 7>&-
	status=0
	wait "$pid" || status=$?
	[ "$status" = 75 ]
}

# As on two hosts: the locks of one are nothing to the other.
@test "two chains with one group: the slow one moves nothing back, and says so" {
	opens --lock-dir "$BATS_TEST_TMPDIR/elsewhere"
	{ hello '[[0,0],[1,0]]' && receipt 1 0,0,5; } | stream-make >"$stream.first"
	{
		hello '[[0,0],[1,0]]'
		receipt 1 0,0,5
		receipt 2 0,5,9
		receipt 3 0,9,12 1,0,3
		finish 3
	} | stream-make >"$stream.slow"
	cat "$stream.first" >&7
	wait_until 10 is_committed '0 5, 1 0'
	{ hello '[[0,5]]' && receipt 1 0,5,90 && finish 1; } | makes
	commits 0
	[ -z "$stderr" ]
	tail -c "+$(($(stat -c %s "$stream.first") + 1))" "$stream.slow" >&7
	exec 7>&-
	wait "$pid"
	[ "$(committed)" = '0 90, 1 3' ]
	[ "$(<"$BATS_TEST_TMPDIR/err")" = 'offset-commit: warning: t[0]: committed is 90, and not by this program: somebody else commits for this group' ]
}

@test "the group is moved back below the start, from elsewhere: 75" {
	local status=0
	set_to t:0=20
	opens
	{ hello '[[0,20],[1,0]]' && receipt 1 0,20,25; } | stream-make >"$stream.first"
	{
		hello '[[0,20],[1,0]]'
		receipt 1 0,20,25
		receipt 2 0,25,30
		finish 2
	} | stream-make >"$stream"
	cat "$stream.first" >&7
	wait_until 10 is_committed '0 25, 1 0'
	offset_commit -q --set t:0=3 --lock-dir "$BATS_TEST_TMPDIR/elsewhere"
	tail -c "+$(($(stat -c %s "$stream.first") + 1))" "$stream" >&7
	exec 7>&-
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	[ "$(<"$BATS_TEST_TMPDIR/err")" = 'offset-commit: error: t[0]: committed is 3, was 25, the stream starts at 20: somebody else has moved the group back: start again' ]
	[ "$(committed)" = '0 3, 1 0' ]
}

@test "a first TERM ends nothing: it reads on to the end" {
	opens
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	head -c 20 "$stream" >&7
	wait_until 10 has_handlers "$pid"
	kill -TERM "$pid"
	sleep 0.3
	tail -c +21 "$stream" >&7
	exec 7>&-
	wait "$pid"
	[ "$(committed)" = '0 5, 1 none' ]
}

# bats test_tags=slow
@test "--ready FD: a line with the first receipt, then it is closed" {
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/ready"
	offset_commit --ready 5 <"$BATS_TEST_TMPDIR/in" 3>&- \
		5>"$BATS_TEST_TMPDIR/ready" &
	pid=$!
	exec 6>"$BATS_TEST_TMPDIR/in" 7<"$BATS_TEST_TMPDIR/ready"
	(hello '[[0,0]]' && receipt 1 0,0,5 && finish 1) | makes
	# All of hello, which is bin 32: c6 and a length.
	bytes=$((5 + 16#$(xxd -s 1 -l 4 -p "$stream")))
	head -c "$bytes" "$stream" >&6
	run ! read -rt 0.3 -u 7
	tail -c "+$((bytes + 1))" "$stream" >&6
	[ "$(timeout 20 cat <&7)" = ready ]
	exec 6>&- 7<&-
	wait "$pid"
	# Who asked may be gone.
	offset_commit --ready 5 <"$stream" 5> >(:)
}

@test "--dry-run reads all and commits nothing" {
	set_to t:0=0
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 0 --dry-run
	[ "$stderr" = 'offset-commit: notice: dry run: would commit: t[0] 0 -> 5' ]
	[ "$(committed)" = '0 0, 1 none' ]
}

@test "--set moves a group, back and over gaps, and says from where" {
	run -0 --separate-stderr offset_commit --set t=end --set u=7
	[ "$output" = $'t[0] none -> 100\nt[1] none -> 100\nu[0] none -> 7' ]
	expect_message "offset-commit: notice: set: group $group: u[0] none -> 7"
	run -0 --separate-stderr offset_commit -q --set t:1=40
	[ "$output" = 't[1] 100 -> 40' ]
	[ -z "$stderr" ]
	run -0 --separate-stderr offset_commit --set t:0-1=beginning --dry-run
	[ "$output" = $'t[0] 100 -> 0\nt[1] 40 -> 0' ]
	expect_message "dry run: would set: group $group: t[1] 40 -> 0"
	[ "$(committed)" = '0 100, 1 40' ]
	offset_commit -q --set t=beginning
	[ "$(committed)" = '0 0, 1 0' ]
}

# This one has a mock of its own, which ends the others'.

# bats test_tags=slow
@test "1000 partitions in one commit; -v says as many as fit" {
	mock -t big:1000
	jq -nc --arg group "$group" '[range(1000)] as $all |
		{qim: 1, minor: 0, kind: "receipts", from: "made-up", run: 7,
			topic: "big", group: $group, durable: true,
			start: [$all[] | ["big", ., 0, "first"]]},
		{batch: 1, src: [$all[] | ["big", ., 0, . + 1]], in: 1, out: 1,
			dead: 0, bytes: 0, at: []},
		{end: true, batches: 1, records: 1}' | makes
	commits 0 -v --interval 60000
	[[ ${stderr%$'\n'*} == *': big[0] none -> 0, big[1] none -> 0, '*', 9'??' more' ]]
	[[ ${stderr##*$'\n'} == *': big[0] 0 -> 1, big[1] 0 -> 2, '*', 9'??' more' ]]
	offset_commit --set big=0 --dry-run -q |
		awk '$2 != NR { exit 1 } END { exit NR != 1000 }'
}
