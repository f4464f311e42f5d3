# mailbox-read on a real redis-server, filled by mailbox-apply.
# shellcheck disable=SC2030,SC2031  # each test sets its R
bats_require_minimum_version 1.5.0
load lib/common
load lib/mailbox

# lou is in partition 3, bob in 2 (murmur2 modulo 4).
some_messages() {
	cat <<-'END'
		{"conversation_id":"c","conversation_seq":1,"to":["lou","bob"],"sender":"lou","created_at":10}
		{"conversation_id":"c","conversation_seq":2,"to":["lou","bob"],"sender":"bob","created_at":20}
		{"conversation_id":"d","conversation_seq":1,"to":["lou"],"sender":"eve","created_at":15}
		{"conversation_id":"c","conversation_seq":3,"to":["bob"],"sender":"bob","created_at":30}
		{"conversation_id":"c","conversation_seq":4,"to":["lou","bob"],"sender":"eve","created_at":40}
	END
}

@test "conversations: the newest first, with what isn't read" {
	some_messages | fill
	run -0 read_mailbox conversations -u lou
	[ "${lines[0]}" = '{"conversation_id":"c","created_at":40,"last_seq":4,"read_seq":0,"unread":2}' ]
	[ "${lines[1]}" = '{"conversation_id":"d","created_at":15,"last_seq":1,"read_seq":0,"unread":1}' ]
	[ "${#lines[@]}" = 2 ]
	redis_cli a ZADD "qim:{3}:read:lou" 2 c
	run -0 read_mailbox conversations -u lou -c 1
	[ "$output" = '{"conversation_id":"c","created_at":40,"last_seq":4,"read_seq":2,"unread":1}' ]
	redis_cli a ZADD "qim:{3}:read:lou" 4 c
	run -0 read_mailbox conversations -u lou -c 1
	[[ $output == *'"read_seq":4,"unread":0}' ]]
	run -0 read_mailbox conversations -u nobody
	[ -z "$output" ]
}

@test "more than 999 unread are 999+" {
	seq 1 1500 | jq -c '{conversation_id: "c", conversation_seq: ., to: ["lou"]}' | fill
	run -0 read_mailbox conversations -u lou
	[[ $output == *'"unread":"999+"}' ]]
	# Bodies come a hundred at a time.
	diff <(read_mailbox box -u lou -c 250 | jq .conversation_seq) <(seq 1 250)
	redis_cli a ZADD "qim:{3}:read:lou" 501 c
	run -0 read_mailbox conversations -u lou
	[[ $output == *'"unread":999}' ]]
	redis_cli a ZADD "qim:{3}:read:lou" 500 c
	run -0 read_mailbox conversations -u lou
	[[ $output == *'"unread":"999+"}' ]]
}

# shows_of OPTION...: history of conversation t, as [seq, mailbox_seq].
shows_of() {
	timeout 20 mailbox-read -n 4 -r "$R" history -u lou --conversation t "$@" |
		jq -c '[.conversation_seq, .mailbox_seq]'
}

