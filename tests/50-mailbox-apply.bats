# mailbox-apply on a real redis-server: mailboxes, receipts, and the ends of
# streams.
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
