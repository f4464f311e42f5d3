#!/usr/bin/env bats
# The faults of tests/kafka/35-leader.bats, ten rounds of each, and longer ones.

bats_require_minimum_version 1.5.0

@test "brokers die, stop and change leaders, ten times over" {
	cd "$BATS_TEST_DIRNAME/../.."
	QIM_ROUNDS=10 run -0 bats --setup-suite-file tests/setup_suite.bash \
		tests/kafka/35-leader.bats
	echo "$output" | grep '^# ' >&3 || true
}