# bats test_tags=slow
@test "numbers far apart: unread is exact, history in both directions" {
	jq -nc 'range(1; 1201) | {conversation_id: "t", conversation_seq: (1790000000000 + 1700 * .),
			to: ["lou"], created_at: 3, sender: (if . % 3 == 0 then "lou" else "bob" end)},
		(select(. == 7) | {conversation_id: "u", conversation_seq: (9007199254740991, 1), to: ["lou"], created_at: 2},
			{conversation_id: "v", conversation_seq: 9007199254740990, to: ["lou"], created_at: 1, sender: "lou"})' >lines
	fill <lines
	jq -nc --slurpfile all lines '$all | to_entries[] | select(.value.conversation_id == "t")
		| [.value.conversation_seq, .key + 1]' >all
	run -0 timeout 20 mailbox-read -n 4 -r "$R" conversations -u lou
	run -0 jq -c '[.conversation_id, .last_seq, .unread]' <<<"$output"
	[ "$output" = '["t",1790002040000,800]
["u",9007199254740991,2]
["v",9007199254740990,0]' ]
	# Read up to the 1197th; what is above the mark doesn't count.
	redis_cli a ZADD "qim:{3}:read:lou" 1790002034900 t 1 u
	run -0 timeout 20 mailbox-read -n 4 -r "$R" conversations -u lou
	run -0 jq -c '[.conversation_id, .read_seq, .unread]' <<<"$output"
	[ "$output" = '["t",1790002034900,2]
["u",1,1]
["v",0,0]' ]
	shows_of -c 10000 | cmp - all
	shows_of -c 10000 --reverse | tac | cmp - all
	shows_of -c 3 | cmp - <(head -n 3 all)
	shows_of -c 3 --reverse | cmp - <(tail -n 3 all | tac)
	shows_of -c 600 --from 1790000001701 | cmp - <(sed -n 2,601p all)
	shows_of -c 600 --from 1790001700000 --reverse | cmp - <(sed -n 401,1000p all | tac)
	run -0 timeout 20 mailbox-read -n 4 -r "$R" history -u lou --conversation u
	run -0 jq -c .conversation_seq <<<"$output"
	[ "$output" = $'1\n9007199254740991' ]
	redis_cli a ZADD "qim:{3}:mark" 602 "dispatch partitions=4 nodes=1 place=0"
	shows_of -c 10000 | cmp - <(jq -c 'select(.[1] <= 602)' all)
}

@test "unread beyond 999 of numbers far apart are 999+" {
	jq -nc 'range(1; 1201) | {conversation_id: "t", conversation_seq: (30000 * .), to: ["lou"]}' | fill
	run -0 timeout 20 mailbox-read -n 4 -r "$R" conversations -u lou
	[[ $output == *'"unread":"999+"}' ]]
	redis_cli a ZADD "qim:{3}:read:lou" $((30000 * 201)) t
	run -0 timeout 20 mailbox-read -n 4 -r "$R" conversations -u lou
	[[ $output == *'"unread":999}' ]]
}

@test "history: by conversation_seq, only what was dispatched to the user" {
	some_messages | fill
	run -0 read_mailbox history -u lou --conversation c
	run -0 jq -c '[.conversation_seq, .mailbox_seq, .sender]' <<<"$output"
	[ "$output" = $'[1,1,"lou"]\n[2,2,"bob"]\n[4,4,"eve"]' ]
	run -0 read_mailbox history -u bob --conversation c --reverse -c 2
	run -0 jq -c .conversation_seq <<<"$output"
	[ "$output" = $'4\n3' ]
	run -0 read_mailbox history -u bob --conversation c --reverse --from 2
	run -0 jq -c .conversation_seq <<<"$output"
	[ "$output" = $'2\n1' ]
	run -0 read_mailbox history -u bob --conversation c --from 3 -c 1
	[ "$output" = '{"mailbox_seq":3,"conversation_id":"c","conversation_seq":3,"message_id":"m3","sender":"bob","created_at":30,"payload":{"text":"text 3"}}' ]
	run -0 read_mailbox history -u lou --conversation none
	[ -z "$output" ]
	run -0 read_mailbox history -u bob --conversation c --from 9
	[ -z "$output" ]
}

# bats test_tags=slow
@test "history in pages is the whole, in both directions" {
	local from
	seq 1 1200 | jq -c '{conversation_id: "c", conversation_seq: .,
		to: (if . % 3 == 0 then ["lou", "bob"] else ["bob"] end)}' | fill
	read_mailbox history -u lou --conversation c -c 10000 |
		jq .conversation_seq >all
	seq 3 3 1200 | cmp - all
	for from in 1 301 601 901; do
		read_mailbox history -u lou --conversation c --from "$from" -c 100
	done | jq .conversation_seq | cmp - all
	read_mailbox history -u lou --conversation c --reverse -c 10000 |
		jq .conversation_seq | tac | cmp - all
	# As the manual says: on at the last one's number minus 1, or plus 1.
	from=1200
	while ((from > 0)); do
		read_mailbox history -u lou --conversation c --reverse --from "$from" -c 90 |
			jq .conversation_seq >page
		[ -s page ] || break
		cat page >>pages
		from=$(($(tail -n 1 page) - 1))
	done
	tac pages | cmp - all
	from=1
	rm pages
	while read_mailbox history -u lou --conversation c --from "$from" -c 90 |
		jq .conversation_seq >page && [ -s page ]
	do
		cat page >>pages
		from=$(($(tail -n 1 page) + 1))
	done
	cmp pages all
}

