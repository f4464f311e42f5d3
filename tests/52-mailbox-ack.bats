# mailbox-ack, and the batches of mailbox-read that it acknowledges.
# shellcheck disable=SC2030,SC2031  # each test sets its R
bats_require_minimum_version 1.5.0
load lib/common
load lib/mailbox

# batch [OPTION...]: lou's phone; the head, then the mailbox_seqs.
batch() {
	mailbox-read -n 4 -r "$R" batch -u lou -d phone "$@" |
		jq -c 'if .device then [.device, .from, .to, .count] else .mailbox_seq end' |
		paste -sd ' '
}

ack() {
	mailbox-ack -n 4 -r "$R" -u lou "$@"
}

device() {
	redis_cli a HGET 'qim:{3}:device:lou' "$1"
}

# bats test_tags=slow
@test "a batch stays the same until it is acknowledged" {
	messages 1 5 | fill
	[ "$(batch -c 2)" = '["phone",0,2,2] 1 2' ]
	[ "$(batch -c 4)" = '["phone",0,2,2] 1 2' ]
	messages 1 7 | fill
	[ "$(batch)" = '["phone",0,2,2] 1 2' ]
	run -0 ack -d phone --from 0 --to 2
	[ -z "$output" ]
	[ "$(batch)" = '["phone",2,7,5] 3 4 5 6 7' ]
	ack -d phone --from 2 --to 7
	[ "$(batch)" = '["phone",7,7,0]' ]
	# Nothing was given: this moves nothing.
	ack -d phone --from 7 --to 7
	[ "$(batch)" = '["phone",7,7,0]' ]
}

# bats test_tags=slow
@test "the lines of a batch are those of the box" {
	messages 1 3 | fill
	mailbox-read -n 4 -r "$R" batch -u lou -d phone >batch
	[ "$(head -n 1 batch)" = '{"device":"phone","from":0,"to":3,"count":3}' ]
	tail -n +2 batch | cmp - <(mailbox-read -n 4 -r "$R" box -u lou)
}

# bats test_tags=slow
@test "a cursor moves only from where it stands to the end of the batch: else 65" {
	messages 1 5 | fill
	run -65 ack -d phone --from 0 --to 2
	expect_message "-d: 'phone': was never given a batch"
	batch -c 2
	local pair
	for pair in '0 1' '0 3' '1 2' '0 0' '2 2' '0 9007199254740991'; do
		run -65 ack -d phone --from "${pair% *}" --to "${pair#* }"
		expect_message "-d: 'phone': its cursor is 0, the batch that is out ends at 2: not --from ${pair% *} --to ${pair#* }"
	done
	[[ $(device phone) == '0 2 '* ]]
	ack -d phone --from 0 --to 2
	run -65 ack -d phone --from 0 --to 2
	expect_message "its cursor is 2, no batch is out: not --from 0 --to 2"
	run -65 ack -d phone --from 2 --to 5
	expect_message "its cursor is 2, no batch is out: not --from 2 --to 5"
	[[ $(device phone) == '2 2 '* ]]
}

@test "one of many that acknowledge at once moves the cursor" {
	messages 1 5 | fill
	batch
	local i pids=()
	for i in {1..8}; do
		{ ack -q -d phone --from 0 --to 5 2>/dev/null && echo moved >>moved; } &
		pids+=("$!")
	done
	wait "${pids[@]}" || true
	[ "$(cat moved)" = moved ]
}

@test "many that ask at once are given one batch" {
	messages 1 50 | fill
	local i pids=()
	for i in {1..8}; do
		batch -c "$i" >"batch.$i" &
		pids+=("$!")
	done
	wait "${pids[@]}"
	for i in {2..8}; do
		cmp batch.1 "batch.$i"
	done
}

@test "devices of one user are apart" {
	messages 1 4 | fill
	batch -c 1
	ack -d phone --from 0 --to 1
	run -0 mailbox-read -n 4 -r "$R" batch -u lou -d laptop -c 3
	[ "${lines[0]}" = '{"device":"laptop","from":0,"to":3,"count":3}' ]
	[ "$(batch -c 1)" = '["phone",1,2,1] 2' ]
	ack -d laptop --from 0 --to 3
	[[ $(device laptop) == '3 3 '* ]]
	[[ $(device phone) == '1 2 '* ]]
}

