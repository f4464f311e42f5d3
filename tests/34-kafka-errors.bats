#!/usr/bin/env bats
# Errors of brokers, injected into the mock: one of each class, for each
# request; tests/long/34-kafka-errors.bats has them all.
# shellcheck disable=SC2016,SC2154

bats_require_minimum_version 1.5.0
load lib/common
load lib/errors

# The record's fault, no topic, may pass, an ACL, configuration.
classes='10 3 7 29 42'

# bats test_tags=slow
@test "an error of each class in a produce request" {
	# shellcheck disable=SC2086
	error_points $classes 134 45 | grep -E '^(produce|idempotent) ' |
		grep -E ' (middle|later-forever) ' | expect_points
}

# bats test_tags=slow
@test "an error of each class in a commit, and in the questions before it" {
	# shellcheck disable=SC2086
	error_points $classes 113 |
		grep -E '^offset-commit (last|later-forever) ' | expect_points
	error_points 7 30 | grep -E '^(offset-fetch|find-coordinator) ' |
		expect_points
	error_points 31 | grep -E '^init-producer-id ' | expect_points
}

# bats test_tags=slow
@test "an error of each class in what a reader asks" {
	# shellcheck disable=SC2086
	error_points $classes | grep -E '^fetch (middle|forever) ' |
		expect_points
	error_points 7 29 | grep -E '^list-offsets ' | expect_points
}

# bats test_tags=slow
@test "an error of each class for a topic, at the start" {
	# shellcheck disable=SC2086
	error_points 5 3 29 17 | grep -E '^metadata' | expect_points
}

@test "offset-commit --check asks for no topic" {
	start_mock -t o:1 --topic-error o=TOPIC_AUTHORIZATION_FAILED
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g g --check
	[ -z "$output$stderr" ]
	stop_mock
}

@test "a group that may not be seen: 77 at once, not 69 in the end" {
	start_mock -t o:1 --error find-coordinator=GROUP_AUTHORIZATION_FAILED:forever
	run -77 --separate-stderr outbox-read -b "$MOCK_BROKERS" -g g -t o
	expect_message 'outbox-read: error: committed offsets of the group: kafka: FindCoordinator response error: Broker: Group authorization failed'
	run -77 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g g --set o=0
	expect_message 'Broker: Group authorization failed'
	# Who has no group doesn't ask for one.
	run -0 --separate-stderr bash -c 'outbox-read -b "$MOCK_BROKERS" -t o \
		-o beginning -e | stream-dump'
	[ -z "$stderr" ]
	stop_mock
}

@test "the table has each error of the protocol once" {
	run -0 awk '!/^#/ { if (NF < 5 || seen[$1]++) exit 1; n++ }
		END { for (c = -1; c <= 133; c++)
			if (c != 0 && !(c in seen)) exit 1
		print n }' "$qim_root/tests/data/kafka-errors.tsv"
	[ "$output" -eq 136 ]
}
