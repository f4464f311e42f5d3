#!/usr/bin/env bats
# offset-commit: the options, streams and starts that it refuses, and partitions
# that another one commits for already.

# shellcheck disable=SC2016,SC2154  # for bash -c; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/committer

setup_file() {
	mock_with_records
}

@test "usage: 64, 78" {
	run -64 --separate-stderr offset-commit -b "$MOCK_BROKERS"
	expect_message 'offset-commit: error: -g: missing'
	run -64 --separate-stderr offset-commit -g g
	expect_message 'offset-commit: error: -b: missing'
	run -64 offset_commit --interval 60001
	expect_message "--interval: '60001': wants a number from 0 to 60000 ms"
	run -64 offset_commit --set t
	expect_message "--set: 't': wants topic[:partitions]=where"
	run -64 offset_commit --set t=stored
	expect_message "--set: 'stored': wants one of: beginning, end, an offset, s@MS"
	run -64 offset_commit --set 't/1=0'
	expect_message "--set: 't/1=0': wants a topic's name"
	for at in 1- x '' 0-99999999999; do
		# Nobody listens at port 1: before anything is connected.
		run -64 offset_commit -b 127.0.0.1:1 --set "t:$at=0"
		expect_message "--set: '$at': wants numbers"
	done
	run -78 offset_commit --set t=0 --every-batch
	expect_message '--every-batch: --set reads no batches'
	run -78 offset_commit --set t=0 --interval 100
	expect_message '--interval: --set reads no batches'
	run -78 offset_commit -X enable.auto.commit=true
	expect_message 'refused: only offset-commit commits'
}

@test "another kind of stream: 76, and what is missing" {
	hello '[[0,0]]' kind='"records"' from='"outbox-read"' durable=null |
		jq -c 'del(.durable)' | makes
	commits 76
	expect_message "offset-commit: error: input: 'records' from outbox-read, wants 'receipts': is fanout-plan with dispatch-produce, or mailbox-apply, missing before it?"
	hello '[[0,0]]' kind='"dispatches"' | jq -c 'del(.durable)' | makes
	commits 76
	expect_message "is dispatch-produce missing before it?"
}

@test "outbox-read | offset-commit: 76" {
	run -76 --separate-stderr bash -c 'timeout 20 outbox-read \
		-b "$1" -t t -g "$2" --first beginning -e |
		timeout 20 offset-commit -b "$1" -g "$2"' - "$MOCK_BROKERS" "$group"
	[ "$(committed)" = '0 none, 1 none' ]
}

@test "receipts that aren't durable: 76" {
	{ hello '[[0,0]]' durable=false && receipt 1 0,0,9 && finish 1; } | makes
	commits 76
	expect_message "input: receipts from made-up aren't durable: nothing may be committed for them"
	[ "$(committed)" = '0 none, 1 none' ]
}

@test "another group, or none: 78 naming both" {
	hello '[[0,0]]' group='"theirs"' | makes
	commits 78
	expect_message "-g $group: the input is of group theirs"
	hello '[[0,0]]' group=null | makes
	commits 78
	expect_message "-g $group: outbox-read had no -g"
}

@test "not a stream: 65; nothing at all: 75" {
	echo 'hello, world' >"$stream"
	commits 65
	expect_message 'not a qim stream'
	: >"$stream"
	commits 75
	expect_message 'input: torn: it ends before the hello'
}

# bats test_tags=slow
@test "no broker: 69 at the deadline; refused group: 77" {
	{ hello '[[0,0]]' && finish 0; } | makes
	commits 69 -b 127.0.0.1:1 --connect-ms 300
	expect_message 'brokers: not within 300 ms'
	run -69 offset_commit --check -b 127.0.0.1:1 --connect-ms 300
	expect_message 'brokers: not within 300 ms'
	run -0 offset_commit --check
	run -69 offset_commit --set gone=0 --connect-ms 2000
	expect_message 'topic gone: not within 2000 ms: Broker: Unknown topic or partition'
}

@test "a start above what is committed would skip: 65 with both" {
	set_to t:0=20
	{
		hello '[]' 'start=[["t",1,90,"explicit"],["t",0,21,"explicit"]]'
		receipt 1 0,21,30
		finish 1
	} | makes
	commits 65
	expect_message 't[0]: the stream starts at 21, committed is 20: that would skip what lies between'
	[ "$(committed)" = '0 20, 1 none' ]
}

@test "a group that was moved back since outbox-read looked: 75" {
	set_to t:0=20
	{ hello '[[0,21]]' && receipt 1 0,21,30 && finish 1; } | makes
	commits 75
	expect_message 't[0]: committed is 20, was 21, the stream starts at 21: somebody else has moved the group back: start again'
	[ "$(committed)" = '0 20, 1 none' ]
}

# holds: offset-commit in the background, with a receipt that it has committed
# and an open input.
holds() {
	opens
	{ hello '[[0,0]]' && receipt 1 0,0,5; } | stream-make >&7
	wait_until 10 is_committed '0 5, 1 none'
}

