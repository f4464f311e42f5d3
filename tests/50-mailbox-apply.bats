# mailbox-apply on real redis-servers.
# shellcheck disable=SC2030,SC2031  # each test sets its R
# shellcheck disable=SC2154  # stderr is set by run
bats_require_minimum_version 1.5.0
load lib/common
load lib/applier

setup() {
	cd "$BATS_TEST_TMPDIR" || exit
}

@test "entries, receipts in order, an end" {
	start a
	messages | stream >in
	run -0 --separate-stderr applies <in
	[ -z "$stderr" ]
	run -0 bash -c 'stream-dump <out | jq -c "[.batch, .in, .out, .dead]"'
	[ "$output" = $'[null,null,null,null]\n[1,0,0,0]\n[2,6,6,0]\n[3,2,2,0]\n[4,3,3,0]\n[null,null,null,null]' ]
	[ "$(stream-dump <out | tail -n 1 | jq -c .)" = \
		'{"end":true,"batches":4,"records":11}' ]
	[ "$(redis_cli a ZCARD "qim:{3}:box:lou")" = 4 ]
	[ "$(redis_cli a ZCARD "qim:{1}:box:pat")" = 3 ]
	[ "$(mark a 3)" = 4 ]
	run -0 redis_cli a ZRANGE "qim:{3}:mark" 0 -1
	[ "$output" = "dispatch partitions=4 nodes=1 place=0" ]
}

@test "a receipt says how long, a hello what the stream is" {
	start a
	messages | stream | apply | stream-dump >out
	run -0 jq -c 'select(.batch == 2) | [.at[0][0], .at[0][1], .bytes > 0]' out
	[ "$output" = '["mailbox-apply","apply",true]' ]
	run -0 jq -c 'select(.kind) | [.kind, .durable, .partitions]' out
	[ "$output" = '["receipts",true,4]' ]
}

@test "all of it again changes nothing" {
	local before
	start a
	messages | stream >in
	apply <in >out
	before=$(content a)
	apply <in >out
	[ "$(content a)" = "$before" ]
	# Without the marks, so that everything is claimed and joined again.
	redis_cli a DEL "qim:{1}:mark" "qim:{2}:mark" "qim:{3}:mark"
	apply -w 1 <in >out
	[ "$(content a)" = "$before" ]
}

@test "a repeat at a later offset keeps the first mailbox_seq" {
	start a
	{
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x"}'
		echo
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x"}'
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x"}'
	} | stream | apply | stream-dump >out
	[ "$(redis_cli a ZRANGE "qim:{3}:box:lou" 0 -1 WITHSCORES | tail -n 1)" = 1 ]
	[ "$(redis_cli a ZCARD "qim:{3}:box:lou")" = 1 ]
	[ "$(redis_cli a HLEN "qim:{3}:log:c")" = 1 ]
	[ "$(mark a 3)" = 3 ]
}

@test "a first attempt that stopped half-way is completed" {
	local before
	start a
	messages | stream >in
	apply <in >out
	before=$(content a)
	# Claims alone, a part of the joins, no marks.
	redis_cli a DEL "qim:{3}:box:lou" "qim:{2}:conv:bob" "qim:{1}:top" \
		"qim:{1}:mark" "qim:{2}:mark" "qim:{3}:mark"
	[ "$(content a)" != "$before" ]
	apply <in >out
	[ "$(content a)" = "$before" ]
}

@test "a conflict has no entry and both copies in quarantine" {
	start a
	{
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x"}'
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x","payload":"other"}'
		echo '{"conversation_id":"c","conversation_seq":2,"to":["lou"],"sender":"x"}'
	} | stream >in
	run -0 --separate-stderr bash -c \
		"mailbox-apply -n 4 -r $R <in | stream-dump >out"
	[[ $stderr == *"warning: dispatch[3] offset 1: another digest than that of offset 0"*"both are in quarantine (1 so far)" ]]
	[ "$(redis_cli a HLEN "qim:{3}:quarantine")" = 2 ]
	[ "$(redis_cli a ZCARD "qim:{3}:box:lou")" = 2 ]
	run -0 jq -c 'select(.batch == 2) | [.in, .out, .dead]' out
	[ "$output" = '[3,2,1]' ]
	run -0 mailbox-read history -n 4 -r "$R" -u lou --conversation c
	[[ ${lines[0]} == *'"payload":{"text":"text 1"}'* ]]
}