@test "no entry above the mark is given" {
	messages 1 5 | fill
	redis_cli a ZADD 'qim:{3}:mark' 2 'dispatch partitions=4 nodes=1 place=0'
	[ "$(batch)" = '["phone",0,2,2] 1 2' ]
	redis_cli a DEL 'qim:{3}:mark'
	run -0 mailbox-read -n 4 -r "$R" batch -u lou -d new
	[ "$output" = '{"device":"new","from":0,"to":0,"count":0}' ]
	run -0 mailbox-read -n 4 -r "$R" batch -u nobody -d phone
	[ "$output" = '{"device":"phone","from":0,"to":0,"count":0}' ]
}

@test "above the mark: told so, and the batch that is out stays: 65" {
	local mark='dispatch partitions=4 nodes=1 place=0'
	messages 1 5 | fill
	batch -c 2
	redis_cli a ZADD 'qim:{3}:mark' 1 "$mark"
	run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message "-d: 'phone': its cursor is 0, and it was given up to 2, but the mark is 1: nothing more until the mark has caught up"
	[[ $(device phone) == '0 2 '* ]]
	ack -d phone --from 0 --to 2
	run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message "its cursor is 2, and it was given up to 2, but the mark is 1"
	redis_cli a DEL 'qim:{3}:mark'
	run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message "but the mark is 0"
	messages 1 5 | fill
	[ "$(batch)" = '["phone",2,5,3] 3 4 5' ]
}

# bats test_tags=slow
@test "a floor or a device that nobody of us has written: 65" {
	messages 1 9 | fill
	local value huge
	printf -v huge '%0400d' 0
	for value in '9 5 1' "${huge//0/9} ${huge//0/9} 1" '1 1' '1 1 1 1' \
		'-1 1 1' '1.5 2 1' '0x1 2 1' '1 inf 1' '1 9007199254740992 1' \
		'1 1 9007199254740992' $'1 1 1\n' ''; do
		redis_cli a HSET 'qim:{3}:device:lou' phone "$value"
		run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
		expect_message 'qim:{3}:device:lou: ERR not the cursor of a device'
		run -65 ack -d phone --from 9 --to 5
		expect_message 'qim:{3}:device:lou: ERR not the cursor of a device'
	done
	redis_cli a HSET 'qim:{3}:device:lou' phone '0 0 1'
	for value in inf -inf -1 1.5 9007199254740992; do
		redis_cli a ZADD 'qim:{3}:floor' "$value" lou
		run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
		expect_message 'ERR not a floor: qim:{3}:floor'
		run -65 ack -d phone --from 0 --to 0
		expect_message 'ERR not a floor: qim:{3}:floor'
	done
	[ "$(device phone)" = '0 0 1' ]
}

@test "below the floor: told so, and the loss can be acknowledged" {
	messages 1 9 | fill
	batch -c 2
	ack -d phone --from 0 --to 2
	redis_cli a ZADD 'qim:{3}:floor' 4 lou
	run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message "-d: 'phone': its cursor 2 is below the floor 4: what was between is trimmed; --from 2 --to 4 acknowledges the loss"
	local pair
	for pair in '2 3' '1 4' '2 5' '4 4'; do
		run -65 ack -d phone --from "${pair% *}" --to "${pair#* }"
		expect_message "its cursor 2 is below the floor 4"
	done
	ack -d phone --from 2 --to 4
	[ "$(batch -c 2)" = '["phone",4,6,2] 5 6' ]
	# With a batch out the device may have all of it, or not.
	redis_cli a ZADD 'qim:{3}:floor' 5 lou
	run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message '--from 4 --to 5 acknowledges the loss; a batch to 6 is out'
	ack -d phone --from 4 --to 6
	[ "$(batch -c 1)" = '["phone",6,7,1] 7' ]
	redis_cli a ZADD 'qim:{3}:floor' 8 lou
	ack -d phone --from 6 --to 8
	[ "$(batch)" = '["phone",8,9,1] 9' ]
	# A new device has missed nothing.
	run -0 mailbox-read -n 4 -r "$R" batch -u lou -d new
	[ "${lines[0]}" = '{"device":"new","from":8,"to":9,"count":1}' ]
}