@test "history doesn't follow inverted mailbox_seqs, the box does" {
	printf '%s\n' \
		'{"conversation_id":"c","conversation_seq":2,"to":["lou"]}' \
		'{"conversation_id":"c","conversation_seq":1,"to":["lou"]}' | fill
	run -0 read_mailbox history -u lou --conversation c
	run -0 jq -c '[.conversation_seq, .mailbox_seq]' <<<"$output"
	[ "$output" = $'[1,2]\n[2,1]' ]
	run -0 read_mailbox box -u lou
	run -0 jq -c '[.conversation_seq, .mailbox_seq]' <<<"$output"
	[ "$output" = $'[2,1]\n[1,2]' ]
}

@test "box: by mailbox_seq, in pages" {
	some_messages | fill
	run -0 read_mailbox box -u lou
	run -0 jq -c '[.mailbox_seq, .conversation_id, .conversation_seq]' <<<"$output"
	[ "$output" = $'[1,"c",1]\n[2,"c",2]\n[3,"d",1]\n[4,"c",4]' ]
	run -0 read_mailbox box -u lou --from 2 -c 2
	run -0 jq -c .mailbox_seq <<<"$output"
	[ "$output" = $'2\n3' ]
	run -0 read_mailbox box -u nobody
	[ -z "$output" ]
}

@test "no entry above the mark is shown, the list may be ahead" {
	some_messages | fill
	redis_cli a ZADD "qim:{3}:mark" 2 "dispatch partitions=4 nodes=1 place=0"
	run -0 read_mailbox box -u lou
	[ "${#lines[@]}" = 2 ]
	run -0 read_mailbox history -u lou --conversation c
	[ "${#lines[@]}" = 2 ]
	run -0 read_mailbox conversations -u lou -c 1
	[ "$output" = '{"conversation_id":"c","created_at":40,"last_seq":4,"read_seq":0,"unread":1}' ]
	redis_cli a DEL "qim:{3}:mark"
	run -0 read_mailbox box -u lou
	[ -z "$output" ]
}

@test "positions: every partition, 0 where no mark stands" {
	some_messages | fill
	run -0 read_mailbox positions -t dispatch
	[ "$output" = $'dispatch 0 0\ndispatch 1 0\ndispatch 2 4\ndispatch 3 4' ]
	redis_cli a FLUSHALL
	run -0 read_mailbox positions -t dispatch
	[ "$output" = $'dispatch 0 0\ndispatch 1 0\ndispatch 2 0\ndispatch 3 0' ]
}

@test "positions of two nodes" {
	redis_start b --appendonly yes
	R=$R,unix:$(redis_socket b)
	some_messages | fill
	run -0 read_mailbox positions -t dispatch
	[ "$output" = $'dispatch 0 0\ndispatch 1 0\ndispatch 2 4\ndispatch 3 4' ]
	run -0 read_mailbox box -u lou
	[ "${#lines[@]}" = 4 ]
	run -0 read_mailbox box -u bob
	[ "${#lines[@]}" = 4 ]
}

@test "marks of another topic, count or list: 78" {
	some_messages | fill
	run -78 read_mailbox positions -t other
	expect_message "qim:{2}:mark: it is of 'dispatch partitions=4 nodes=1 place=0', wants 'other partitions=4 nodes=1 place=0'"
	run -78 read_mailbox positions -t dispatch -n 8
	expect_message 'partitions=8'
	# pat is in partition 1 of 4, and of 2.
	redis_cli a ZADD "qim:{1}:mark" 2 "dispatch partitions=4 nodes=1 place=0"
	run -78 read_mailbox box -u pat -n 2
	expect_message "it is of 'dispatch partitions=4 nodes=1 place=0', wants 'TOPIC partitions=2"
	# With a count of its own a user's partition may be one without a mark:
	# that of the node's first partition tells.
	redis_cli a ZADD "qim:{0}:mark" 2 "dispatch partitions=4 nodes=1 place=0"
	run -78 read_mailbox box -u pat -n 5000
	expect_message "qim:{0}:mark: it is of 'dispatch partitions=4 nodes=1 place=0', wants 'TOPIC partitions=5000"
	run -0 read_mailbox box -u lou --prefix other
	[ -z "$output" ]
}

