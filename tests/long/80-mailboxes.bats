#!/usr/bin/env bats
# tests/kafka/80-mailboxes.bats with a million entries, over two nodes and over
# eight.

bats_require_minimum_version 1.5.0

# many NODES [bats' option...]
many() {
	cd "$BATS_TEST_DIRNAME/../.."
	QIM_MESSAGES=172000 QIM_NODES=$1 run -0 bats \
		--setup-suite-file tests/setup_suite.bash "${@:2}" \
		tests/kafka/80-mailboxes.bats
	echo "$output" | grep '^# ' >&3 || true
}

@test "a million entries over two nodes" {
	many 2 -f 'killed'
}

@test "a million entries over eight nodes" {
	many 8
}
