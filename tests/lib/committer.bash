# shellcheck shell=bash
# shellcheck disable=SC2034,SC2119,SC2120,SC2154  # what tests use and give
# committer.bash: offset-commit under test on a mock broker, fed with receipts
# of our own making; needs lib/common.
#
# setup and teardown_file are here.  A file whose tests share a broker has
# mock_with_records as its setup_file.
#
# Sets, before each test: stream, a file for the input, and group.

mock() {
	start_mock -t t:2 -t u:1 --topic-error gone=UNKNOWN_TOPIC_OR_PART "$@"
}

# 100 records a partition.
mock_with_records() {
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