@test "ids and payloads of any kind" {
	# Bytes that aren't text, as ids and in a payload; all of JSON.
	cat >lines <<-'END'
		{"conversation_id":{"base64":"//4="},"conversation_seq":1,"to":["lou"],"sender":{"base64":"AA=="},"message_id":"\u00e9","payload":[1,-2,2.5,true,null,"\u00e9",{"a":[]}]}
		{"conversation_id":"c","conversation_seq":1,"to":["lou"],"payload":"text"}
	END
	fill <lines
	run -0 read_mailbox box -u lou
	[ "${lines[0]}" = '{"mailbox_seq":1,"conversation_id":{"base64":"//4="},"conversation_seq":1,"message_id":"é","sender":{"base64":"AA=="},"created_at":1001,"payload":[1,-2,2.5,true,null,"é",{"a":[]}]}' ]
	[[ ${lines[1]} == *'"payload":"text"}' ]]
	run -0 read_mailbox history -u lou --conversation $'\xff\xfe'
	[ "${#lines[@]}" = 1 ]
}

@test "payloads of msgpack that JSON doesn't have" {
	/usr/bin/python3 - <<-'END' >value
		import base64, json, msgpack
		message = {"v": 1, "id": b"i" * 16, "digest": b"d" * 16, "conversation_id": "c", "conversation_seq": 1,
		           "message_id": "m", "sender": "s", "created_at": 1, "chunk": [1, 1], "to": ["lou"],
		           "payload": {1: b"\x00\xff", "e": msgpack.ExtType(5, b"x"), "u": 2**64 - 1}}
		print(json.dumps({"raw": base64.b64encode(msgpack.packb(message)).decode(), "partition": 3}))
	END
	fill <value
	run -0 read_mailbox box -u lou
	run -0 jq -c .payload <<<"$output"
	[ "$output" = '{"1":{"base64":"AP8="},"e":{"base64":"eA==","ext":5},"u":{"u64":"18446744073709551615"}}' ]
}

@test "a message nested as deep as may be, repeated" {
	/usr/bin/python3 - <<-'END' >value
		import base64, json, msgpack
		deep = 1
		for _ in range(31):
		    deep = [deep]
		message = {"v": 1, "id": b"i" * 16, "digest": b"d" * 16, "conversation_id": "c", "conversation_seq": 1,
		           "message_id": "m", "sender": "s", "created_at": 1, "chunk": [1, 1], "to": ["lou"],
		           "payload": deep, "x": deep}
		print(json.dumps({"raw": base64.b64encode(msgpack.packb(message)).decode(), "partition": 3}))
	END
	cat value value | fill
	run -0 redis_cli a EXISTS "qim:{3}:quarantine"
	[ "$output" = 0 ]
	run -0 read_mailbox box -u lou
	[ "${#lines[@]}" = 1 ]
	[[ $output == *'"payload":'"$(printf '[%.0s' {1..31})"1* ]]
}

@test "a body that was trimmed is null" {
	some_messages | fill
	# [0, digest]: what is left of the claim of offset 0.
	redis_cli a EVAL "local v = redis.call('hget', KEYS[1], '1')
		redis.call('hset', KEYS[1], '1', '\146' .. v:sub(2, 20))" 1 "qim:{3}:log:c"
	run -0 read_mailbox history -u lou --conversation c -c 1
	[ "$output" = '{"mailbox_seq":1,"conversation_id":"c","conversation_seq":1,"message_id":null,"sender":null,"created_at":null,"payload":null}' ]
}

