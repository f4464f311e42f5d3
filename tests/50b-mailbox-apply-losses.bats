# mailbox-apply on a redis-server that dies, or loses what it had: the marks
# tell, and are set by hand.
# shellcheck disable=SC2154  # stderr is set by run
bats_require_minimum_version 1.5.0
load lib/common
load lib/applier

setup() {
	cd "$BATS_TEST_TMPDIR" || exit
}

# bats test_tags=slow
@test "a killed Redis comes back with its data: the same process goes on" {
	local before
	start a
	messages | stream | apply >out
	before=$(content a)
	start a
	run_waiting
	redis_kill a
	touch go
	wait_until 10 grep -q 'warning: redis .*connecting again' err
	redis_restart a
	wait "$PID"
	grep -q 'notice: redis .* goes on after' err
	[ "$(content a)" = "$before" ]
	[ "$(stream-dump <out | tail -n 1)" = \
		'{"end":true,"batches":4,"records":11}' ]
}

# bats test_tags=slow
@test "a Redis that doesn't come back: 75" {
	local status=0
	start a
	run_waiting --connect-ms 3000
	redis_kill a
	touch go
	wait "$PID" || status=$?
	[ "$status" = 75 ]
	grep -q 'error: redis 127.*: nothing confirmed for 3000 ms: ' err
	run -75 stream-dump <out
}

# bats test_tags=slow
@test "a Redis that doesn't answer: 75" {
	local status=0
	start a
	run_waiting --connect-ms 3000
	daemon_signal "$(redis_dir a)" STOP
	touch go
	wait "$PID" || status=$?
	daemon_signal "$(redis_dir a)" CONT
	[ "$status" = 75 ]
	grep -q 'error: redis .*nothing confirmed for 3000 ms: no answer' err
}

# lose COMMAND...: data lost on a living connection, then all of it again.
lose() {
	local before status=0
	start a
	messages | stream | apply >out
	before=$(content a)
	start a
	run_waiting
	redis_cli a "$@"
	touch go
	wait "$PID" || status=$?
	[ "$status" = 75 ]
	grep -q 'error: redis .*: lost data: .*start again at its marks' err
	redis_cli a -n 1 FLUSHDB
	messages | stream | apply >out
	[ "$(content a)" = "$before" ]
}

# bats test_tags=slow
@test "FLUSHALL on a living connection: 75, and then the same mailboxes" {
	lose FLUSHALL
}

@test "SWAPDB on a living connection: 75, and then the same mailboxes" {
	lose SWAPDB 0 1
}

@test "REPLICAOF another, and back, on a living connection: the same" {
	local before status=0
	start b --repl-diskless-sync-delay 0
	start a
	messages | stream | apply >out
	before=$(content a)
	start a
	run_waiting
	redis_cli a REPLICAOF 127.0.0.1 "$(redis_port b)"
	wait_until 20 is_empty_copy
	redis_cli a REPLICAOF NO ONE
	touch go
	wait "$PID" || status=$?
	[ "$status" = 75 ]
	grep -q 'error: redis .*start again at its marks' err
	messages | stream | apply >out
	[ "$(content a)" = "$before" ]
}

is_empty_copy() {
	redis_cli a INFO replication | grep -q '^master_link_status:up' &&
		[ "$(redis_cli a DBSIZE)" = 0 ]
}

# bats test_tags=slow
@test "an older copy is put in place: 75, and then the same mailboxes" {
	local before status=0
	start a
	messages | stream | apply >out
	before=$(content a)
	start a
	messages | head -n 1 | stream | apply >out
	redis_stop a
	cp -r "$(redis_dir a)/data" backup
	redis_run a
	run_waiting
	redis_kill a
	rm -r "$(redis_dir a)/data"
	cp -r backup "$(redis_dir a)/data"
	redis_run a
	touch go
	wait "$PID" || status=$?
	[ "$status" = 75 ]
	grep -q 'mark: 1, this chain goes on from 2: start again at its marks' err
	messages | stream | apply >out
	[ "$(content a)" = "$before" ]
}

