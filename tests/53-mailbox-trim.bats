# mailbox-trim on a real redis-server: which entries, bodies and claims go, and
# which stay.
# shellcheck disable=SC2030,SC2031  # each test sets its R
# shellcheck disable=SC2154  # lib sets them
bats_require_minimum_version 1.5.0
load lib/common
load lib/trimmer

@test "by count: the newest stay, the floor is what went last" {
	messages 1 700 | fill
	run -0 trim --box-count 5
	done_is 1 695 0 0 0
	[ "$(box)" = '696 697 698 699 700' ]
	[ "$(key ZSCORE floor lou)" = 695 ]
	run -0 trim --box-count 5
	done_is 0 0 0 0 0
	messages 1 702 | fill
	run -0 trim --box-count 5
	done_is 1 2 0 0 0
	[ "$(box)" = '698 699 700 701 702' ]
	run -0 trim --box-count 700
	done_is 0 0 0 0 0
	[ "$(key ZSCORE floor lou)" = 697 ]
}

@test "what is above the mark is neither counted nor removed" {
	messages 1 10 | fill
	redis_cli a ZADD 'qim:{3}:mark' 4 'dispatch partitions=4 nodes=1 place=0'
	run -0 trim --box-count 3
	done_is 1 1 0 0 0
	[ "$(key ZCARD box:lou)" = 9 ]
	redis_cli a DEL 'qim:{3}:mark'
	run -0 trim --box-count 1 --bodies 1
	done_is 0 0 0 0 0
}

@test "a device's cursor holds what it hasn't acknowledged" {
	messages 1 10 | fill
	read_mailbox batch -u lou -d phone -c 4 >/dev/null
	run -0 trim --box-count 2
	done_is 0 0 1 0 0
	[ "$(key ZCARD box:lou)" = 10 ]
	ack --from 0 --to 4
	run -0 trim --box-count 2
	done_is 1 4 1 0 0
	[ "$(box)" = '5 6 7 8 9 10' ]
	# The cursor isn't below the floor.
	run -0 read_mailbox batch -u lou -d phone
	[ "${lines[0]}" = '{"device":"phone","from":4,"to":10,"count":6}' ]
	ack --from 4 --to 10
	run -0 trim --box-count 2
	done_is 1 4 0 0 0
}

@test "a silent device holds nothing, is told, and goes on" {
	messages 1 10 | fill
	read_mailbox batch -u lou -d phone -c 4 >/dev/null
	ack --from 0 --to 4
	silent 30
	run -0 trim --box-count 2 --device-days 31
	done_is 1 4 1 0 0
	run -0 trim --box-count 2
	done_is 1 4 0 0 0
	[[ $(key HGET device:lou phone) == '4 4 '* ]]
	run -65 read_mailbox batch -u lou -d phone
	expect_message "its cursor 4 is below the floor 8: what was between is trimmed; --from 4 --to 8 acknowledges the loss"
	# Now that it was heard of, the floor waits for it.
	messages 1 20 | fill
	run -0 trim --box-count 2
	done_is 0 0 1 0 0
	ack --from 4 --to 8
	run -0 read_mailbox batch -u lou -d phone
	[ "${lines[0]}" = '{"device":"phone","from":8,"to":20,"count":12}' ]
}

@test "the floor is no higher than what is missing" {
	printf '{"conversation_id":"c","conversation_seq":%d,"to":["lou"],"offset":%d}\n' \
		1 2 2 8 3 12 | fill
	read_mailbox batch -u lou -d phone -c 1 >/dev/null
	ack --from 0 --to 3
	silent 40
	seen 3 9
	run -0 trim --box-days 3
	done_is 1 2 0 0 0
	[ "$(key ZSCORE floor lou)" = 9 ]
	redis_cli a ZADD 'qim:{3}:floor' 3 lou
	# From 3 to 12 nothing is missing.
	seen 3 12
	run -0 trim --box-days 3
	done_is 0 0 0 0 0
	run -0 read_mailbox batch -u lou -d phone
	[ "${lines[0]}" = '{"device":"phone","from":3,"to":13,"count":1}' ]
}

@test "a late copy brings an entry back below the floor, where nobody sees it" {
	messages 1 10 | fill
	read_mailbox batch -u lou -d phone >/dev/null
	ack --from 0 --to 10
	run -0 trim --box-count 3
	done_is 1 7 0 0 0
	again 1 10
	[ "$(key ZCARD box:lou)" = 10 ]
	[ "$(box)" = '8 9 10' ]
	[ "$(box --from 2 -c 1)" = 8 ]
	run -0 read_mailbox history -u lou --conversation c
	[ "${#lines[@]}" = 3 ]
	run -0 read_mailbox conversations -u lou
	[[ $output == *'"unread":3}' ]]
	run -0 read_mailbox batch -u lou -d new
	[ "${lines[0]}" = '{"device":"new","from":7,"to":10,"count":3}' ]
	run -0 read_mailbox batch -u lou -d phone
	[ "$output" = '{"device":"phone","from":10,"to":10,"count":0}' ]
	# They take no place of those that stay.
	messages 1 11 | fill
	run -0 trim --box-count 3 --dry-run
	dry=true done_is 1 7 1 0 0
	run -0 trim --box-count 4
	done_is 1 7 0 0 0
	[ "$(key ZRANGE box:lou 0 0 WITHSCORES | tail -n 1)" = 8 ]
	[ "$(key ZSCORE floor lou)" = 7 ]
}

