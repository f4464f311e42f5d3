#!/usr/bin/env bats
# Stages of both chains killed (SIGKILL): each at each point of its protocol,
# and at random.

bats_require_minimum_version 1.5.0
load ../lib/faults

setup() {
	faults_begin
}

teardown() {
	faults_end
}

# Lines "program point", of a chain.
points_of() {
	local programs='outbox-read|offset-commit'
	case $1 in
	fanout) programs+='|fanout-plan|dispatch-produce' ;;
	mailbox) programs+='|mailbox-apply' ;;
	esac
	sed -nE 's/^\| `([a-z-]+)` \| ([a-z, -]+) \|.*/\1 \2/p' \
		"$qim_root/docs/guarantees.md" |
		while read -r point programs; do
			printf "%s $point\n" ${programs//,/}
		done | grep -E "^($programs) "
}

@test "each stage killed at each point of its protocol" {
	local chain program point
	CHAIN_BIN=$fail_bin
	faults_start
	for chain in fanout mailbox; do
		while read -r program point; do
			kill_at "$chain" "$program" "$point" \
				$((RANDOM % 20 + 1)) $((RANDOM % 4))
		done < <(points_of "$chain")
	done
	expect_whole
}
