#!/usr/bin/env bats
# tests/kafka/80-mailboxes.bats with a million entries, over two nodes and over
# eight.

bats_require_minimum_version 1.5.0

# many NODES [bats' option...]: as a suite of its own, which ends its own servers.
many() {
	local out
	cd "$BATS_TEST_DIRNAME/../.." || return
	if ! out=$(env -u QIM_STATE QIM_MESSAGES=172000 QIM_NODES="$1" \
		bats "${@:2}" --setup-suite-file tests/setup_suite.bash \
		tests/kafka/80-mailboxes.bats 3>&-); then
		echo "$out" >&2
		return 1
	fi
	grep '^# ' <<<"$out" >&3
}

@test "a million entries over two nodes" {
	many 2 -f 'killed'
}

@test "a million entries over eight nodes" {
	many 8
}