@test "unread and history by the whole box know the floor too" {
	jq -nc 'range(1; 31) | {conversation_id: "t", conversation_seq: (100000 * .), to: ["lou"], offset: (. - 1)}' >lines
	fill <lines
	run -0 trim --box-count 10
	done_is 1 20 0 0 0
	redis_cli a DEL 'qim:{3}:mark'
	fill <lines
	[ "$(key ZCARD box:lou)" = 30 ]
	run -0 read_mailbox conversations -u lou
	[[ $output == *'"unread":10}' ]]
	run -0 read_mailbox history -u lou --conversation t
	[ "${#lines[@]}" = 10 ]
}

@test "by age: what the mark had passed so long ago" {
	messages 1 10 | fill
	run -0 trim --box-days 1
	done_is 0 0 0 0 0
	[ "$(key ZRANGE times 0 -1)" = 10 ]
	seen 7 4
	seen 3 6
	run -0 trim --box-days 8
	done_is 0 0 0 0 0
	run -0 trim --box-days 7
	done_is 1 4 0 0 0
	run -0 trim --box-days 4
	done_is 0 0 0 0 0
	run -0 trim --box-days 3 --box-count 9
	done_is 1 2 0 0 0
	[ "$(box)" = '7 8 9 10' ]
	run -0 trim --box-days 3 --box-count 1
	done_is 1 3 0 0 0
}

# bats test_tags=slow
@test "times: what is no mark, or above the mark, makes nothing old" {
	messages 1 10 | fill
	local member
	for member in -1 1e1 0x5 5.0 inf ' 5' $'5\n' x '' 11 9007199254740992; do
		key DEL times
		seen 20 "$member"
		run -0 trim --box-days 3 --bodies 3 --retention-days 14 --dry-run
		dry=true done_is 0 0 0 7 0
	done
	key DEL times
	seen 20 10
	redis_cli a ZADD 'qim:{3}:mark' 5 'dispatch partitions=4 nodes=1 place=0'
	run -0 trim --box-days 3 --bodies 3 --retention-days 14
	done_is 0 0 0 7 0
	messages 1 10 | fill
	run -0 trim --box-days 3 --bodies 3 --retention-days 14
	done_is 1 10 0 0 7
}

@test "times: one a day, none of the future, one beyond all rules" {
	messages 1 5 | fill
	trim --box-count 100
	messages 1 6 | fill
	trim --box-count 100
	[ "$(key ZRANGE times 0 -1)" = 5 ]
	seen -2 6
	seen 400 1
	seen 380 2
	seen 370 3
	seen 200 4
	trim --box-count 100
	[ "$(key ZRANGE times 0 -1 | paste -sd ' ')" = '3 4 5' ]
	key DEL times
	seen 1 5
	trim --box-count 100
	[ "$(key ZRANGE times 0 -1 | paste -sd ' ')" = '5 6' ]
}

@test "bodies: those beyond the newest go, their claims stay" {
	messages 1 250 | fill
	run -0 trim --bodies 10
	done_is 0 0 0 240 0
	[ "$(key HLEN log:c)" = 250 ]
	run -0 read_mailbox history -u lou --conversation c -c 1000
	run -0 jq -c 'select(.payload) | .conversation_seq' <<<"$output"
	[ "$(head -n 1 <<<"$output")" = 241 ]
	[ "$(wc -l <<<"$output")" = 10 ]
	run -0 read_mailbox box -u lou --from 240 -c 1
	[ "$output" = '{"mailbox_seq":240,"conversation_id":"c","conversation_seq":240,"message_id":null,"sender":null,"created_at":null,"payload":null}' ]
	run -0 trim --bodies 10
	done_is 0 0 0 0 0
	run -0 trim --bodies 250
	done_is 0 0 0 0 0
}

