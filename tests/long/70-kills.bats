#!/usr/bin/env bats
# The kills of tests/kafka/70-whole.bats, ten of each stage.

bats_require_minimum_version 1.5.0

@test "each of the seven stages killed ten times" {
	cd "$BATS_TEST_DIRNAME/../.."
	QIM_KILLS=10 run -0 bats --setup-suite-file tests/setup_suite.bash \
		-f 'killed' tests/kafka/70-whole.bats
	echo "$output" | grep '^# ' >&3 || true
}
