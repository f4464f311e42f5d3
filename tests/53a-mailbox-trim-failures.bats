# mailbox-trim on a real redis-server: a Redis that is full, refuses or forgets,
# trims that are ended anywhere, and what it refuses itself.
# shellcheck disable=SC2030,SC2031  # each test sets its R
# shellcheck disable=SC2094,SC2154,SC2238  # head is a file; lib sets others
bats_require_minimum_version 1.5.0
load lib/common
load lib/trimmer

@test "a Redis that forgets its scripts while they are called" {
	messages 1 3000 | fill
	local flusher
	while redis_cli a SCRIPT FLUSH >/dev/null; do :; done &
	flusher=$!
	run -0 trim --box-count 10 --bodies 10
	kill "$flusher"
	wait "$flusher" || true
	done_is 1 2990 0 2990 0
	run -0 redis_cli a INFO commandstats
	[[ $output == *cmdstat_evalsha:* ]]
}

@test "calls carry a script's text only where it is unknown" {
	messages 1 3000 | fill
	redis_cli a CONFIG RESETSTAT
	run -0 trim --box-count 10 --bodies 10
	done_is 1 2990 0 2990 0
	run -0 redis_cli a INFO commandstats
	[[ $output == *cmdstat_evalsha:calls=*failed_calls=0* ]]
	[[ $output != *cmdstat_eval:* ]]
}

@test "a full Redis can be trimmed" {
	messages 1 400 | fill
	seen 14 300
	redis_cli a CONFIG SET maxmemory 1
	run -0 redis_cli a SET x y
	[[ $output == OOM* ]]
	# Each alone, so that nothing else is removed first.
	run -0 trim --bodies 20
	done_is 0 0 0 380 0
	run -0 trim --box-count 10 --bodies 20 --retention-days 14
	done_is 1 390 0 0 300
	[ "$(key ZCARD times)" = 2 ]
	[ "$(key ZSCORE floor lou)" = 390 ]
}

@test "a step that is refused half-way has lost nothing: 77" {
	messages 1 30 | fill
	local log box
	log=$(key HGETALL log:c | md5sum)
	box=$(key ZRANGE box:lou 0 -1 WITHSCORES)
	echo secret >password
	chmod 600 password
	redis_cli a ACL SETUSER t on '>secret' '~*' +@all -hset
	run -77 trim --bodies 5 --user t --password-file password
	expect_message 'qim:{3}:log:c: '
	[ "$(key HGETALL log:c | md5sum)" = "$log" ]
	# Not refused already as it writes down the mark.
	seen 0 30
	redis_cli a ACL SETUSER t +hset -zadd
	run -77 trim --box-count 5 --user t --password-file password
	expect_message 'qim:{3}:box:lou: '
	[ "$(key ZRANGE box:lou 0 -1 WITHSCORES)" = "$box" ]
	redis_cli a ACL SETUSER t +zadd -zremrangebyrank
	run -77 trim --box-count 5 --user t --password-file password
	[ "$(key EXISTS floor)" = 0 ]
	redis_cli a ACL SETUSER t +@all
	run -0 trim --box-count 5 --bodies 5 --user t --password-file password
	done_is 1 25 0 25 0
}

@test "TERM: it stops between two steps, tells so, and starts again" {
	messages 1 3000 | fill
	local pid
	kill -STOP "$(redis_pid a)"
	mailbox-trim -n 4 -r "$R" -t dispatch --box-count 10 --bodies 10 \
		>line 3>&- &
	pid=$!
	wait_until 10 has_handlers "$pid"
	kill -TERM "$pid"
	kill -CONT "$(redis_pid a)"
	wait "$pid"
	run -0 jq -c '.complete' line
	[ "$output" = false ]
	run -0 trim --box-count 10 --bodies 10
	done_is 1 2990 0 2990 0
}

