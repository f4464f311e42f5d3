#!/usr/bin/env bats
# Stages of both chains killed (SIGKILL) at random, in the long tier for half an
# hour.

bats_require_minimum_version 1.5.0
load ../lib/faults

setup() {
	faults_begin
}

teardown() {
	faults_end
}

# Each time another one; the next follows within a second, or in three.
@test "stages killed at random" {
	local victims=(fanout/outbox-read fanout/fanout-plan
		fanout/dispatch-produce fanout/offset-commit mailbox/outbox-read
		mailbox/mailbox-apply mailbox/offset-commit) victim
	faults_start
	SECONDS=0
	while ((SECONDS < $(long_or 1800 10))); do
		victim=${victims[SRANDOM % ${#victims[@]}]}
		kill_now "${victim%/*}" "${victim#*/}"
		sleep "$((SRANDOM % $(long_or 3 1))).$((SRANDOM % 900 + 100))"
	done
	expect_whole 30
}