# bats test_tags=slow
@test "a second one for a partition of the group: 78 with the pid and the file" {
	local file
	holds
	{ hello '[[1,3],[0,5]]' && receipt 1 0,5,9 1,3,9 && finish 1; } | makes
	commits 78
	expect_message "offset-commit: error: t[0]: locked by pid $pid: it commits for this group already: /"
	file=${stderr##* }
	[[ -f $file && ${file##*/} == "$group:t:mockCluster"*:???????????????? ]]
	# Only partition 1 is free, and for --set it is the same.
	run -78 --separate-stderr offset_commit --set t:0=0
	expect_message "t[0]: locked by pid $pid: "
	offset_commit -q --set t:1=7
	{ hello '[[1,7]]' && receipt 1 1,7,9 && finish 1; } | makes
	commits 0
	# Neither commits anything.
	run -0 --separate-stderr offset_commit --set t=0 --dry-run
	{ hello '[[0,5]]' && receipt 1 0,5,9 && finish 1; } | makes
	commits 0 --dry-run
	[ "$(committed)" = '0 5, 1 9' ]
	# Nothing is left of one that was killed.
	kill -KILL "$pid"
	wait "$pid" || true
	commits 0
	[ "$(committed)" = '0 9, 1 9' ]
	[ -f "$file" ]
}

# bats test_tags=slow
@test "a partition that joins later is another's: 78, the rest committed" {
	holds
	{
		hello '[[1,0]]'
		receipt 1 1,0,4
		receipt 2 0,5,5
		finish 2
	} | makes
	commits 78
	expect_message "t[0]: locked by pid $pid: "
	[ "$(committed)" = '0 5, 1 4' ]
}

@test "the lock of one that is about to end is waited for" {
	holds
	{ hello '[[0,5]]' && receipt 1 0,5,9 && finish 1; } | makes
	(
		sleep 0.5
		kill -KILL "$pid"
	) 3>&- &
	commits 0
	[ "$(committed)" = '0 9, 1 none' ]
}

@test "--lock-dir: made where it isn't there; 78 where it isn't one's own" {
	local dir=$BATS_TEST_TMPDIR/locks theirs=/usr
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 0 --lock-dir "$dir/"
	[ "$(stat -c %a "$dir")" = 700 ]
	compgen -G "$dir/$group:t:*" >/dev/null
	# Whoever tidies temporary folders leaves these alone.
	[ "$(stat -c %a "$dir"/*)" = 1600 ]
	refuses() {
		# Nobody listens at port 1: before anything is connected.
		for more in '' --check '--set t=0'; do
			# shellcheck disable=SC2086
			commits 78 -b 127.0.0.1:1 --lock-dir "$1" $more
			[ "$stderr" = "offset-commit: error: --lock-dir: $2" ] ||
				fail "$stderr"
		done
	}
	ln -s "$dir" "$dir-link"
	refuses "$dir-link" "$dir-link: a symbolic link or no folder: wants a folder of this user's own"
	refuses "$dir-link//" "$dir-link: a symbolic link or no folder: wants a folder of this user's own"
	refuses "$stream" "$stream: a symbolic link or no folder: wants a folder of this user's own"
	refuses "$dir/a/b" "$dir/a/b: No such file or directory: wants a folder of this user's own"
	chmod 770 "$dir"
	refuses "$dir" "$dir: mode 0770 lets others write to it, wants 0700"
	chmod 755 "$dir"
	run -0 offset_commit --check --lock-dir "$dir"
	if ((EUID == 0)); then
		theirs=$dir
		chown 12345 "$dir"
	fi
	refuses "$theirs" "$theirs: belongs to uid $(stat -c %u "$theirs"), wants uid $EUID"
	run -64 offset_commit --lock-dir ''
	expect_message '--lock-dir: empty'
	# It takes none.
	commits 0 --lock-dir "$dir" --dry-run
}

@test "no descriptor for the lock folder: 71" {
	local status=0
	# Its standard three and those for signals.
	prlimit --nofile=5 offset-commit -b 127.0.0.1:1 -g g \
		--lock-dir "$BATS_TEST_TMPDIR/locks" \
		2>"$BATS_TEST_TMPDIR/err" 3>&- 4>&- || status=$?
	[ "$status" = 71 ]
	[ "$(<"$BATS_TEST_TMPDIR/err")" = "offset-commit: error: --lock-dir: $BATS_TEST_TMPDIR/locks: Too many open files" ]
}

@test "--ready: a descriptor that isn't open, or nothing to be ready for: 78" {
	run -78 --separate-stderr offset_commit --ready 77
	expect_message 'offset-commit: error: --ready: 77: Bad file descriptor'
	run -78 --separate-stderr offset_commit --ready 77 --set t=1
	expect_message 'offset-commit: error: --ready: --set reads no batches'
}

@test "--set: outside the log 65, no such partition or twice 78; all or none" {
	run -65 --separate-stderr offset_commit --set t:0=5 --set t:1=101
	expect_message 't[1]: offset out of range: start 101 (explicit), the log holds 0 to 100'
	run -78 --separate-stderr offset_commit --set t:0=5 --set t:2=0
	expect_message '--set: partitions 2: topic t has 2, from 0 on'
	run -78 --separate-stderr offset_commit --set t:0=5 --set t=0
	expect_message '--set: t[0]: given twice'
	[ "$(committed)" = '0 none, 1 none' ]
}