# loses_some: the phone has been silent, and a trim has passed its cursor.
loses_some() {
	silent 60
	trim --box-count 20
	[ -n "$(key ZSCORE floor lou)" ]
}

# bats test_tags=slow
@test "trims, repeats and devices at once: no entry twice, none missing unless told" {
	local last=600 stop=$BATS_TEST_TMPDIR/stop from to status applied i
	read_mailbox batch -u lou -d phone
	# Trims that are ended anywhere, and start again. To the process alone:
	# what a sanitizer runs beside it must not be ended before it.
	for ((i = 0; 1; i++)); do
		[ ! -e "$stop" ] || break
		timeout --foreground -s $((i % 2 ? 9 : 15)) 0.1 mailbox-trim -q -n 4 -r "$R" -t dispatch --box-count 20 --bodies 5 || true
	done >trims 2>trims.err &
	local trimmer=$!
	# Appliers, each from the beginning: all before is a late copy.
	for ((i = 150; i <= last; i += 150)); do
		messages 1 "$i" >"lines.$i"
	done
	(
		for ((i = 150; i <= last; i += 150)); do
			fill <"lines.$i"
			redis_cli a DEL 'qim:{3}:mark' >/dev/null
			fill <"lines.$i"
		done
	) &
	local applier=$!
	# A device that reads slowly; now and then it is silent for long, and at
	# least at the beginning it loses some.
	wait_until 60 loses_some
	: >got
	i=0
	while :; do
		i=$((i + 1))
		((i % 5 != 3)) || [ ! -s head ] || silent 60 >/dev/null
		status=0 applied=
		kill -0 "$applier" 2>/dev/null || applied=1
		read_mailbox batch -u lou -d phone -c 20 >batch 2>batch.err || status=$?
		# The mark is taken away for a moment, see the applier.
		if [ "$status" = 65 ] && grep -q 'the mark has caught up' batch.err; then
			continue
		fi
		if [ "$status" = 65 ]; then
			read -r from to < <(sed -n 's/.*--from \([0-9]*\) --to \([0-9]*\) .*/\1 \2/p' batch.err)
			seq -f 'lost %.0f' $((from + 1)) "$to" >>got
			ack --from "$from" --to "$to"
			continue
		fi
		[ "$status" = 0 ] || fail "$(cat batch.err)"
		head -n 1 batch >head
		read -r from to < <(jq -r '"\(.from) \(.to)"' head)
		jq -r 'select(.mailbox_seq) | "got \(.mailbox_seq)"' batch >>got
		[ "$from" = "$to" ] && [ -n "$applied" ] && break
		ack --from "$from" --to "$to"
	done
	touch "$stop"
	wait "$applier" "$trimmer"
	[ "$(key EXISTS quarantine)" = 0 ]
	cut -d ' ' -f 2 got | cmp - <(seq 1 "$last")
	grep -q lost got
	run -0 trim --box-count 20 --bodies 5
	[ "$(key ZCARD box:lou)" = 20 ]
	[ "$(key HLEN log:c)" = "$last" ]
}

# bats test_tags=slow
@test "error replies: 65 with the key" {
	messages 1 10 | fill
	key HSET device:lou phone x
	run -65 trim --box-count 5
	expect_message 'qim:{3}:box:lou: ERR a device without a cursor: qim:{3}:device:lou'
	[[ $output == *'"complete":false}'* ]]
	key HSET device:lou phone '9 5 1'
	run -65 trim --box-count 5
	expect_message 'ERR a device without a cursor: qim:{3}:device:lou'
	key DEL device:lou
	local floor
	for floor in inf -inf 1.5 -1 9007199254740992; do
		key ZADD floor "$floor" lou
		run -65 trim --box-count 5
		expect_message 'qim:{3}:box:lou: ERR not a floor: qim:{3}:floor'
	done
	key DEL floor
	[ "$(key ZCARD box:lou)" = 10 ]
	key HSET log:c 1 x
	run -65 trim --bodies 5
	expect_message 'qim:{3}:log:c: ERR not a claim: 1'
	key HDEL log:c 1
	key HSET log:c x 1
	run -65 trim --bodies 5
	expect_message 'qim:{3}:log:c: not a conversation_seq'
	key SET floor x
	run -65 trim --box-count 5
	expect_message 'qim:{3}:box:lou: WRONGTYPE'
	key DEL floor
	key DEL box:lou
	key SET box:lou x
	run -65 trim --box-count 5
	expect_message 'qim:{3}:box:lou: WRONGTYPE'
	redis_cli a SET 'qim:{1}:times' x
	redis_cli a ZADD 'qim:{1}:mark' 2 'dispatch partitions=4 nodes=1 place=0'
	run -65 trim --box-count 5
	expect_message 'qim:{1}:times: WRONGTYPE'
}

