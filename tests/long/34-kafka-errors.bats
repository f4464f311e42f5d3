#!/usr/bin/env bats
# Every error of Kafka's protocol, for each request that the programs make: at
# the first, a middle and the last one, and for good. What is expected stands
# in tests/data/kafka-errors.tsv and tests/lib/error-points.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/errors

points_of() {
	error_points | grep -E "^$1 "
}

@test "produce requests" {
	points_of produce | expect_points
}

@test "produce requests of an idempotent producer, and its id" {
	points_of '(idempotent|init-producer-id)' | expect_points
}

@test "commits" {
	points_of offset-commit | expect_points
}

@test "questions for offsets and for the coordinator" {
	points_of '(offset-fetch|list-offsets|find-coordinator)' | expect_points
}

@test "fetches" {
	points_of fetch | expect_points
}

@test "the topic, at the start" {
	points_of 'metadata/.*' | expect_points
}