@test "data that Redis lost: the cursor is told, nothing is skipped" {
	messages 1 4 | fill
	batch -c 2
	redis_cli a FLUSHALL
	run -65 ack -d phone --from 0 --to 2
	expect_message 'was never given a batch'
	messages 1 4 | fill
	[ "$(batch)" = '["phone",0,4,4] 1 2 3 4' ]
}

@test "a read mark: only upwards, never beyond what there is" {
	messages 1 5 | fill
	run -65 ack --read --conversation c --seq 6
	expect_message "--seq: 6 is above 5, the newest of conversation 'c' here"
	run -65 ack --read --conversation none --seq 1
	expect_message "--seq: 1 is above 0, the newest of conversation 'none' here"
	[ "$(redis_cli a EXISTS 'qim:{3}:read:lou')" = 0 ]
	ack --read --conversation c --seq 4
	ack --read --conversation c --seq 3
	[ "$(redis_cli a ZSCORE 'qim:{3}:read:lou' c)" = 4 ]
	run -0 mailbox-read -n 4 -r "$R" conversations -u lou
	[[ $output == *'"last_seq":5,"read_seq":4,"unread":1}' ]]
}

@test "numbers up to 2^53 are exact" {
	local top=9007199254740991
	redis_cli a ZADD 'qim:{3}:mark' 9007199254740989 'dispatch partitions=4 nodes=1 place=0'
	jq -nc '{conversation_id: "c", conversation_seq: 9007199254740991, created_at: 1, to: ["lou"], offset: (9007199254740989, 9007199254740990)}' |
		fill -s 3:9007199254740989
	ack --read --conversation c --seq $top
	[ "$(redis_cli a ZSCORE 'qim:{3}:read:lou' c)" = $top ]
	[ "$(batch)" = "[\"phone\",0,9007199254740990,1] 9007199254740990" ]
	ack -d phone --from 0 --to 9007199254740990
	[[ $(device phone) == '9007199254740990 9007199254740990 '* ]]
	[ "$(batch)" = '["phone",9007199254740990,9007199254740990,0]' ]
}

# bats test_tags=slow
@test "names of any bytes" {
	local name long
	printf -v long '%*s' 255 ''
	for name in '{3}:x' 'a:b{c}' $'\xff\xfe' $'a\nb' "${long// /y}" '%s %d' '0'; do
		redis_cli a FLUSHALL
		printf '%s' "$name" | jq -Rsc --arg id "$(printf '%s' "$name" | base64 -w 0)" \
			'{conversation_id: {base64: $id}, conversation_seq: 1, to: [{base64: $id}]}' | fill
		run -0 mailbox-read -n 4 -r "$R" batch -u "$name" -d "$name"
		[ "${#lines[@]}" = 2 ]
		[[ ${lines[0]} == *'"from":0,"to":1,"count":1}' ]]
		mailbox-ack -n 4 -r "$R" -u "$name" -d "$name" --from 0 --to 1
		mailbox-ack -n 4 -r "$R" -u "$name" --read --conversation "$name" --seq 1
		run -0 mailbox-read -n 4 -r "$R" batch -u "$name" -d "$name"
		[[ $output == *'"from":1,"to":1,"count":0}' ]]
		run -65 mailbox-ack -n 4 -r "$R" -u "$name" -d "$name" --from 0 --to 1
		[ "${#lines[@]}" = 1 ]
		run -0 mailbox-read -n 4 -r "$R" conversations -u "$name"
		[[ $output == *'"read_seq":1,"unread":0}' ]]
	done
}

@test "a Redis that forgets its scripts" {
	messages 1 6 | fill
	local i
	for i in 0 1 2 3 4 5; do
		redis_cli a SCRIPT FLUSH
		[ "$(batch -c 1)" = "[\"phone\",$i,$((i + 1)),1] $((i + 1))" ]
		redis_cli a SCRIPT FLUSH
		ack -d phone --from "$i" --to $((i + 1))
	done
}

