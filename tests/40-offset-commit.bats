#!/usr/bin/env bats
# offset-commit: receipts into committed offsets, on the mock broker. What only
# a real broker does (groups with members) is in kafka/.

# shellcheck disable=SC2016,SC2030,SC2031  # for bash -c; bats runs each test in a subshell
bats_require_minimum_version 1.5.0
load lib/common

# Topics have 100 records a partition.
mock() {
	start_mock -t t:2 -t u:1 --topic-error gone=UNKNOWN_TOPIC_OR_PART "$@"
}

setup_file() {
	mock
	for at in t:0 t:1 u:0; do
		seq 100 | kcat -P -b "$MOCK_BROKERS" -X acks=all -t "${at%:*}" -p "${at#*:}"
	done
}

teardown_file() {
	stop_mock
}

setup() {
	stream=$BATS_TEST_TMPDIR/stream
	group=$(unique group)
}

# hello START [name=json]...: START is [[partition, offset], ...].
hello() {
	local start=$1 extra='{}' pair
	shift
	for pair; do
		extra=$(jq -nc --argjson a "$extra" --argjson v "${pair#*=}" \
			--arg n "${pair%%=*}" '$a + {($n): $v}')
	done
	jq -nc --argjson start "$start" --arg group "$group" \
		--argjson extra "$extra" '{qim: 1, minor: 0,
		kind: "receipts", from: "made-up", run: 7, topic: "t",
		group: $group, start: [$start[] | ["t", .[0], .[1], "stored"]],
		durable: true} + $extra'
}

# receipt N [PARTITION,FROM,NEXT]...
receipt() {
	local n=$1 range src=
	shift
	for range; do
		src+=",[\"t\",$range]"
	done
	echo "{\"batch\":$n,\"src\":[${src#,}],\"in\":1,\"out\":1,\"dead\":0,\"bytes\":0,\"at\":[]}"
}

# finish N: the end after N receipts of one record each.
finish() {
	echo "{\"end\":true,\"batches\":$1,\"records\":$1}"
}

offset_commit() {
	offset-commit -b "$MOCK_BROKERS" -g "$group" --connect-ms 20000 "$@"
}

# makes: the lines of stdin as a stream into $stream.
makes() {
	stream-make >"$stream"
}

# commits STATUS option...: offset-commit with $stream as its input.
commits() {
	local status=$1
	shift
	run "-$status" --separate-stderr timeout -k 5 60 offset-commit \
		-b "$MOCK_BROKERS" -g "$group" --connect-ms 20000 "$@" <"$stream"
	# stdout has only what --set prints
	[ -z "$output" ] || fail "$output"
}

# committed: what the group has for t, as "0 5, 1 none".
committed() {
	offset_commit --set t=0 --dry-run -q |
		sed 's/^t\[\([0-9]*\)\] \(.*\) -> .*/\1 \2/' | paste -sd , | sed 's/,/, /'
}

# set_to TOPIC:PARTITION=OFFSET
set_to() {
	offset_commit -q --set "$1"
}

