# mailbox-apply on several redis-servers: nodes of which one is away, and
# replicas.
# shellcheck disable=SC2030,SC2031  # each test sets its R
# shellcheck disable=SC2154  # stderr is set by run
bats_require_minimum_version 1.5.0
load lib/common
load lib/applier

setup() {
	cd "$BATS_TEST_TMPDIR" || exit
}

@test "two nodes: a partition lives on node P mod 2" {
	local ra
	start a
	ra=$R
	start b
	R=$ra,unix:$(redis_socket b)
	messages | stream | apply >out
	[ "$(redis_cli a ZCARD "qim:{2}:box:bob")" = 4 ]
	[ "$(redis_cli b ZCARD "qim:{3}:box:lou")" = 4 ]
	[ "$(redis_cli b ZCARD "qim:{1}:box:pat")" = 3 ]
	[ "$(redis_cli b EXISTS "qim:{2}:mark" "qim:{2}:log:c")" = 0 ]
	[ "$(redis_cli b ZRANGE "qim:{3}:mark" 0 -1)" = \
		"dispatch partitions=4 nodes=2 place=1" ]
}

@test "one node of two is killed: the batches of the other go on" {
	local ra
	start a
	ra=$R
	start b
	R=$ra,$R
	{
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou","bob"]}'
		echo '{"wait":"go"}'
		echo '{"conversation_id":"c","conversation_seq":2,"to":["bob"]}'
		echo '{"wait":"go2"}'
		echo '{"conversation_id":"c","conversation_seq":3,"to":["lou","bob"]}'
	} >lines
	feed lines
	redis_kill b
	touch go
	wait_until 10 has_receipt 3
	touch go2
	wait_until 10 grep -q 'connecting again' err
	wait_until 10 entry_is_there a "qim:{2}:box:bob" 3
	redis_restart b
	wait "$PID"
	[ "$(redis_cli b ZCARD "qim:{3}:box:lou")" = 2 ]
	[ "$(redis_cli a ZCARD "qim:{2}:box:bob")" = 3 ]
}

# bats test_tags=slow
@test "a node that is silent: told by name after a second" {
	local ra
	start a
	ra=$R
	start b
	R=$ra,$R
	messages | head -n 2 >lines
	echo '{"wait":"go"}' >>lines
	messages | tail -n +4 >>lines
	feed lines
	daemon_signal "$(redis_dir b)" STOP
	touch go
	wait_until 10 grep -q "warning: redis ${R#*,}: no answer for [0-9]* ms: waiting up to 60000 ms" err
	wait_until 10 entry_is_there a "qim:{2}:box:bob" 4
	run ! has_receipt 3
	daemon_signal "$(redis_dir b)" CONT
	wait "$PID"
	[ "$(wc -l <err)" = 1 ]
	[ "$(redis_cli b ZCARD "qim:{3}:box:lou")" = 4 ]
}

# eight: R is a list of eight nodes, n0 to n7.
eight() {
	local all=() i
	for i in {0..7}; do
		redis_start "n$i"
		all+=("127.0.0.1:$(redis_port "n$i")")
	done
	R=$(IFS=,; echo "${all[*]}")
}

# Lines of many messages to users of all partitions, in batches of 50.
many_messages() {
	/usr/bin/python3 -c '
import json, sys
for s in range(int(sys.argv[1])):
    print(json.dumps({"conversation_id": "c%d" % (s % 97), "conversation_seq": s + 1, "payload": "x" * int(sys.argv[2]),
                      "to": ["u%d" % (s * 7 % 1009 + k) for k in range(5)], "sender": "u1"}))
    if s % 50 == 49:
        print()' "$@"
}

