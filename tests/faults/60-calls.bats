#!/usr/bin/env bats
# One program alone, and what it lives on gone bad: its stream torn or damaged,
# an allocation or a system call that fails, one byte a call in a storm of
# signals, no descriptors, a reader that sleeps, a stderr that takes nothing.
# drive.py says what must hold after each run.
#
# What a fault does inside the reader of streams itself, every prefix and every
# bit of a stream and hostile lengths, is in unit/test-stream.c, and random
# damage behind good checksums in unit/test-damage.c.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/redis

setup_file() {
	redis_start a
	start_mock -t o:1 -t d:1 -t w:1 -t dispatch:4
	python3 "$BATS_TEST_DIRNAME/../lib/messages.py" 6 |
		outbox-write -q -b "$MOCK_BROKERS" -t o
}

teardown_file() {
	redis_kill a
	stop_mock
}

# drive FAULT PROGRAM[:EVERY]...: one after the other; in the long tier EVERY
# is a sixteenth, 1 at least.
drive() {
	local fault=$1 one every
	shift
	for one; do
		every=${one#*:}
		[[ $one == *:* ]] || every=1
		[[ ${QIM_FAULTS:-short} != long ]] || every=$(((every + 15) / 16))
		BROKERS=$MOCK_BROKERS REDIS=127.0.0.1:$(redis_port a) \
			FAULTY_SO=${QIM_BIN%/bin}/tools/faulty.so \
			run /usr/bin/python3 "$BATS_TEST_DIRNAME/drive.py" \
			"$fault" "${one%:*}" "$every"
		((status == 0)) || fail "$output"
		echo "# $output" >&3
	done
}

stages=(fanout-plan dispatch-produce:3 mailbox-apply:3 offset-commit:3)
readers=(outbox-read outbox-write stream-tap log-keep stream-dump:7
	stream-make:7 fanout-plan/figures)
tools=(mailbox-read:5 mailbox-read/history mailbox-read/conversations:3
	mailbox-ack:3 mailbox-trim:11 log-audit:3 mailbox-audit:29)

@test "a stream torn after each byte: 75, and no receipt for what is torn" {
	drive torn stream-dump:3 stream-tap:3 fanout-plan:3 dispatch-produce:29 \
		mailbox-apply:67 offset-commit:29
}

@test "each bit of a stream flipped: 65, 75 in a length, nothing goes through" {
	drive flipped stream-dump:41 fanout-plan:41 dispatch-produce:311 \
		mailbox-apply:557 offset-commit:311
}

@test "the k-th allocation fails, k = 1, 2, ...: 71, or the same result" {
	drive malloc "${stages[@]}" "${readers[@]}" "${tools[@]}"
}

@test "the k-th system call fails: its code, or the same result" {
	drive call "${stages[@]}" "${readers[@]}" "${tools[@]}"
}

@test "one byte a call, a signal every 100 us: the same bytes" {
	local all=("${stages[@]}" "${readers[@]}" "${tools[@]}")
	drive rough "${all[@]%:*}"
}

@test "few descriptors, or none: its code, or the same result" {
	drive files fanout-plan mailbox-apply dispatch-produce offset-commit
}

@test "no more threads than k, k = 0, 1, ...: 71, or the same result" {
	drive thread outbox-read dispatch-produce offset-commit outbox-write \
		log-audit fanout-plan/figures
}

@test "stderr takes nothing: the same result" {
	drive silent "${stages[@]%:*}" "${readers[@]%:*}"
}

@test "a reader that sleeps: nothing is lost, memory stays" {
	drive stopped stream-dump fanout-plan dispatch-produce mailbox-apply
}