@test "--strict: a conflict is a stop, once: 65 behind its receipt" {
	start a --appendonly yes --aof-load-truncated no
	{
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x"}'
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"sender":"x","payload":"other"}'
		echo '{"conversation_id":"c","conversation_seq":2,"to":["lou"],"sender":"x"}'
	} | stream >in
	run -65 --separate-stderr bash -c \
		"mailbox-apply --strict -n 4 -r $R <in >receipts"
	expect_message 'mailbox-apply: error: dispatch[3] offset 1: another digest than that of offset 0, which has its place: both are in quarantine: --strict stops here'
	run -75 bash -c 'stream-dump <receipts >out' # no end
	run -0 jq -c 'select(.batch == 2) | [.in, .out, .dead]' out
	[ "$output" = '[3,2,1]' ]
	run ! grep -q '"end"' out
	[ "$(redis_cli a HLEN "qim:{3}:quarantine")" = 2 ]
	run -0 mailbox-apply --strict -n 4 -r "$R" <in
}

@test "what can't be decoded is in quarantine, and the mark passes it" {
	start a
	{
		echo '{"raw":"3wAB","partition":3}'
		echo '{"raw":"","partition":3}'
		echo '{"null":true,"partition":3}'
		echo '{"conversation_id":"c","conversation_seq":2,"to":["lou"]}'
	} | stream | apply 2>err | stream-dump >out
	run -0 jq -c 'select(.batch == 2) | [.in, .out, .dead]' out
	[ "$output" = '[4,1,3]' ]
	grep -qF 'warning: dispatch[3] offset 0: not a dispatch: in quarantine (1 so far)' err
	# Two of them are the same bytes: none.
	[ "$(redis_cli a HLEN "qim:{3}:quarantine")" = 2 ]
	[ "$(mark a 3)" = 4 ]
}