@test "keys of another type: 65 with the key's name" {
	some_messages | fill
	redis_cli a SET "qim:{3}:box:lou" x
	run -65 read_mailbox box -u lou
	expect_message 'qim:{3}:box:lou: WRONGTYPE'
	redis_cli a DEL "qim:{3}:box:lou"
	redis_cli a ZADD "qim:{3}:box:lou" 1 x
	run -65 read_mailbox box -u lou
	expect_message 'reference'
	redis_cli a HSET "qim:{2}:log:c" 1 x
	run -65 read_mailbox history -u bob --conversation c
	expect_message 'claim'
}

@test "a score that is no mailbox_seq: 65 with the key's name" {
	seq 1 6000 | jq -c '{conversation_id: "c", conversation_seq: ., to: ["lou"]}' | fill
	redis_cli a EVAL "local box = 'qim:{3}:box:lou'
		local at = redis.call('zrange', box, 4999, 4999)
		redis.call('zadd', box, 4999.5, at[1])" 0
	# So that it isn't looked up number by number.
	redis_cli a ZADD "qim:{3}:top" 9007199254740991 c
	run -65 timeout 60 mailbox-read -n 4 -r "$R" history -u lou --conversation c --from 20000
	expect_message "qim:{3}:box:lou: score '4999.5': not a mailbox_seq"
	redis_cli a ZADD "qim:{3}:read:lou" 20000 c
	run -65 timeout 60 mailbox-read -n 4 -r "$R" conversations -u lou
	expect_message "qim:{3}:box:lou: score '4999.5': not a mailbox_seq"
	run -65 read_mailbox box -u lou --from 4990
	expect_message "qim:{3}:box:lou: score '4999.5': not a mailbox_seq"
}

# bats test_tags=slow
@test "no Redis: 69, a password: 77, an ACL user" {
	local words
	run -69 mailbox-read box -u lou -r "127.0.0.1:$(free_port)" --connect-ms 4000
	expect_message 'not reachable yet: connect: Connection refused: waiting up to 4000 ms'
	run -69 mailbox-read --check box -u lou -r "127.0.0.1:$(free_port)" --connect-ms 200
	run -0 mailbox-read --check box -u lou -r "$R"
	some_messages | fill
	read -r -d '' -a words < <(sed -n '/^ACL SETUSER read/,/^\.Ed/p' \
		"$qim_root/man/qim-mailbox.5" | grep -v '^\.Ed') || true
	[ "${#words[@]}" -gt 5 ]
	redis_cli a "${words[@]}"
	echo secret >password
	chmod 600 password
	run -0 read_mailbox box -u lou --user read --password-file password
	[ "${#lines[@]}" = 4 ]
	run -0 read_mailbox history -u lou --conversation c --user read --password-file password
	run -0 read_mailbox conversations -u lou --user read --password-file password
	run -0 read_mailbox positions -t dispatch --user read --password-file password
	redis_cli a HINCRBY "qim:{3}:quarantine" dropped 1
	run -0 read_mailbox quarantine -t dispatch --user read --password-file password
	[ "$output" = '{"partition":3,"copies":0,"dropped":1}' ]
	redis_cli a ACL SETUSER read -hget
	run -77 read_mailbox box -u lou --user read --password-file password
	expect_message NOPERM
	redis_cli a CONFIG SET requirepass other
	run -77 read_mailbox box -u lou
	expect_message NOAUTH
}

@test "options: 64" {
	run -64 mailbox-read
	expect_message "'': wants conversations, history, box, batch, positions or quarantine"
	run -64 mailbox-read all
	expect_message "'all': wants conversations, history, box, batch, positions or quarantine"
	run -64 mailbox-read box -u lou
	expect_message '-r: missing'
	run -64 read_mailbox box
	expect_message '-u: missing: box wants it'
	run -64 read_mailbox positions
	expect_message '-t: missing: positions wants it'
	run -64 read_mailbox history -u lou
	expect_message '--conversation: missing: history wants it'
	run -64 read_mailbox box -u lou -t dispatch
	expect_message '-t: not with box'
	run -64 read_mailbox conversations -u lou --from 3
	expect_message '--from: not with conversations'
	run -64 read_mailbox box -u lou --reverse
	expect_message '--reverse: not with box'
	run -64 read_mailbox positions -t dispatch -c 3
	expect_message '-c: not with positions'
	run -64 read_mailbox box -u "$(printf 'x%.0s' {1..256})"
	expect_message '-u: 256 bytes, an id has at most 255'
	run -64 read_mailbox positions -t 'a b'
	expect_message "-t: 'a b': not a topic's name"
	run -64 read_mailbox box -u lou -c 10001
	expect_message 'wants a number from 1 to 10000 entries'
}