@test "a mark below the start: 75 with both numbers" {
	start a
	messages | stream | apply >out
	run -75 --separate-stderr applies < <(stream -s 3:9 </dev/null)
	expect_message 'qim:{3}:mark: 4, this chain goes on from 9: start again at its marks'
	redis_cli a FLUSHALL
	run -75 --separate-stderr applies < <(stream -s 3:9 </dev/null)
	expect_message 'qim:{3}:mark: none, which is 0, this chain goes on from 9'
}

@test "--set-mark: over a gap, as the manual says; and back" {
	start a
	run -75 --separate-stderr applies < <(stream -s 3:9 </dev/null)
	grep -qF -e '--set-mark dispatch:3=9' "$qim_root/man/qim-mailbox.5"
	run -0 --separate-stderr apply --set-mark dispatch:3=9
	[ "$output" = 'dispatch[3] 0 -> 9' ]
	[ "$stderr" = 'mailbox-apply: notice: set the mark of dispatch[3] 0 -> 9' ]
	run -0 mailbox-read positions -n 4 -r "$R" -t dispatch
	[ "${lines[3]}" = 'dispatch 3 9' ]
	messages | stream -s 3:9 | apply >out
	[ "$(mark a 3)" = 13 ]
	run -0 redis_cli a ZCARD "qim:{3}:mark"
	[ "$output" = 1 ]
	run -0 --separate-stderr apply -q --set-mark dispatch:3,1-2=1 --set-mark dispatch:0=0
	[ "$output" = $'dispatch[0] 0 -> 0\ndispatch[1] 3 -> 1\ndispatch[2] 4 -> 1\ndispatch[3] 13 -> 1' ]
	[ -z "$stderr" ]
	run -0 mailbox-read positions -n 4 -r "$R" -t dispatch
	[ "$output" = $'dispatch 0 0\ndispatch 1 1\ndispatch 2 1\ndispatch 3 1' ]
}

# bats test_tags=slow
@test "--set-mark: each node has its own; nothing changes where one is wrong" {
	local ra
	start a
	ra=$R
	start b
	R=$ra,$R
	apply --set-mark dispatch:0-3=7
	[ "$(redis_cli b ZRANGE "qim:{3}:mark" 0 -1)" = \
		"dispatch partitions=4 nodes=2 place=1" ]
	[ "$(mark a 2)" = 7 ]
	run -78 apply --set-mark other:2=8
	expect_message "mark: it is of 'dispatch partitions=4 nodes=2 place=0', wants 'other "
	run -78 apply -n 8 --set-mark dispatch:2=8
	expect_message 'partitions=8'
	run -78 apply --set-mark dispatch:0-4=8
	expect_message 'dispatch[4]: the topic has the 4 partitions of -n'
	run -78 apply --set-mark dispatch:0-2=8 --set-mark dispatch:2=9
	expect_message '--set-mark: partition 2 is given twice'
	redis_cli b SET "qim:{1}:mark" x
	run -65 apply --set-mark dispatch:0-3=8
	expect_message 'qim:{1}:mark: WRONGTYPE'
	[ "$(mark a 2)" = 7 ]
	for text in dispatch 3=9 dispatch=9 dispatch:3; do
		run -64 apply --set-mark "$text"
		expect_message "--set-mark: '$text': wants topic:partitions=offset, as in t:0-3,7=9"
	done
	run -64 apply --set-mark a/b:3=9
	expect_message "wants a topic's name"
	run -64 apply --set-mark dispatch:3=x
	expect_message '--set-mark'
	run -64 apply --set-mark dispatch:x=3
	expect_message '--set-mark'
	run -64 apply --set-mark dispatch:1=3 --set-mark other:2=3
	expect_message "--set-mark: 'other:2=3': another topic than 'dispatch'"
	R=127.0.0.1:$(free_port)
	run -69 apply --connect-ms 200 --set-mark dispatch:1=3
}
