#!/usr/bin/env bats
# Stages of both chains killed (SIGKILL), each at each point of its protocol, and
# stopped (SIGSTOP) while another chain does their work, or their supervisor is.

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
	local chain program point n rounds
	rounds=$(long_or 5 1)
	CHAIN_BIN=$fail_bin
	faults_start
	for ((n = 1; n <= rounds; n++)); do
		for chain in fanout mailbox; do
			while read -r program point; do
				kill_at "$chain" "$program" "$point" \
					$((SRANDOM % 20 + 1)) $((SRANDOM % 4))
			done < <(points_of "$chain")
		done
		((n % 5)) || caught_up 30 "round $n"
	done
	((kills == 23 * rounds)) || fail "$kills killed, not 23 each round"
	expect_whole 30
}

# committed_sum FANOUT|MAILBOX: the sum of what it has committed.
committed_sum() {
	case $1 in
	fanout) kafka_committed "$GROUP-fanout" "$OUTBOX" ;;
	mailbox) kafka_committed "$GROUP-mailbox" "$DISPATCH" ;;
	esac | awk '{ n += $2 } END { print n }'
}

committed_above() {
	local sum
	sum=$(committed_sum "$1") && ((sum > $2))
}

# A second chain has locks of its own, as one on another host has. It has ended
# when the stage goes on, so that whatever moves back is the stage's doing.
@test "a stage stopped (SIGSTOP), another chain did its work, the stage goes on; a supervisor stopped" {
	local chain stage sum
	SHARED=1
	faults_start
	FANOUT_MORE+=(--lock-dir "$RUN/locks2")
	MAILBOX_MORE+=(--lock-dir "$RUN/locks2")
	for stage in fanout/offset-commit fanout/dispatch-produce \
		mailbox/mailbox-apply mailbox/offset-commit fanout/fanout-plan \
		$(long_or 'fanout/outbox-read mailbox/outbox-read' ''); do
		chain=${stage%/*}
		fault "$stage stopped"
		signal_stage STOP "$chain" "${stage#*/}"
		sum=$(committed_sum "$chain")
		chains_start "$chain@2"
		sleep "$(long_or 60 1)"
		wait_until 60 committed_above "$chain" $((sum + 300))
		chains_stop "$chain@2"
		signal_stage CONT "$chain" "${stage#*/}"
		caught_up 30 "$stage"
	done
	# It sees all deaths at once when it goes on, and names the one that it
	# was.
	for stage in fanout/dispatch-produce mailbox/mailbox-apply \
		$(long_or 'fanout/outbox-read fanout/fanout-plan
			fanout/offset-commit mailbox/outbox-read
			mailbox/offset-commit' ''); do
		chain=${stage%/*}
		fault "the supervisor of $chain stopped"
		kill -STOP "$(<"$RUN/$chain.pid")"
		kill_now "$chain" "${stage#*/}"
		sleep "$(long_or 60 1)"
		kill -CONT "$(<"$RUN/$chain.pid")"
		caught_up 30 "$stage, its supervisor stopped"
	done
	expect_whole 30
}

# Nobody keeps two hosts from it. Between a chain's question what is committed
# and its commit the other's may land, and the group goes back by that, until
# the next commit of either: late, which is safe.
@test "two chains of one group at once: every mailbox is whole" {
	faults_start
	FANOUT_MORE+=(--lock-dir "$RUN/locks2")
	MAILBOX_MORE+=(--lock-dir "$RUN/locks2")
	fault 'a second chain of each kind'
	chains_start fanout@2 mailbox@2
	sleep "$(long_or 60 5)"
	chains_stop fanout@2 mailbox@2
	caught_up 30 'two chains'
	COMMITS_FALL=1
	expect_whole 30
}