# bats test_tags=slow
@test "marks of another chain: 78, before anything is removed" {
	messages 1 10 | fill
	run -78 mailbox-trim -n 4 -r "$R" -t other --box-count 1
	expect_message "qim:{3}:mark: it is of 'dispatch partitions=4 nodes=1 place=0', wants 'other partitions=4 nodes=1 place=0'"
	run -78 trim -n 8 --box-count 1
	[ "$(key ZCARD box:lou)" = 10 ]
}

# bats test_tags=slow
@test "no Redis: 69, a password: 77, the ACL user of the manual" {
	local words
	run -69 trim --box-count 1 -r "127.0.0.1:$(free_port)" --connect-ms 200
	run -69 trim --check --box-count 1 -r "127.0.0.1:$(free_port)" --connect-ms 200
	run -0 trim --check --box-count 1
	messages 1 30 | fill
	read_mailbox batch -u lou -d phone >/dev/null
	ack --from 0 --to 30
	seen 14 5
	read -r -d '' -a words < <(sed -n '/^ACL SETUSER trim/,/^\.Ed/p' \
		"$qim_root/man/qim-mailbox.5" | grep -v '^\.Ed') || true
	[ "${#words[@]}" -gt 5 ]
	redis_cli a "${words[@]}"
	echo secret >password
	chmod 600 password
	run -0 trim --box-count 3 --box-days 3 --bodies 3 --retention-days 14 --user trim --password-file password
	done_is 1 27 0 22 5
	redis_cli a ACL SETUSER trim -scan
	run -77 trim --box-count 1 --user trim --password-file password
	expect_message NOPERM
	run -66 trim --box-count 1 --user trim --password-file none
	chmod 644 password
	run -78 trim --box-count 1 --user trim --password-file password
}

@test "the reader of the summary gone: 75" {
	messages 1 3 | fill
	run -75 to_nobody trim --box-count 1
}

@test "options: 64" {
	run -64 mailbox-trim
	expect_message '-r: missing'
	run -64 mailbox-trim -r "$R"
	expect_message '-t: missing'
	run -64 mailbox-trim -r "$R" -t 'a b' --box-count 1
	expect_message "-t: 'a b'"
	run -64 trim
	expect_message 'nothing to do: wants --box-count, --box-days or --bodies'
	run -64 trim --retention-days 8
	expect_message '--retention-days: wants --bodies too: a claim goes only after its body'
	run -64 trim --bodies 5 --retention-days 1
	expect_message "--retention-days: '1': wants a number from 2 to 365 days"
	run -64 trim --box-count 0
	expect_message "--box-count: '0': wants a number from 1 to 100000000 entries"
	run -64 trim --box-days 366
	expect_message "--box-days: '366': wants a number from 1 to 365 days"
	run -64 trim --bodies 0
	expect_message "--bodies: '0': wants a number from 1 to 1000000 messages"
	run -64 trim --box-count 1 --device-days 0
	expect_message "--device-days: '0': wants a number from 1 to 365 days"
}