count_commits() {
	grep -c 'info: committed in' <<<"$stderr"
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

# opens option...: offset-commit in the background as $pid, its input fd 7.
opens() {
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	offset-commit -b "$MOCK_BROKERS" -g "$group" "$@" \
		<"$BATS_TEST_TMPDIR/pipe" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	exec 7>"$BATS_TEST_TMPDIR/pipe"
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

is_committed() {
	[ "$(committed)" = "$1" ]
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

@test "--ready: a descriptor that isn't open, or nothing to be ready for: 78" {
	run -78 --separate-stderr offset_commit --ready 77
	expect_message 'offset-commit: error: --ready: 77: Bad file descriptor'
	run -78 --separate-stderr offset_commit --ready 77 --set t=1
	expect_message 'offset-commit: error: --ready: --set reads no batches'
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

@test "--set: outside the log 65, no such partition or twice 78; all or none" {
	run -65 --separate-stderr offset_commit --set t:0=5 --set t:1=101
	expect_message 't[1]: offset out of range: start 101 (explicit), the log holds 0 to 100'
	run -78 --separate-stderr offset_commit --set t:0=5 --set t:2=0
	expect_message '--set: partitions 2: topic t has 2, from 0 on'
	run -78 --separate-stderr offset_commit --set t:0=5 --set t=0
	expect_message '--set: t[0]: given twice'
	[ "$(committed)" = '0 none, 1 none' ]
}

# The last ones have mocks of their own, which end the others'.

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

# bats test_tags=slow
@test "an error that passes: what is committed is read again, then 0" {
	mock --error offset-commit=NOT_COORDINATOR:1 \
		--error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:2
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 0 -v
	expect_message 't[0] '
	[ "$(committed)" = '0 5, 1 none' ]
}

# bats test_tags=slow
@test "an error that doesn't: 77, and members in the group: 78 in words" {
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	mock --error offset-commit=GROUP_AUTHORIZATION_FAILED:50
	commits 77
	expect_message 'commit: Broker: Group authorization failed'
	mock --error offset-commit=UNKNOWN_MEMBER_ID:50
	commits 78
	expect_message 'commit: refused, the group has members: some consumer has subscribed with its name (UNKNOWN_MEMBER_ID)'
	mock --error offset-fetch=GROUP_AUTHORIZATION_FAILED:50
	commits 77
	expect_message 'committed offsets of the group: Broker: Group authorization failed'
}

@test "damaged input, then a commit refused: the first is told: 65" {
	mock --error offset-commit=GROUP_AUTHORIZATION_FAILED:50
	{ hello '[[0,0]]' && receipt 1 0,0,5; } | makes
	echo garbage >>"$stream"
	# No commit before the damage is read, however late that is.
	commits 65 --interval 60000
	expect_message 'offset-commit: warning: commit: Broker: Group authorization failed'
	expect_message 'offset-commit: error: input: '
}

# bats test_tags=slow
@test "errors without an end: 75 at the deadline, with what wasn't committed" {
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 75 --connect-ms 1500
	expect_message 'not committed within 1500 ms: '
	expect_message 't[0] none -> '
}

# bats test_tags=slow
@test "a topic that isn't there: 69 at the deadline" {
	mock --error offset-commit=UNKNOWN_TOPIC_OR_PART:1000
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | makes
	commits 69 --connect-ms 2000
	expect_message 'not committed within 2000 ms: Broker: Unknown topic or partition: t[0] none -> '
}

# bats test_tags=slow
@test "--set without an answer: 75, and how to find out" {
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	run -75 offset_commit --set t=0 --connect-ms 1000
	expect_message '--set: no success within 1000 ms: Broker: Coordinator load in progress: it may be done: --set with --dry-run tells'
}

told_to_wait() {
	grep -q 'again in' "$BATS_TEST_TMPDIR/err"
}

# bats test_tags=slow
@test "while it waits for a commit a first TERM ends nothing, a second all: 75" {
	local status=0
	mock --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	opens -v --connect-ms 60000
	{ hello '[[0,0]]' && receipt 1 0,0,5 && finish 1; } | stream-make >&7
	exec 7>&-
	wait_until 10 told_to_wait
	kill -TERM "$pid"
	sleep 0.3
	kill -0 "$pid"
	kill -INT "$pid" # two of one signal may be one
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	[ "$(tail -n 1 "$BATS_TEST_TMPDIR/err")" = 'offset-commit: error: abandoned: second signal' ]
}

@test "--set while there is no answer: a TERM ends it: 75" {
	local status=0
	mock -v --error offset-commit=COORDINATOR_LOAD_IN_PROGRESS:1000
	offset-commit -b "$MOCK_BROKERS" -g "$group" --set t=0 \
		--connect-ms 60000 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	wait_until 20 grep -q 'Received OffsetCommitRequest' \
		"$(scope_dir)/mock/err"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -q 'told to stop before an answer' "$BATS_TEST_TMPDIR/err"
}

# bats test_tags=slow
@test "the broker dies before a commit: 75 within the deadline" {
	local status=0
	mock
	opens --connect-ms 2000
	{ hello '[[0,0]]' && receipt 1 0,0,5; } | stream-make >"$stream.first"
	{ hello '[[0,0]]' && receipt 1 0,0,5 && receipt 2 0,5,9 && finish 2; } | makes
	cat "$stream.first" >&7
	wait_until 10 is_committed '0 5, 1 none'
	kill -KILL "$MOCK_PID"
	tail -c "+$(($(stat -c %s "$stream.first") + 1))" "$stream" >&7
	exec 7>&-
	wait_until 30 gone "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -q 'not committed within 2000 ms: .*t\[0\] 5 -> 9' \
		"$BATS_TEST_TMPDIR/err"
}
