#!/usr/bin/env bats
# What tests/unit/test-converge.c shows with a model of Redis, with a real one.

bats_require_minimum_version 1.5.0
load ../lib/common

# Its first lines say what has happened in how many seeds.
@test "all runs end alike on a redis-server with RDB files and one with AOF" {
	QIM_SERVERS=1 QIM_SEEDS=${QIM_SERVER_SEEDS:-500} \
		run -0 "${QIM_BIN%/bin}/unit/test-converge"
	echo "$output" | grep '^# ' >&3 || true
	[ "$(grep -c '^ok ' <<<"$output")" -eq 2 ]
}
