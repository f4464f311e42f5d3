#!/usr/bin/env bats
# The README's examples, as they stand there, and the shell uses that the
# manuals promise.

bats_require_minimum_version 1.5.0
load lib/common
load lib/redis

# shellcheck disable=SC2016,SC2154  # bats' and the shells' own variables

# readme_blocks: the lines of its shell examples from "At a shell" on, with a
# folder and a port of this test's own.
readme_blocks() {
	sed -n '/^## At a shell/,/^## Where/p' "$qim_root/README.md" |
		sed -n '/^```sh/,/^```/p' | grep -v '^```' |
		sed "s|/tmp|$BATS_TEST_TMPDIR|g; s|6399|$1|g; s|> plan|> $BATS_TEST_TMPDIR/plan|; s|< plan|< $BATS_TEST_TMPDIR/plan|g"
}

# bats test_tags=slow
@test "the README's examples work as they stand" {
	local port
	port=$(free_port)
	{
		echo 'set -e; trap "kill \$(jobs -p) 2>/dev/null" EXIT'
		readme_blocks "$port" | sed "s|\$PWD/build/bin|$QIM_BIN|"
	} >"$BATS_TEST_TMPDIR/readme.sh"
	grep -q '^kill %1 %2' "$BATS_TEST_TMPDIR/readme.sh"
	cd "$qim_root"
	run -0 --separate-stderr bash "$BATS_TEST_TMPDIR/readme.sh" 3>&-
	# mira's conversations, then the plan.
	[[ $output == *'{"conversation_id":'*'"unread":'* ]]
	[[ $output == *'"conversation_seq": 1,'* ]]
	[[ $stderr == *'offset-commit: info: committed in '* ]]
}

# some TOPIC COUNT: messages in a topic of the mock.
some() {
	/usr/bin/python3 "$qim_root/tests/lib/messages.py" "$2" |
		outbox-write -b "$MOCK_BROKERS" -t "$1"
}

# bats test_tags=slow
@test "planned to a file now, produced and committed later" {
	start_mock -t outbox:1 -t dispatch:64
	some outbox 2000
	cd "$BATS_TEST_TMPDIR"
	outbox-read -b "$MOCK_BROKERS" -t outbox -g later --first beginning \
		-e -c 1000 | fanout-plan >plan
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g later \
		--set outbox=0 --dry-run
	[[ $output == *'none -> 0' ]]
	dispatch-produce -b "$MOCK_BROKERS" -t dispatch <plan |
		offset-commit -b "$MOCK_BROKERS" -g later
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g later \
		--set outbox=0 --dry-run
	[ "$output" = 'outbox[0] 1000 -> 0' ]
}

# bats test_tags=slow
@test "Python programs in the middle of a chain: a filter, and a stage" {
	start_mock -t outbox:1 -t dispatch:64 -t copy:1
	some outbox 500
	cd "$BATS_TEST_TMPDIR"
	for n in 1 2; do
		awk -v want=$n '/^import sys, msgpack/ { n++ }
			/^\.Ed/ { if (n == want) exit } n == want' \
			"$qim_root/man/qim-stream.5" >example-$n.py
	done
	run -0 bash -c 'set -o pipefail
		outbox-read -b "$MOCK_BROKERS" -t outbox -g one --first beginning -e |
		/usr/bin/python3 example-1.py | fanout-plan |
		dispatch-produce -b "$MOCK_BROKERS" -t dispatch |
		offset-commit -b "$MOCK_BROKERS" -g one'
	run -0 bash -c 'set -o pipefail
		outbox-read -b "$MOCK_BROKERS" -t outbox -g two --first beginning -e |
		/usr/bin/python3 example-2.py |
		dispatch-produce -b "$MOCK_BROKERS" -t copy |
		offset-commit -b "$MOCK_BROKERS" -g two'
	for group in one two; do
		run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g $group \
			--set outbox=0 --dry-run
		[ "$output" = 'outbox[0] 500 -> 0' ]
	done
	[ "$(kcat -C -b "$MOCK_BROKERS" -t copy -e -q -f 'x\n' | wc -l)" = 500 ]
}

@test "a commit wired before the acks is refused: 76, nothing committed" {
	start_mock -t outbox:1
	some outbox 10
	run -76 bash -c 'outbox-read -b "$MOCK_BROKERS" -t outbox -g g --first beginning -e |
		offset-commit -b "$MOCK_BROKERS" -g g'
	expect_message "offset-commit: error: input: 'records' from outbox-read, wants 'receipts': is fanout-plan with dispatch-produce, or mailbox-apply, missing before it?"
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g g \
		--set outbox=0 --dry-run
	[[ $output == *'none -> 0' ]]
}