@test "-h and -V; the reader gone" {
	run -0 mailbox-read -h
	[[ $output == 'usage: mailbox-read '* ]]
	run -0 mailbox-read -V
	[[ $output == 'mailbox-read (qim) '* ]]
	some_messages | fill
	run -75 to_nobody read_mailbox box -u lou
}

@test "quarantine: copies by offset, what was dropped, values decoded or not" {
	some_messages | fill
	run -0 read_mailbox quarantine -t dispatch
	[ -z "$output" ]
	/usr/bin/python3 - <<-'END' >values
		import base64, json, msgpack
		def raw(value):
		    print(json.dumps({"raw": base64.b64encode(value).decode(), "partition": 3}))
		raw(msgpack.packb({"v": 9, "a": b"\x00"}))
		raw(b"\xff\xfe")
		raw(msgpack.packb({"pad": "x" * 5000}))
	END
	{
		echo '{"conversation_id":"c","conversation_seq":1,"to":["lou"],"digest":"other","offset":4}'
		cat values
	} | /usr/bin/python3 "$qim_root/tests/lib/dispatch-stream.py" -s 3:4 |
		mailbox-apply -q -n 4 -r "$R" >/dev/null
	redis_cli a HINCRBY 'qim:{3}:quarantine' dropped 7
	read_mailbox quarantine -t dispatch >lines
	run -0 jq -c '[.partition, .copies, .dropped, .offset, (.reason // "" | .[:8]), .cut]' lines
	[ "$output" = '[3,5,7,null,"",null]
[3,null,null,0,"conflict",false]
[3,null,null,4,"conflict",false]
[3,null,null,5,"dispatch",false]
[3,null,null,6,"dispatch",false]
[3,null,null,7,"dispatch",true]' ]
	run -0 jq -rc 'select(.offset == 0 or .offset == 4) | .dispatch_id' lines
	[ "${lines[0]}" = "${lines[1]}" ]
	[[ ${lines[0]} =~ ^[0-9a-f]{32}$ ]]
	run -0 jq -c 'select(.offset == 5 or .offset == 6) | [.value, .dispatch_id == .digest]' lines
	[ "$output" = '[{"v":9,"a":{"base64":"AA=="}},true]
[{"base64":"//4="},true]' ]
}

# bats test_tags=slow
@test "quarantine of many copies, on two nodes; of another kind: 65; marks: 78" {
	redis_start b --appendonly yes
	R=$R,127.0.0.1:$(redis_port b)
	/usr/bin/python3 - <<-'END' >values
		import base64, json
		for n in range(700):
		    for partition in (2, 3):
		        print(json.dumps({"raw": base64.b64encode(b"%d" % n).decode(), "partition": partition}))
	END
	fill <values
	read_mailbox quarantine -t dispatch >lines
	jq -c 'select(.reason) | [.partition, .offset]' lines |
		cmp - <(jq -nc '(2, 3) as $p | range(700) | [$p, .]')
	run -78 read_mailbox quarantine -t other
	expect_message "wants 'other partitions=4"
	redis_cli b HSET 'qim:{3}:quarantine' short x
	run -65 read_mailbox quarantine -t dispatch
	expect_message 'qim:{3}:quarantine: not a quarantine of mailbox-apply'
	run -64 read_mailbox quarantine
	expect_message '-t: missing: quarantine wants it'
	run -64 read_mailbox quarantine -t dispatch -u lou
	expect_message '-u: not with quarantine'
}
