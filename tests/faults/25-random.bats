#!/usr/bin/env bats
# Processes of both chains killed (SIGKILL) at random, in the long tier for half
# an hour.

bats_require_minimum_version 1.5.0
load ../lib/faults

setup() {
	faults_begin
}

teardown() {
	faults_end
}

# kill_victim CHAIN/PROGRAM
kill_victim() {
	case $1 in
	*/supervisor) kill_supervisor "${1%/*}" ;;
	*/log-keep) kill_log "${1%/*}" ;;
	*/own-log) kill_own_log "${1%/*}" ;;
	*) kill_now "${1%/*}" "${1#*/}" ;;
	esac
}

# Each time another one; the next follows within a second, or in three. What
# isn't a stage is killed once in any case.
@test "stages, supervisors, log-keep, stream-tap killed at random" {
	local stages=(fanout/outbox-read fanout/fanout-plan
		fanout/dispatch-produce fanout/offset-commit mailbox/outbox-read
		mailbox/mailbox-apply mailbox/offset-commit)
	local others=(fanout/supervisor mailbox/supervisor fanout/log-keep
		mailbox/log-keep fanout/own-log fanout/stream-tap)
	local victims=("${stages[@]}" "${others[@]}") victim
	FANOUT_MORE+=(--tap "fanout-plan=$RUN/tap")
	faults_start
	for victim in "${others[@]}"; do
		kill_victim "$victim"
		sleep "0.$((SRANDOM % 900 + 100))"
	done
	SECONDS=0
	while ((SECONDS < $(long_or 1800 5))); do
		victim=${victims[SRANDOM % ${#victims[@]}]}
		kill_victim "$victim"
		sleep "$((SRANDOM % $(long_or 3 1))).$((SRANDOM % 900 + 100))"
	done
	expect_whole 30
}