@test "error replies: keys of another kind 65, full 69, a replica 69" {
	messages 1 3 | fill
	redis_cli a HSET 'qim:{3}:device:lou' phone x
	run -65 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message 'qim:{3}:device:lou: ERR not the cursor of a device'
	run -65 ack -d phone --from 0 --to 3
	expect_message 'qim:{3}:device:lou: ERR not the cursor of a device'
	redis_cli a DEL 'qim:{3}:device:lou'
	redis_cli a SET 'qim:{3}:device:lou' x
	run -65 ack -d phone --from 0 --to 3
	expect_message 'qim:{3}:device:lou: WRONGTYPE'
	redis_cli a DEL 'qim:{3}:device:lou'
	redis_cli a SET 'qim:{3}:read:lou' x
	run -65 ack --read --conversation c --seq 1
	expect_message 'WRONGTYPE'
	redis_cli a CONFIG SET maxmemory 1
	run -69 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message 'qim:{3}:device:lou: OOM'
	redis_cli a CONFIG SET maxmemory 0
	redis_cli a REPLICAOF 127.0.0.1 1
	redis_cli a CONFIG SET replica-serve-stale-data yes
	run -69 mailbox-read -n 4 -r "$R" batch -u lou -d phone
	expect_message READONLY
}

@test "marks of another count: 78" {
	messages 1 1 | fill
	redis_cli a ZADD 'qim:{0}:mark' 2 'dispatch partitions=4 nodes=1 place=0'
	run -78 mailbox-ack -r "$R" -u lou -d phone --from 0 --to 1
	expect_message "qim:{0}:mark: it is of 'dispatch partitions=4 nodes=1 place=0', wants 'TOPIC partitions=64"
}

# bats test_tags=slow
@test "no Redis: 69, a password: 77, the ACL user of the manual" {
	local words
	run -69 ack -d phone --from 0 --to 1 -r "127.0.0.1:$(free_port)" --connect-ms 200
	run -69 ack --check -d phone --from 0 --to 1 -r "127.0.0.1:$(free_port)" --connect-ms 200
	run -0 ack --check -d phone --from 0 --to 1
	messages 1 3 | fill
	read -r -d '' -a words < <(sed -n '/^ACL SETUSER device/,/^\.Ed/p' \
		"$qim_root/man/qim-mailbox.5" | grep -v '^\.Ed') || true
	[ "${#words[@]}" -gt 5 ]
	redis_cli a "${words[@]}"
	echo secret >password
	chmod 600 password
	local as=(--user device --password-file password)
	[ "$(batch "${as[@]}")" = '["phone",0,3,3] 1 2 3' ]
	ack -d phone --from 0 --to 3 "${as[@]}"
	ack --read --conversation c --seq 3 "${as[@]}"
	chmod 644 password
	run -78 ack -d phone --from 3 --to 3 "${as[@]}"
	expect_message 'password'
	run -66 ack -d phone --from 3 --to 3 --user device --password-file none
	chmod 600 password
	redis_cli a ACL SETUSER device -hset
	run -77 ack -d phone --from 3 --to 3 "${as[@]}"
	expect_message "can't run this command"
	redis_cli a ACL SETUSER device -eval
	run -77 ack -d phone --from 3 --to 3 "${as[@]}"
	expect_message NOPERM
	redis_cli a CONFIG SET requirepass other
	run -77 ack -d phone --from 3 --to 3
	expect_message NOAUTH
}

@test "options: 64" {
	run -64 mailbox-ack
	expect_message '-u: missing'
	run -64 ack
	expect_message '-d: missing'
	run -64 ack -d phone --to 2
	expect_message '--from: missing'
	run -64 ack -d phone --from 2
	expect_message '--to: missing'
	run -64 ack --read
	expect_message '--conversation: missing'
	run -64 ack --read --conversation c
	expect_message '--seq: missing'
	run -64 ack --read --conversation c --seq 0
	expect_message "--seq: '0': wants a number from 1"
	run -64 ack --read --conversation c --seq 1 -d phone
	expect_message '-d: not with --read'
	run -64 ack -d phone --from 0 --to 1 --seq 3
	expect_message '--seq: wants --read'
	run -64 ack -d phone --from -1 --to 1
	expect_message "--from: '-1': wants a number from 0"
	run -64 ack -d "$(printf 'x%.0s' {1..256})" --from 0 --to 1
	expect_message '-d: 256 bytes, an id has at most 255'
	run -64 mailbox-ack -u lou -d phone --from 0 --to 1
	expect_message '-r: missing'
	run -64 mailbox-read -n 4 -r "$R" batch -u lou
	expect_message '-d: missing: batch wants it'
	run -64 mailbox-read -n 4 -r "$R" box -u lou -d phone
	expect_message '-d: not with box'
}