@test "a full quarantine only counts" {
	start a
	redis_cli a EVAL "for i = 1, 9999 do redis.call('hset', KEYS[1], i, '') end" \
		1 "qim:{3}:quarantine"
	printf '{"raw":"%s","partition":3}\n' AQ== Ag== Aw== | stream | apply >out
	[ "$(redis_cli a HLEN "qim:{3}:quarantine")" = 10001 ]
	[ "$(redis_cli a HGET "qim:{3}:quarantine" dropped)" = 2 ]
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

@test "a batch in parts has one receipt" {
	start a
	messages | stream --parts >in
	apply --window-bytes 1048576 -w 1 <in | stream-dump >out
	run -0 jq -c 'select(.batch) | [.batch, .in, .out]' out
	[ "$output" = $'[1,0,0]\n[2,6,6]\n[3,2,2]\n[4,3,3]' ]
	[ "$(mark a 3)" = 4 ]
}

@test "the mark passes offsets that hold no record" {
	start a
	messages | stream --hole 10 | apply >out
	[ "$(mark a 3)" = 34 ]
	[ "$(mark a 2)" = 34 ]
}

# bats test_tags=slow
@test "more recipients and more dispatches than a round takes" {
	start a
	/usr/bin/python3 -c '
import json
for s in range(2500):
    print(json.dumps({"conversation_id": "c%d" % (s % 7), "conversation_seq": s + 1, "to": ["lou", "u%d" % s]}))
print(json.dumps({"conversation_id": "all", "conversation_seq": 1, "to": ["v%d" % i for i in range(20000)]}))' |
		stream | apply | stream-dump >out
	run -0 jq -c 'select(.batch == 2) | .out' out
	[ "$output" = 25000 ]
	[ "$(redis_cli a ZCARD "qim:{3}:box:lou")" = 2500 ]
	run -0 redis_cli a EVAL "local n = 0
		for _, k in ipairs(redis.call('keys', '*:box:v*'))
		do n = n + redis.call('zcard', k) end return n" 0
	[ "$output" = 20000 ]
}

@test "ids of any bytes neither collide nor leave their slot" {
	start a
	# { } : alone and together, NUL, invalid UTF-8, 255 bytes; the same bytes
	# as text and as bin are one id.
	/usr/bin/python3 -c '
import base64, json
ids = [b"{x}", b"}", b"a:b", b"a", b"b:", b"\x00", b"\x00\x00", b"\xff\xfe", b"k" * 255, b"{0}:mark"]
for s, i in enumerate(ids * 2):
    b = {"base64": base64.b64encode(i).decode()}
    print(json.dumps({"conversation_id": b, "conversation_seq": 1 + s % len(ids), "to": [b], "sender": "x"}))
print(json.dumps({"conversation_id": "a", "conversation_seq": 4, "to": ["a"], "sender": "x"}))' |
		stream | apply | stream-dump >out
	run -0 jq -c 'select(.batch == 2) | [.in, .out, .dead]' out
	[ "$output" = '[21,21,0]' ]
	run -0 redis_cli a EVAL "local n = 0
		for _, k in ipairs(redis.call('keys', '*}:box:*')) do
			if redis.call('zcard', k) ~= 1 then return k end
			n = n + 1
		end return n" 0
	[ "$output" = 10 ]
	run -0 redis_cli a EVAL "local n = {}
		for _, k in ipairs(redis.call('keys', '*'))
		do if not k:find('^qim:{[0-3]}:%a+') then return k end end
		return 'ok'" 0
	[ "$output" = ok ]
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

counts_rounds() {
	[ -n "$(redis_cli a KEYS 'qim:{0}:round:*')" ]
}

# The first batch names partition 3 alone; eve is in partition 0.
# bats test_tags=slow
@test "a partition that joins while the mark of another is asked for" {
	start a
	messages | stream | apply >out
	redis_cli a EVAL "redis.call('del', unpack(redis.call('keys', '*:round:*')))" 0
	echo '{"conversation_id":"c","conversation_seq":4,"to":["eve"]}' |
		stream -s 3:4 | stream-dump | jq -c 'if .start then
			.start |= map(select(.[1] == 3))
			elif .batch == 1 then (.src |= map(select(.[1] == 3)),
				(.batch = 2 | .src |= map(select(.[1] == 0))))
			elif .end then .batches = 3
			else .batch = 3 end' >lines
	{
		head -n 1 lines
		wait_until 10 counts_rounds
		redis_cli a CLIENT PAUSE 300 ALL >/dev/null
		tail -n +2 lines
	} | stream-make | apply | stream-dump >out
	run -0 jq -c 'select(.batch) | [.batch, .in, .out]' out
	[ "$output" = $'[1,0,0]\n[2,0,0]\n[3,1,1]' ]
	[ "$(redis_cli a ZCARD "qim:{0}:box:eve")" = 1 ]
	[ "$(mark a 0)" = 1 ]
}

# bats test_tags=slow
@test "a key of another type: 65 names it, and the mark stays" {
	start a
	redis_cli a SET "qim:{3}:box:lou" x
	run -65 --separate-stderr applies < <(messages | stream)
	expect_message 'qim:{3}:box:lou: WRONGTYPE'
	[ "$(redis_cli a EXISTS "qim:{3}:mark")" = 0 ]
	start a
	redis_cli a HSET "qim:{3}:log:c" 1 x
	run -65 --separate-stderr applies < <(messages | stream)
	expect_message 'qim:{3}:log:c: '
	expect_message 'not a claim'
	start a
	redis_cli a SET "qim:{3}:mark" x
	run -65 --separate-stderr applies < <(messages | stream)
	expect_message 'qim:{3}:mark: WRONGTYPE'
}

# bats test_tags=slow
@test "a password: from a file that others can't read" {
	start a --requirepass secret
	run -77 --separate-stderr applies < <(messages | stream)
	expect_message 'NOAUTH'
	echo secret >password
	run -78 --separate-stderr applies --password-file password < <(messages | stream)
	expect_message 'password: mode 0644 lets others read it'
	chmod 600 password
	apply --password-file password < <(messages | stream) >out
	echo wrong >password
	run -77 --separate-stderr applies --password-file password < <(messages | stream)
	expect_message 'WRONGPASS'
	run ! grep -q wrong <<<"$stderr"
	: >password
	run -78 applies --password-file password
	expect_message 'password: empty'
	printf 'a\nb\n' >password
	run -78 applies --password-file password
	expect_message 'wants one line'
	run -66 applies --password-file absent
	expect_message 'absent: No such file'
	run -64 applies --user me
	expect_message '--user: wants --password-file too'
}

# bats test_tags=slow
@test "an ACL user: the commands of the manual are enough, fewer are 77" {
	local words
	start a
	read -r -d '' -a words < <(sed -n '/^ACL SETUSER apply/,/^\.Ed/p' \
		"$qim_root/man/qim-mailbox.5" | grep -v '^\.Ed') || true
	[ "${#words[@]}" -gt 10 ]
	redis_cli a "${words[@]}"
	echo secret >password
	chmod 600 password
	run -0 --separate-stderr applies --user apply --password-file password \
		< <(messages | stream)
	expect_message "notice: redis $R: doesn't tell whether it keeps its data"
	[ "$(redis_cli a ZCARD "qim:{3}:box:lou")" = 4 ]
	apply -q --user apply --password-file password --set-mark dispatch:3=0
	run -77 --separate-stderr applies --user apply --password-file password \
		--wait-replicas 1 < <(messages | stream)
	expect_message "no permissions to run the 'wait' command"
	redis_cli a ACL SETUSER apply -zadd
	redis_cli a DEL "qim:{3}:mark"
	run -77 --separate-stderr applies --user apply --password-file password \
		< <(messages | stream)
	expect_message NOPERM
}

# bats test_tags=slow
@test "another topic, partition count, list or place: 78 with both" {
	local ra
	start a
	messages | stream | apply >out
	run -78 --separate-stderr applies < <(messages | stream -t other)
	expect_message "}:mark: it is of 'dispatch partitions=4 nodes=1 place=0', wants 'other partitions=4 nodes=1 place=0'"
	run -78 --separate-stderr applies -n 8 < <(messages | stream -n 8)
	expect_message 'partitions=4'
	expect_message 'partitions=8'
	ra=$R
	start b
	run -78 --separate-stderr applies -r "$ra,$R" < <(messages | stream)
	expect_message "qim:{1}:mark: it is of 'dispatch partitions=4 nodes=1 place=0', but in -r this node has place=0 of nodes=2"
	redis_cli a FLUSHALL
	R=$ra,$R
	messages | stream | apply >out
	run -78 --separate-stderr applies -r "${R#*,},$ra" < <(messages | stream)
	expect_message "qim:{1}:mark: it is of 'dispatch partitions=4 nodes=2 place=1', but in -r this node has place=0 of nodes=2"
	run -78 --separate-stderr applies -r "$ra" < <(messages | stream)
	expect_message "qim:{2}:mark: it is of 'dispatch partitions=4 nodes=2 place=0', wants 'dispatch partitions=4 nodes=1 place=0'"
	run -78 mailbox-read positions -n 4 -t dispatch -r "${R#*,},$ra"
	expect_message 'but in -r this node has place=0'
}

# bats test_tags=slow
@test "one Redis under two names: 78" {
	start a
	for R in "$R,localhost:$(redis_port a)" "unix:$(redis_socket a),$R"; do
		run -78 --separate-stderr applies < <(messages | stream)
		expect_message "-r: '${R%,*}' and '${R#*,}' are the same Redis"
		run -78 --separate-stderr applies --check
	done
	[ "$(redis_cli a DBSIZE)" = 0 ]
	R=127.0.0.1:$(redis_port a)
	redis_start b --appendonly yes
	redis_cli b ACL SETUSER default -info
	run -0 --separate-stderr applies --check
	[ -z "$stderr" ]
	R=$R,127.0.0.1:$(redis_port b)
	run -0 --separate-stderr applies < <(messages | stream)
	expect_message "notice: redis ${R#*,}: doesn't tell whether it is in -r twice: INFO is refused"
}

@test "dispatches planned for another partition count: 78" {
	start a
	run -78 --separate-stderr applies -n 64 < <(messages | stream)
	expect_message 'its recipient belongs to partition'
	expect_message 'of 64: was it planned for another count than -n?'
	run -78 --separate-stderr applies -n 2 < <(messages | stream)
	expect_message 'dispatch[2]: the topic has more partitions than the 2 of -n'
	# bob, the second one, is in partition 2.
	run -78 --separate-stderr applies < <(echo '{"conversation_id":"c","conversation_seq":1,
		"to":["lou","bob"],"partition":3}' | tr -d '\n' | stream)
	expect_message 'dispatch[3] offset 0: its recipient belongs to partition 2 of 4'
	[ "$(redis_cli a EXISTS "qim:{3}:box:bob")" = 0 ]
	run -78 applies < <(messages | stream --hello-partitions 8)
	expect_message '-n: 4, but the stream is of 8 partitions'
	mailbox-apply -r "$R" < <(messages | stream --hello-partitions 4) >out
}

@test "no Redis: 69" {
	R=127.0.0.1:$(free_port)
	run -69 --separate-stderr applies --connect-ms 300 </dev/null
	expect_message "error: redis $R: "
	expect_message "Connection refused"
	R=unix:$BATS_TEST_TMPDIR/none
	run -69 --separate-stderr applies --connect-ms 300 </dev/null
	expect_message "redis $R: connect: No such file or directory"
}

# bats test_tags=slow
@test "a Redis that isn't there yet: a notice after a second" {
	R=127.0.0.1:$(free_port)
	run -69 --separate-stderr applies --connect-ms 4000 </dev/null
	[ "${stderr_lines[0]}" = "mailbox-apply: notice: redis $R: not reachable yet: connect: Connection refused: waiting up to 4000 ms" ]
	[ "${stderr_lines[1]}" = "mailbox-apply: error: redis $R: connect: Connection refused" ]
	[ "${#stderr_lines[@]}" = 2 ]
	start a
	daemon_signal "$(redis_dir a)" STOP
	run -69 --separate-stderr applies --connect-ms 4000 </dev/null
	daemon_signal "$(redis_dir a)" CONT
	[ "${stderr_lines[0]}" = "mailbox-apply: notice: redis $R: not reachable yet: no answer: waiting up to 4000 ms" ]
	[ "${#stderr_lines[@]}" = 2 ]
}

# bats test_tags=slow
@test "a Redis that may lose what it confirmed: a warning, 78 with --strict" {
	redis_start a
	R=127.0.0.1:$(redis_port a)
	run -0 --separate-stderr applies < <(messages | stream)
	expect_message "warning: redis $R: appendonly is 'no', wants 'yes'"
	run -78 --separate-stderr applies --strict < <(messages | stream)
	expect_message "error: redis $R: appendonly is 'no'"
	redis_cli a CONFIG SET appendonly yes
	redis_cli a CONFIG SET maxmemory-policy allkeys-lru
	run -78 --separate-stderr applies --strict --check
	expect_message "maxmemory-policy is 'allkeys-lru', wants 'noeviction'"
	redis_cli a CONFIG SET maxmemory-policy noeviction
	redis_cli a CONFIG SET appendfsync no
	run -78 --separate-stderr applies --strict --check
	expect_message "appendfsync is 'no', wants 'everysec' or 'always': a crash of the host"
	redis_cli a CONFIG SET aof-load-truncated yes
	redis_cli a CONFIG SET appendonly no
	run -0 --separate-stderr applies --check
	expect_message "warning: redis $R: appendonly is 'no'"
	expect_message "warning: redis $R: appendfsync is 'no'"
	[ "${#stderr_lines[@]}" = 2 ] # without a log it is never loaded
	redis_cli a CONFIG SET appendonly yes
	redis_cli a CONFIG SET appendfsync everysec
	run -0 --separate-stderr applies --check
	expect_message "warning: redis $R: aof-load-truncated is 'yes', wants 'no': after a crash of the host"
	[ "${#stderr_lines[@]}" = 1 ]
	run -78 --separate-stderr applies --strict --check
	expect_message "error: redis $R: aof-load-truncated is 'yes'"
	redis_cli a CONFIG SET aof-load-truncated no
	run -0 --separate-stderr applies --strict --check
	[ -z "$stderr" ]
	[ "$(redis_cli a EXISTS "qim:{3}:mark")" = 1 ]
}

@test "options: 64" {
	run -64 mailbox-apply
	expect_message '-r: missing'
	for list in localhost :1 a:0 a:65536 a:x 'a:1,' ',a:1' '[]:1' unix: unix:x ::1:6379; do
		run -64 mailbox-apply -r "$list"
		expect_message 'wants host:port or unix:/path'
	done
	run -64 mailbox-apply -r "unix:/$(printf 'x%.0s' {1..120})"
	expect_message "a socket's has at most 107"
	run -64 mailbox-apply -r a:1 --prefix 'a{b'
	expect_message "--prefix: 'a{b': takes printable ASCII without blanks and braces"
	run -64 mailbox-apply -r a:1 --prefix "$(printf 'x%.0s' {1..65})"
	expect_message '--prefix: 65 bytes, takes at most 64'
	run -64 mailbox-apply -r a:1,b:1,a:1
	expect_message "-r: 'a:1': twice"
	run -64 mailbox-apply -r a:1 -w 0
	expect_message '-w'
	run -64 mailbox-apply -r a:1 extra
	expect_message 'unexpected operand'
}

@test "an IPv6 address and a name" {
	start a
	R=localhost:$(redis_port a)
	messages | stream | apply >out
	run -69 mailbox-apply -r "[::1]:$(free_port)" --connect-ms 200
	expect_message 'redis [::1]:'
	run -69 mailbox-apply -r no-such-host.invalid:1 --connect-ms 200
	expect_message 'redis no-such-host.invalid:1: '
}

@test "another kind of stream: 76" {
	start a
	messages | stream | apply >out
	run -76 --separate-stderr apply <out
	expect_message "'receipts' from mailbox-apply, wants 'records'"
}

@test "a torn stream: 75 after the receipts of what had come" {
	local status=0
	start a
	messages | stream --no-end | apply >out 2>err || status=$?
	[ "$status" = 75 ]
	grep -q 'input: torn: it ends without an end frame' err
	has_receipt 4
	run ! grep -q '"end"' <(stream-dump <out 2>/dev/null)
	run -75 --separate-stderr applies </dev/null
	expect_message 'it ends before the hello'
}

@test "a damaged stream: 65 after the receipts of what came before" {
	local status=0
	start a
	messages | stream --no-end >in
	echo rubbish >>in
	apply <in >out 2>err || status=$?
	[ "$status" = 65 ]
	has_receipt 4
}

# has_read COUNT: mailbox-apply has read more bytes than that.
has_read() {
	local pos
	pos=$(sed -n 's/^pos:[[:space:]]*//p' "/proc/$PID/fdinfo/0")
	((pos > $1))
}

@test "a damaged stream, and then the reader gone: 65" {
	local status=0
	start a
	redis_cli a CLIENT PAUSE 60000 WRITE
	messages | stream --no-end >in
	cat in - <<<rubbish >damaged
	mkfifo receipts
	mailbox-apply -n 4 -r "$R" -w 16 <damaged >receipts 2>err 3>&- &
	PID=$!
	exec 4<receipts
	wait_until 10 has_read "$(stat -c %s in)"
	exec 4<&-
	wait "$PID" || status=$?
	[ "$status" = 65 ]
	grep -q 'warning: output: the reader is gone' err
	grep -q 'error: input: ' err
}

# bats test_tags=slow
@test "tiny records count with what is kept for them" {
	local size
	start a
	redis_cli a CLIENT PAUSE 60000 WRITE
	# 100 records of one byte in each batch, as frames under 1 MiB in all.
	jq -nr 'range(500) | (range(100) | {raw: "AQ==", partition: 3} | tojson), ""' |
		stream >in
	size=$(stat -c %s in)
	((size < 1048576))
	mailbox-apply -n 4 -r "$R" -w 1024 --window-bytes 1048576 <in >out 3>&- &
	PID=$!
	wait_until 10 has_read $((size / 50))
	sleep 0.5
	run -1 has_read $((size / 2))
	redis_cli a CLIENT UNPAUSE
	wait "$PID"
	has_receipt 501
}

@test "offsets out of order, another topic: 65" {
	start a
	printf '%s\n' '{"raw":"AQ==","partition":3,"offset":5}' \
		'{"raw":"AQ==","partition":3,"offset":4}' >lines
	run -65 --separate-stderr applies < <(stream <lines)
	expect_message 'input: batch 2: offset 4 after 5'
	run -65 --separate-stderr applies < <(stream --parts <lines)
	expect_message 'input: batch 2: offset 4 after 5'
	messages | stream | stream-dump | sed '2s/"dispatch"/"other"/g' |
		stream-make >in
	run -65 --separate-stderr applies <in
	expect_message 'input: topic other, wants dispatch alone'
}

@test "the reader gone: 75" {
	start a
	messages | stream >in
	run -75 to_nobody apply <in
}

@test "-h and -V" {
	run -0 mailbox-apply -h
	[[ $output == 'usage: mailbox-apply '* ]]
	run -0 mailbox-apply -V
	[[ $output == 'mailbox-apply (qim) '* ]]
}
