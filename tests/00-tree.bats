#!/usr/bin/env bats
# The tree: manuals that say what -h says, layers that look only down,
# binaries that link only what they use.

bats_require_minimum_version 1.5.0
load lib/common

programs() {
	local file
	for file in "$qim_root"/cmd/*.c; do
		basename "$file" .c
	done
}

# The words of a manual's SYNOPSIS, or of -h, without layout.
manual_synopsis() {
	mandoc -T ascii -O width=1000 "$1" | col -b |
		sed -n '/^SYNOPSIS/,/^DESCRIPTION/p' | sed '1d;$d' | xargs -n 1
}

help_synopsis() {
	"$1" -h | sed 's/^usage: //' | xargs -n 1
}

@test "every program has a manual, and tests of its own" {
	for name in $(programs); do
		[ -f "$qim_root/man/$name.1" ] || fail "no man/$name.1"
		compgen -G "$qim_root/tests/[0-9][0-9]-$name.bats" >/dev/null ||
			fail "no tests/NN-$name.bats"
	done
}

# bats test_tags=slow
@test "-h prints the SYNOPSIS of the manual" {
	for name in $(programs); do
		diff <(manual_synopsis "$qim_root/man/$name.1") \
			<(help_synopsis "$name") || fail "$name"
	done
	for name in fanout mailbox; do
		diff <(manual_synopsis "$qim_root/man/qim-$name.1") \
			<("$qim_root/pipelines/$name" -h |
				sed 's/^usage: //' | xargs -n 1) ||
			fail "qim-$name"
	done
}

# bats test_tags=slow
@test "-V prints name and version; -q with -v, unknown options, operands: 64" {
	for name in $(programs); do
		run -0 "$name" -V
		[[ "$output" =~ ^"$name (qim) "[0-9]+\.[0-9]+\.[0-9]+$ ]]
		run -64 "$name" -q -v </dev/null
		expect_message "$name: error: -q, -v: one or the other"
		run -64 "$name" --no-such-option </dev/null
		expect_message "$name: error: --no-such-option: unknown option, see -h"
		run -64 "$name" --connect-ms 5 </dev/null
		expect_message "$name: error: --connect-ms: '5': wants a number from 100 to 3600000 ms"
	done
}

# bats test_tags=slow
@test "programs link only what they use" {
	linked() {
		ldd "$QIM_BIN/$1" | grep -q "lib$2"
	}
	for name in fanout-plan stream-dump stream-make mailbox-apply mailbox-read \
		mailbox-ack mailbox-trim log-keep stream-tap; do
		run ! linked "$name" rdkafka
	done
	for name in fanout-plan stream-dump outbox-read dispatch-produce offset-commit log-audit log-keep stream-tap; do
		run ! linked "$name" hiredis
	done
	linked outbox-read rdkafka
	linked mailbox-apply hiredis
	# One compares what both hold.
	for name in $(programs); do
		if linked "$name" rdkafka && linked "$name" hiredis; then
			echo "$name"
		fi
	done | diff - <(echo mailbox-audit)
}

@test "layers of common/ include only downward, and libraries only where they belong" {
	cd "$qim_root/common"
	run ! grep -nE '#include "(stream|message|kafka|redis)/' -r base
	run ! grep -nE '#include "(message|kafka|redis)/' -r stream
	run ! grep -nE '#include "(kafka|redis)/' -r message
	run ! grep -nE '#include "redis/' -r kafka
	run ! grep -nE '#include "kafka/' -r redis
	run ! grep -lE '#include <msgpack' -r base message kafka redis ../cmd
	run ! grep -lE '#include <librdkafka' -r base stream message redis
	run ! grep -lE '#include <hiredis' -r base stream message kafka ../cmd
}

@test "a descriptor that is closed is an error: 74, never a success" {
	run -74 bash -c 'stream-dump <&-'
	expect_message 'stream-dump: error: read of fd 0: Bad file descriptor'
	run -74 bash -c 'stream-dump <"$1" >&-' _ "$qim_root/tests/golden/small.qim"
	run -74 bash -c 'fanout-plan <"$1" >&-' _ "$qim_root/tests/golden/records.qim"
	expect_message 'fanout-plan: error: write to fd 1: Bad file descriptor'
	run -74 bash -c 'stream-dump <&- >&- 2>&-'
}

@test "the empty name isn't that of an option without a long one" {
	run -64 broker-mock --=1
	expect_message 'broker-mock: error: --=1: unknown option, see -h'
}
