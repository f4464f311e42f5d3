# shellcheck shell=bash
# shellcheck disable=SC2034,SC2119,SC2120,SC2154  # what tests use and give
# producer.bash: dispatch-produce under test on a mock broker of the test's
# own, and the lines of its streams; needs lib/common.
#
# setup and teardown_file are here.  A test whose name ends in "(own mock)"
# starts the mock itself, with what it wants of it.
#
# Sets, before each test: stream and answer, files for input and output.

# mock [option]...: one for each test, so that topics are empty.
mock() {
	start_mock -n 2 -t dispatch:8 "$@"
}

teardown_file() {
	stop_mock
}

setup() {
	[[ $BATS_TEST_DESCRIPTION == *' (own mock)' ]] || mock
	stream=$BATS_TEST_TMPDIR/in.qim
	answer=$BATS_TEST_TMPDIR/out.qim
}

# The lines of a stream: hello, then end_line says how it ends.
hello() {
	jq -nc --argjson partitions "${1:-8}" '{qim: 1, minor: 0,
		kind: "dispatches", from: "fanout-plan", run: 7,
		topic: "outbox", group: "g",
		start: [["outbox", 0, 0, "stored"]], partitions: $partitions}'
}

# batch N FROM NEXT RECORDS: one frame; RECORDS is what stands in rec.
batch() {
	echo "{\"batch\":$1,\"src\":[[\"outbox\",0,$2,$3]],\"at\":[]${5:+,$5},\"rec\":[$4]}"
}

end_line() {
	echo "{\"end\":true,\"batches\":$1,\"records\":$2}"
}

# record OFFSET [VALUE]: to partition OFFSET modulo 8.
record() {
	echo "[null,$(($1 % 8)),\"k$1\",\"${2-v$1}\",null,[0,$1]]"
}

# many BATCHES RECORDS: a whole stream, to partitions in turn.
many() {
	jq -nc --argjson b "$1" --argjson r "$2" --arg hello "$(hello)" '
		($hello | fromjson),
		(range($b) as $n | {batch: ($n + 1),
			src: [["outbox", 0, ($n * $r), (($n + 1) * $r)]],
			at: [], rec: [range($n * $r; ($n + 1) * $r) |
				[null, . % 8, "k\(.)", "v\(.)", null, [0, .]]]}),
		{end: true, batches: $b, records: ($b * $r)}'
}

produce() {
	dispatch-produce -b "$MOCK_BROKERS" -t dispatch --connect-ms 20000 "$@"
}

# What is on the topic, a JSON line each, from an independent reader.
topic() {
	kcat -C -b "$MOCK_BROKERS" -t "$1" -e -q -J "${@:2}" 2>/dev/null
}

receipts() {
	stream-dump <"$answer" 2>/dev/null | jq -c 'select(.src and .batch)'
}