# bats test_tags=slow
@test "eight nodes: batches in flight on all, receipts in order, a node killed" {
	local i entries=0
	eight
	many_messages 2000 20 >lines
	stream -n 64 <lines >in
	redis_start n5 --appendonly yes
	R=${R%,*,*,*},127.0.0.1:$(redis_port n5),${R#*,*,*,*,*,*,}
	mkfifo pipe
	{
		head -c 200000 in
		wait_until 20 has_receipt 2
		redis_kill n5
		redis_run n5
		tail -c +200001 in
	} >pipe 3>&- &
	mailbox-apply -q -r "$R" -w 16 <pipe >out
	stream-dump <out | jq -c 'select(.batch) | [.batch, .dead]' >receipts
	[ "$(jq -c '.[0]' receipts)" = "$(seq 41)" ]
	[ "$(stream-dump <out | jq -s 'map(.out // 0) | add')" = 10000 ]
	for i in {0..7}; do
		entries=$((entries + $(redis_cli "n$i" EVAL "local n = 0
			for _, k in ipairs(redis.call('keys', '*:box:*'))
			do n = n + redis.call('zcard', k) end return n" 0)))
		[ "$(redis_cli "n$i" ZRANGE "qim:{$((i + 56))}:mark" 0 -1)" = \
			"dispatch partitions=64 nodes=8 place=$i" ]
	done
	[ "$entries" = 10000 ]
}

memory() {
	sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$PID/status"
}

# has_stopped: it has read no more for a second.
has_stopped() {
	local pos
	pos=$(sed -n 's/^pos:[[:space:]]*//p' "/proc/$PID/fdinfo/0")
	sleep 1
	((pos > 1000000)) && run ! has_read "$pos"
}

# bats test_tags=slow
@test "a dead node of eight: memory stays under what the manual says" {
	eight
	many_messages 6000 2000 >lines
	stream -n 64 <lines >in
	(($(stat -c %s in) > 30000000))
	redis_cli n5 CLIENT PAUSE 120000 WRITE
	mailbox-apply -q -r "$R" -w 1024 --window-bytes 4194304 <in >out 3>&- &
	PID=$!
	wait_until 30 has_stopped
	# The window, a frame, and 8 MiB for each of 16 connections; here most
	# of these are nearly idle.
	(($(memory) < 4096 + 1024 + 16 * 8192))
	(($(memory) < 40000))
	redis_cli n5 CLIENT UNPAUSE
	wait "$PID"
	[ "$(stream-dump <out | jq -s 'map(.out // 0) | add')" = 30000 ]
}

has_connections() {
	[ "$(redis_cli a CLIENT LIST TYPE normal | grep -c 'cmd=get')" = "$1" ]
}

@test "as many connections as asked for, no more than partitions" {
	start a
	feed <(messages | head -n 2; echo '{"wait":"go"}') --connections 16
	wait_until 10 has_connections 4
	touch go
	wait "$PID"
	rm go
	feed <(messages | head -n 2; echo '{"wait":"go"}')
	wait_until 10 has_connections 2
	touch go
	wait "$PID"
	run -64 apply --connections 17
	expect_message '--connections'
}

# start_pair: a, which R is, and its replica b.
start_pair() {
	start a --repl-diskless-sync-delay 0
	start b --replicaof 127.0.0.1 "$(redis_port a)"
	R=127.0.0.1:$(redis_port a)
	wait_until 20 is_linked
}

is_linked() {
	redis_cli b INFO replication | grep -q '^master_link_status:up'
}

has_all() {
	[ "$(redis_cli "$1" DEBUG DIGEST)" = "$(redis_cli "$2" DEBUG DIGEST)" ]
}

# bats test_tags=slow
@test "a replica becomes the master by hand: the name leads there, it goes on" {
	start_pair
	ln -s "$(redis_socket a)" master
	R=unix:$BATS_TEST_TMPDIR/master
	run_waiting
	wait_until 10 has_all a b
	ln -sfn "$(redis_socket b)" master
	redis_kill a
	touch go
	wait_until 10 grep -q 'connecting again' err
	redis_cli b REPLICAOF NO ONE
	wait "$PID"
	[ "$(mark b 3)" = 4 ]
	[ "$(redis_cli b ZCARD "qim:{3}:box:lou")" = 4 ]
	stream-dump <out >/dev/null
	# The same place under another address.
	R=127.0.0.1:$(redis_port b)
	messages | stream | apply >out
	[ "$(mark b 3)" = 4 ]
}

# bats test_tags=slow
@test "an old replica becomes the master: 75, and then the same mailboxes" {
	local status=0 is
	start_pair
	ln -s "$(redis_socket a)" master
	R=unix:$BATS_TEST_TMPDIR/master
	wait_until 10 has_all a b
	redis_cli b REPLICAOF NO ONE
	run_waiting
	ln -sfn "$(redis_socket b)" master
	redis_kill a
	touch go
	wait "$PID" || status=$?
	[ "$status" = 75 ]
	grep -q 'mark: none, which is 0, this chain goes on from' err
	messages | stream | apply >out
	is=$(content b)
	redis_cli b FLUSHALL
	messages | stream | apply >out
	[ "$(content b)" = "$is" ]
}

# bats test_tags=slow
@test "--wait-replicas: they have what has a receipt" {
	start_pair
	run_waiting --wait-replicas 1 --wait-ms 100
	[ "$(mark b 3)" = 2 ]
	daemon_signal "$(redis_dir b)" STOP
	touch go
	wait_until 10 grep -q "warning: redis $R: 0 replicas have what was written, --wait-replicas wants 1: waiting for them" err
	run ! has_receipt 3
	# Neither the mark nor the joins were sent: the claims aren't there yet.
	[ "$(redis_cli a ZCARD "qim:{3}:box:lou")" = 2 ]
	daemon_signal "$(redis_dir b)" CONT
	wait "$PID"
	grep -q "notice: redis $R: goes on after" err
	[ "$(redis_cli b ZCARD "qim:{3}:box:lou")" = 4 ]
	[ "$(mark b 3)" = 4 ]
}

# bats test_tags=slow
@test "--wait-replicas: too few of them are 75 with both numbers" {
	local status=0
	start a
	run -75 --separate-stderr applies --wait-replicas 1 --wait-ms 50 \
		--connect-ms 4000 < <(messages | stream)
	[ "${stderr_lines[0]}" = "mailbox-apply: notice: redis $R: 0 replicas are connected, --wait-replicas wants 1: waiting up to 4000 ms" ]
	[ "${stderr_lines[1]}" = "mailbox-apply: error: redis $R: 0 replicas are connected, --wait-replicas wants 1" ]
	[ "${#stderr_lines[@]}" = 2 ]
	[ "$(redis_cli a DBSIZE)" = 0 ]
	redis_cli a ACL SETUSER default -info
	run -75 --separate-stderr applies --wait-replicas 1 --wait-ms 50 \
		--connect-ms 500 < <(messages | stream)
	expect_message "notice: redis $R: doesn't tell its replicas: INFO is refused"
	expect_message "error: redis $R: nothing confirmed for 500 ms: 0 replicas have what was written, --wait-replicas wants 1"
	[ "$(redis_cli a EXISTS "qim:{3}:mark")" = 0 ]
	run -78 apply --wait-replicas 1 --wait-ms 500 --connect-ms 500
	expect_message '--wait-ms: 500, wants less than the 500 of --connect-ms'
}

# bats test_tags=slow
@test "WAIT on what became a replica: the connection goes" {
	local status=0
	start_pair
	run_waiting --wait-replicas 1 --wait-ms 100 --connect-ms 4000
	daemon_signal "$(redis_dir b)" STOP
	touch go
	wait_until 10 grep -q "0 replicas have what was written" err
	redis_cli a REPLICAOF 127.0.0.1 1
	wait "$PID" || status=$?
	daemon_signal "$(redis_dir b)" CONT
	[ "$status" = 75 ]
	grep -q "error: redis $R: nothing confirmed for 4000 ms: .*\(READONLY\|UNBLOCKED\|replica\)" err
	run ! has_receipt 3
}

# entry_is_there NAME BOX COUNT
entry_is_there() {
	[ "$(redis_cli "$1" ZCARD "$2")" = "$3" ]
}