@test "bodies: offsets of every size, numbers far apart, chunks" {
	local mark='dispatch partitions=4 nodes=1 place=0' offset n=0
	redis_cli a ZADD 'qim:{3}:mark' 1 "$mark"
	for offset in 1 127 128 255 256 65535 65536 4294967295 4294967296 9007199254740000; do
		n=$((n + 1))
		echo "{\"conversation_id\":\"c\",\"conversation_seq\":$((n * 1000000)),\"to\":[\"lou\"],\"offset\":$offset}"
		echo "{\"conversation_id\":\"c\",\"conversation_seq\":$((n * 1000000)),\"chunk\":[2,2],\"to\":[\"lou\"],\"offset\":$((offset + 300))}"
	done >lines
	# In the order of the offsets, as the topic has them.
	jq -sc 'sort_by(.offset) | .[]' lines >sorted
	fill -s 3:1 <sorted
	run -0 trim --bodies 2
	done_is 0 0 0 8 0
	[ "$(key HLEN log:c)" = 20 ]
	redis_cli a DEL 'qim:{3}:mark'
	redis_cli a ZADD 'qim:{3}:mark' 1 "$mark"
	redis_cli a DEL 'qim:{3}:box:lou'
	fill -s 3:1 <sorted
	# All were repeats of what is left of their claims.
	[ "$(key EXISTS quarantine)" = 0 ]
	run -0 read_mailbox box -u lou -c 100
	run -0 jq -c '[.mailbox_seq, .payload != null]' <<<"$output"
	[ "$output" = '[2,false]
[128,false]
[129,false]
[256,false]
[257,false]
[65536,false]
[65537,false]
[4294967296,false]
[4294967297,true]
[9007199254740001,true]' ]
}

@test "a claim without its body still tells repeats from conflicts" {
	messages 1 10 | fill
	trim --bodies 1
	again 1 10
	[ "$(key EXISTS quarantine)" = 0 ]
	echo '{"conversation_id":"c","conversation_seq":2,"to":["lou"],"digest":"other","offset":10}' |
		fill -s 3:10
	run -0 read_mailbox quarantine -t dispatch
	run -0 jq -c '[.offset, .reason, .copies]' <<<"$output"
	[ "$output" = '[null,null,2]
[1,"conflict: the claim",null]
[10,"conflict: another digest than the claim'\''s",null]' ]
}

@test "claims: only without body, and only when they are old" {
	messages 1 20 | fill
	seen 14 12
	run -0 trim --bodies 5 --retention-days 15
	done_is 0 0 0 15 0
	run -0 trim --bodies 5 --retention-days 14
	done_is 0 0 0 0 12
	[ "$(key HKEYS log:c | sort -n | paste -sd ' ')" = '13 14 15 16 17 18 19 20' ]
	# The entries stay, and a body with its claim that is old enough goes too.
	[ "$(key ZCARD box:lou)" = 20 ]
	run -0 read_mailbox history -u lou --conversation c
	[ "${#lines[@]}" = 20 ]
	seen 14 18
	run -0 trim --bodies 3 --retention-days 14
	done_is 0 0 0 0 5
	run -0 trim --bodies 20 --retention-days 2
	done_is 0 0 0 0 0
}

@test "--dry-run: the same numbers, and nothing changes" {
	messages 1 300 | fill
	seen 14 50
	local digest
	digest=$(redis_cli a DEBUG DIGEST)
	run -0 trim --dry-run --box-count 10 --bodies 20 --retention-days 14
	dry=true done_is 1 290 0 230 50
	[ "$(redis_cli a DEBUG DIGEST)" = "$digest" ]
	run -0 trim --box-count 10 --bodies 20 --retention-days 14
	done_is 1 290 0 230 50
}

# bats test_tags=slow
@test "two nodes; other prefixes, topics and partitions aren't touched" {
	redis_start b --appendonly yes
	R=$R,unix:$(redis_socket b)
	# bob is in partition 2, lou in 3.
	jq -nc 'range(1; 11) | {conversation_id: "c", conversation_seq: ., to: ["lou", "bob"]}' | fill
	local other
	for other in 'qimm:{3}' 'qim:{03}' 'qim:{9}' 'qim:{2}' 'x:qim:{3}' 'qim:{3}:x'; do
		redis_cli b ZADD "$other:box:lou" 1 a 2 b 3 c
	done
	run -0 trim --box-count 2
	done_is 2 16 0 0 0
	for other in 'qimm:{3}' 'qim:{03}' 'qim:{9}' 'qim:{2}' 'x:qim:{3}' 'qim:{3}:x'; do
		[ "$(redis_cli b ZCARD "$other:box:lou")" = 3 ]
	done
	[ "$(redis_cli a ZSCORE 'qim:{2}:floor' bob)" = 8 ]
	[ "$(redis_cli b ZSCORE 'qim:{3}:floor' lou)" = 8 ]
}

@test "a prefix of pattern characters, names of any bytes" {
	local name=$'{9}:\xff*' prefix='a*[b]?\c^-'
	printf '%s' "$name" | jq -Rsc --arg id "$(printf '%s' "$name" | base64 -w 0)" \
		'range(1; 6) | {conversation_id: {base64: $id}, conversation_seq: ., to: [{base64: $id}]}' >lines
	/usr/bin/python3 "$qim_root/tests/lib/dispatch-stream.py" <lines |
		mailbox-apply -q -n 4 -r "$R" --prefix "$prefix" >/dev/null
	run -0 trim --prefix "$prefix" --box-count 2 --bodies 2
	done_is 1 3 0 3 0
	run -0 read_mailbox box -u "$name" --prefix "$prefix"
	[ "${#lines[@]}" = 2 ]
}
