#!/usr/bin/env bats
# mailbox-audit on the mock broker and Redis: both chains have run once; each
# test spoils something else. What Kafka has deleted, and large mailboxes, are
# in kafka/80-mailboxes.bats.

# shellcheck disable=SC2154  # run sets stderr
bats_require_minimum_version 1.5.0
load lib/common
load lib/redis

# Users of partitions 3, 1 and 2 of 4: lou, pat, ann.
messages() {
	cat <<-'END'
		{"message_id":"1","conversation_id":"c","conversation_seq":1,"sender":"ann","created_at":1001,"payload":"p","recipients":["ann","lou","pat"]}
		{"message_id":"2","conversation_id":"c","conversation_seq":2,"sender":"lou","created_at":1002,"payload":"p","recipients":["lou","pat"]}
		{"message_id":"3","conversation_id":"c","conversation_seq":3,"sender":"ann","created_at":1003,"payload":"p","recipients":["lou","pat"]}
		{"message_id":"4","conversation_id":"d","conversation_seq":1,"sender":"lou","created_at":1004,"payload":"p","recipients":["lou"]}
	END
	# The same number again with another text, for one of the two.
	echo '{"message_id":"5","conversation_id":"c","conversation_seq":2,"sender":"lou","created_at":1002,"payload":"q","recipients":["lou"]}'
}

fan_out() {
	outbox-read -q -b "$MOCK_BROKERS" -t outbox -g fan --first beginning -e |
		fanout-plan -q -n 4 --dead-letter dead |
		dispatch-produce -q -b "$MOCK_BROKERS" -t dispatch |
		offset-commit -q -b "$MOCK_BROKERS" -g fan
}

apply() {
	outbox-read -q -b "$MOCK_BROKERS" -t dispatch -g box --first beginning -e |
		mailbox-apply -q -n 4 -r "$R" |
		offset-commit -q -b "$MOCK_BROKERS" -g box
}

setup_file() {
	start_mock -t outbox:1 -t dispatch:4 -t dead:1 -t later:1 -t other:4 \
		--topic-error gone=UNKNOWN_TOPIC_OR_PART \
		--topic-error secret=TOPIC_AUTHORIZATION_FAILED
	redis_start a
	R=127.0.0.1:$(redis_port a)
	export R
	messages | outbox-write -q -b "$MOCK_BROKERS" -t outbox
	echo '{"message_id":"6"}' | kcat -P -b "$MOCK_BROKERS" -t outbox
	fan_out
	# Not a dispatch: quarantined.
	echo x | kcat -P -b "$MOCK_BROKERS" -t dispatch -p 2
	apply
	redis_cli a SAVE
}

teardown_file() {
	stop_mock
}

# As the chains had left it.
setup() {
	redis_cli a DEBUG RELOAD NOSAVE
}

audit() {
	timeout -k 5 60 mailbox-audit -b "$MOCK_BROKERS" -t dispatch -r "$R" \
		--connect-ms 20000 "$@"
}

audit_all() {
	audit --outbox outbox -g fan --dead-letter dead "$@"
}

# finds LINE...: what is spoilt is found, each once, and nothing else.
finds() {
	run -1 --separate-stderr audit_all
	# shellcheck disable=SC2154
	diff <(printf '%s\n' "${lines[@]::${#lines[@]}-1}" | sort) \
		<(printf '%s\n' "$@" | sort)
	[[ $stderr == 'mailbox-audit: error: '*': none expected' ]]
}

# refuses STATUS MESSAGE option...
refuses() {
	local status=$1 message=$2
	shift 2
	run "-$status" --separate-stderr audit "$@"
	[ "${#stderr_lines[@]}" = 1 ] || fail "$stderr"
	expect_message "mailbox-audit: error: $message"
}

# count NAME: of the last line.
count() {
	grep '^{"messages"' <<<"$output" | jq ".$1"
}

box() {
	redis_cli a "$1" 'qim:{3}:box:lou' "${@:2}"
}

# member SEQ [own]: of conversation c.
member() {
	# shellcheck disable=SC2059
	printf "\\x$((${2:+1} + 92))\\xa1c\\x0$1${2:+\\xc3}"
}

@test "usage: 64 names the option, the value and what is allowed" {
	run -64 --separate-stderr mailbox-audit -t dispatch -r "$R"
	expect_message 'mailbox-audit: error: -b: missing'
	run -64 --separate-stderr mailbox-audit -b "$MOCK_BROKERS" -r "$R"
	expect_message 'mailbox-audit: error: -t: missing'
	run -64 --separate-stderr mailbox-audit -b "$MOCK_BROKERS" -t dispatch
	expect_message 'mailbox-audit: error: -r: missing'
	refuses 64 "-t: 'a/b': wants a topic's name" -t a/b
	refuses 64 "--outbox: 'a/b': wants a topic's name" --outbox a/b
	refuses 64 "--dead-letter: 'a/b': wants" --dead-letter a/b
	refuses 64 '-g: wants --outbox too' -g fan
	refuses 64 '--dead-letter: wants --outbox too' --dead-letter dead
	refuses 64 "-p: '0,x': wants numbers from 0 to" -p 0,x
	refuses 64 "-r: " -r nowhere
	refuses 64 '--prefix: ' --prefix '{'
	refuses 64 "--list: 'x': wants a number from 0 to" --list x
	refuses 64 "--max-recipients: '0': wants a number from 1 to 100000" \
		--max-recipients 0
	refuses 64 "--max-bytes: '1': wants a number from 1000 to" --max-bytes 1
}

@test "nothing is found where nothing is wrong; all is counted" {
	run -0 --separate-stderr audit_all --drained
	[ -z "$stderr" ]
	[ "$output" = '{"messages":5,"dead":1,"pending":0,"dispatches":10,"repeats":0,"conflicts":1,"undecodable":1,"unapplied":0,"entries":8,"claims":8,"above":0,"trimmed":0,"unchecked":0,"missing":0,"extra":0,"twice":0,"digest":0,"seq":0,"own":0,"order":0,"conflict":0,"undispatched":0,"lost":0}' ]
}

@test "without the Outbox: the topic against the mailboxes" {
	run -0 audit --drained
	[ "$(count messages) $(count entries)" = '0 8' ]
	box ZREMRANGEBYSCORE 1 1
	run -1 audit
	[ "$(count missing)" = 1 ]
}

@test "missing: an entry, a claim" {
	box ZREMRANGEBYSCORE 3 3
	redis_cli a HDEL 'qim:{1}:log:c' 2
	finds '{"found":"missing","partition":3,"offset":2,"user":"lou","conversation_id":"c","conversation_seq":3,"why":"no entry in the box"}' \
		'{"found":"missing","partition":1,"offset":1,"conversation_id":"c","conversation_seq":2,"why":"no claim of the dispatch"}'
	[ "$stderr" = 'mailbox-audit: error: 2 missing: none expected' ]
}

@test "extra: entries, claims, and what isn't in a form of ours" {
	box ZADD 4 "$(member 9)"
	box ZADD 4 nonsense
	redis_cli a ZADD 'qim:{3}:box:eve' 1 "$(member 1)"
	redis_cli a HSET 'qim:{1}:log:c' 1/2 "$(printf '\x92\x01\xc4\x10%s' 0123456789abcdef)" 01 x
	finds '{"found":"extra","partition":3,"offset":3,"user":"lou","conversation_id":"c","conversation_seq":9,"why":"no dispatch in the topic has it"}' \
		'{"found":"extra","partition":3,"user":"lou","why":"a member of the box that is no reference"}' \
		'{"found":"extra","partition":3,"user":"eve","why":"a key in another partition than the user'"'"'s"}' \
		'{"found":"extra","partition":1,"offset":1,"conversation_id":"c","conversation_seq":1,"why":"a claim of no dispatch in the topic"}' \
		'{"found":"extra","partition":1,"conversation_id":"c","why":"a field of the log that is no claim"}'
}

memory() {
	redis_cli a INFO memory | tr -d '\r' | sed -n "s/^$1://p"
}

@test "large bodies are asked for a few at a time" {
	local before
	redis_cli a EVAL "local body = string.rep('x', 200000)
		for c = 1, 16 do for n = 1, 15 do
			redis.call('hset', 'qim:{1}:log:large' .. c, n, body)
		end end" 0
	before=$(memory used_memory_peak)
	run -1 --separate-stderr audit_all
	[ "$(count extra)" = 240 ]
	# All of them are 48 MB.
	(($(memory used_memory_peak) - before < 20000000)) ||
		fail "$before $(memory used_memory_peak)"
}

@test "twice: as own and as another's" {
	box ZADD 4 "$(member 3 own)"
	finds '{"found":"twice","partition":3,"user":"lou","conversation_id":"c","conversation_seq":3,"why":"as own and as another'"'"'s"}'
}

@test "own: the sender's mark is wrong" {
	box ZREMRANGEBYSCORE 2 3
	box ZADD 2 "$(member 2)" 3 "$(member 3 own)"
	finds '{"found":"own","partition":3,"offset":1,"user":"lou","conversation_id":"c","conversation_seq":2,"why":"the sender'"'"'s own isn'"'"'t marked"}' \
		'{"found":"own","partition":3,"offset":2,"user":"lou","conversation_id":"c","conversation_seq":3,"why":"marked as the sender'"'"'s own"}'
}

@test "digest: a claim's body, a claim" {
	redis_cli a EVAL "local function change(field, at, byte)
			local claim = redis.call('HGET', KEYS[1], field)
			redis.call('HSET', KEYS[1], field,
				claim:sub(1, at - 1) .. byte .. claim:sub(at + 1))
		end
		change('1', 22, 'z')
		change('3', 6, 'z')" 1 'qim:{3}:log:c'
	run -1 audit --list 9
	diff - <(printf '%s\n' "${lines[@]::3}" | sort) <<-'END'
		{"found":"digest","partition":3,"offset":0,"conversation_id":"c","conversation_seq":1,"why":"the claim's body isn't what its digest is of"}
		{"found":"digest","partition":3,"offset":2,"conversation_id":"c","conversation_seq":3,"why":"the claim has another digest than its copy"}
		{"found":"digest","partition":3,"offset":2,"conversation_id":"c","conversation_seq":3,"why":"the claim's body isn't what its digest is of"}
	END
	[ "$(count digest)" = 3 ]
}

@test "digest: what the Outbox says now isn't what was dispatched" {
	messages | sed 's/"message_id":"3"/"message_id":"z"/' |
		outbox-write -q -b "$MOCK_BROKERS" -t later
	run -1 audit --outbox later
	[ "$(count digest)" = 2 ]
	[[ $output == *'"conversation_seq":3,"why":"the plan has another digest"'* ]]
	# What it doesn't plan like this nobody has.
	[ "$(count extra)" = 4 ]
}

@test "seq: an entry, a claim" {
	box ZADD 3 "$(member 1)"
	redis_cli a EVAL "local claim = redis.call('HGET', KEYS[1], '3')
		redis.call('HSET', KEYS[1], '3', claim:sub(1, 1) .. '\1' .. claim:sub(3))" \
		1 'qim:{1}:log:c'
	run -1 audit_all
	[ "$(count seq)" = 3 ]
	[[ $output == *'{"found":"seq","partition":3,"offset":0,"user":"lou","conversation_id":"c","conversation_seq":1,"why":"the entry has another mailbox_seq than its claim"}'* ]]
	[[ $output == *'{"found":"seq","partition":1,"offset":2,"conversation_id":"c","conversation_seq":3,"why":"the claim has another offset than the first copy"}'* ]]
	[[ $output == *'"user":"pat"'* ]]
}

@test "order: conv and top behind and ahead, read ahead" {
	redis_cli a ZADD 'qim:{3}:conv:lou' 1002 c 2000 d
	redis_cli a ZADD 'qim:{1}:top' 2 c
	redis_cli a ZADD 'qim:{3}:top' 7 d
	redis_cli a ZADD 'qim:{1}:read:pat' 3 c
	redis_cli a ZADD 'qim:{2}:read:ann' 2 c
	finds '{"found":"order","partition":3,"user":"lou","conversation_id":"c","why":"conv is behind the newest message"}' \
		'{"found":"order","partition":3,"user":"lou","conversation_id":"d","why":"conv is ahead of the newest message"}' \
		'{"found":"order","partition":1,"conversation_id":"c","conversation_seq":2,"why":"top is behind the newest message"}' \
		'{"found":"order","partition":3,"conversation_id":"d","conversation_seq":7,"why":"top is ahead of the newest message"}' \
		'{"found":"order","partition":2,"conversation_id":"c","conversation_seq":2,"why":"read is ahead of top"}'
}

@test "conflict: what isn't in quarantine; not where it was full" {
	redis_cli a DEL 'qim:{3}:quarantine' 'qim:{2}:quarantine'
	finds '{"found":"conflict","partition":3,"offset":4,"conversation_id":"c","conversation_seq":2,"why":"a copy with another digest isn'"'"'t in quarantine"}' \
		'{"found":"conflict","partition":2,"offset":1,"why":"what can'"'"'t be decoded isn'"'"'t in quarantine"}' \
		'{"found":"digest","partition":3,"offset":1,"conversation_id":"c","conversation_seq":2,"why":"the plan has another digest"}'
	redis_cli a HSET 'qim:{3}:quarantine' dropped 1
	redis_cli a HSET 'qim:{2}:quarantine' dropped 1
	run -0 audit_all
	[ "$(count unchecked)" = 3 ]
}

@test "lost: what can't be planned has a dead letter" {
	run -1 audit --outbox outbox -g fan
	[ "${lines[0]}" = '{"found":"lost","outbox_partition":0,"outbox_offset":5,"why":"no field '"'conversation_id'"'"}' ] ||
		fail "$output"
	[ "$(count lost) $(count dead)" = '1 0' ]
}

@test "undispatched: due up to what the group has committed, or to the end" {
	run -78 --separate-stderr audit --outbox outbox -g nobody
	expect_message 'mailbox-audit: error: -g nobody: has committed nothing of outbox'
	messages | sed -n '4s/"conversation_seq":1/"conversation_seq":2/p' |
		outbox-write -q -b "$MOCK_BROKERS" -t outbox
	run -0 audit_all
	[ "$(count pending) $(count messages)" = '1 6' ]
	run -1 --separate-stderr audit_all --drained
	[ "$stderr" = 'mailbox-audit: error: 1 pending: none expected' ]
	run -1 --separate-stderr audit --outbox outbox --dead-letter dead
	[ "${lines[0]}" = '{"found":"undispatched","partition":3,"conversation_id":"d","conversation_seq":2,"why":"planned, and not in the topic"}' ]
	# Then it is dispatched, and not applied; then that too.
	fan_out
	run -0 audit_all
	[ "$(count pending) $(count unapplied)" = '0 1' ]
	run -1 --separate-stderr audit_all --drained
	[ "$stderr" = 'mailbox-audit: error: 1 unapplied: none expected' ]
	apply
	run -0 audit_all --drained
	redis_cli a SAVE
}

@test "entries above the mark are no finding, unless it is drained" {
	box ZADD 100 "$(member 9)"
	run -0 audit_all
	[ "$(count above)" = 1 ]
	run -1 --separate-stderr audit_all --drained
	[ "$stderr" = 'mailbox-audit: error: 1 above: none expected' ]
}

@test "the same dispatches again: repeats, and nothing else" {
	outbox-read -q -b "$MOCK_BROKERS" -t outbox -o beginning -e |
		fanout-plan -q -n 4 --dead-letter other |
		dispatch-produce -q -b "$MOCK_BROKERS" -t dispatch >"$BATS_TEST_TMPDIR/receipts"
	run -0 audit_all
	[ "$(count unapplied)" -ge 10 ]
	apply
	run -0 audit_all --drained
	[ "$(count repeats) $(count conflicts)" = '9 2' ]
	redis_cli a SAVE
}

@test "what mailbox-trim has removed is counted, not missing" {
	mailbox-trim -q -n 4 -r "$R" -t dispatch --box-count 1
	run -0 audit_all --drained
	[ "$(count trimmed)" = 6 ]
	[ "$(count missing)" = 0 ]
}

@test "-p: these partitions alone" {
	box ZREMRANGEBYSCORE 1 1
	run -0 audit_all -p 0-2
	[ "$(count entries)" = 4 ]
	run -1 audit_all -p 3
	[ "$(count entries) $(count missing)" = '4 1' ]
	refuses 78 '-p 9: topic dispatch has 4 partitions, from 0 on' -p 9
}

@test "--list bounds each kind alone" {
	redis_cli a DEL 'qim:{3}:box:lou' 'qim:{3}:conv:lou'
	run -1 audit_all --list 1
	[ "${#lines[@]}" -ge 3 ]
	[ "$(grep -c '"found":"missing"' <<<"$output")" = 1 ]
	run -1 audit_all --list 0
	[ "$(grep -c '"found"' <<<"$output")" = 0 ]
	[ "$(count missing)" -ge 4 ]
}

# bats test_tags=slow
@test "65, 69, 77, 78: of Kafka and of Redis" {
	refuses 69 'topic gone: not within 300 ms' -t gone --connect-ms 300
	refuses 69 'topic gone: not within 300 ms' --outbox gone --connect-ms 300
	refuses 77 'topic secret: Broker: Topic authorization failed' -t secret
	refuses 78 "-X auto.offset.reset: 'latest': refused" \
		-X auto.offset.reset=latest
	refuses 66 "$BATS_TEST_TMPDIR/none: No such file" \
		-F "$BATS_TEST_TMPDIR/none"
	refuses 69 'redis 127.0.0.1:1: ' -r 127.0.0.1:1 --connect-ms 300
	refuses 78 "qim:{1}:mark: it is of 'dispatch partitions=4 nodes=1 place=0'" \
		-t other
	redis_cli a ZADD 'qim:{3}:mark' 1000 'dispatch partitions=4 nodes=1 place=0'
	refuses 65 'dispatch[3]: the log ends at '
	redis_cli a DEBUG RELOAD NOSAVE
	redis_cli a SET 'qim:{1}:box:pat' x
	refuses 65 "redis $R: qim:{1}:box:pat: WRONGTYPE"
	redis_cli a ACL SETUSER weak on '>word' '~*' +ping +zrange
	(umask 077 && echo word >"$BATS_TEST_TMPDIR/password")
	refuses 77 "redis $R: " --user weak --password-file "$BATS_TEST_TMPDIR/password"
}

@test "the ACL of the manual suffices" {
	local rules
	rules=$(man -l "$qim_root/man/mailbox-audit.1" | col -b | grep -A2 'ACL SETUSER audit' |
		tr -s ' \n' ' ' | sed 's/.*ACL SETUSER audit//')
	[[ $rules == *+scan* ]] || fail "$rules"
	set -f
	# shellcheck disable=SC2086
	redis_cli a ACL SETUSER audit $rules
	(umask 077 && echo secret >"$BATS_TEST_TMPDIR/password")
	run -0 audit_all --user audit --password-file "$BATS_TEST_TMPDIR/password"
}

@test "--check asks Kafka and Redis, and reads nothing" {
	run -0 audit_all --check
	[ -z "$output" ]
	refuses 69 'redis 127.0.0.1:1: ' -r 127.0.0.1:1 --check --connect-ms 300
}

@test "a full disk: 74; a reader that is gone: 75" {
	# shellcheck disable=SC2016
	run -74 bash -c 'mailbox-audit -b "$1" -t dispatch -r "$2" >/dev/full' - \
		"$MOCK_BROKERS" "$R"
	expect_message 'mailbox-audit: error: write to fd 1: No space left on device'
	run -75 to_nobody mailbox-audit -b "$MOCK_BROKERS" -t dispatch -r "$R"
	expect_message 'mailbox-audit: error: '
}

@test "a signal before the end: 75" {
	local pid status=0
	start_mock -t half:1 --error fetch=NOT_LEADER_FOR_PARTITION:100000
	echo x | kcat -P -b "$MOCK_BROKERS" -t half
	mailbox-audit -v -b "$MOCK_BROKERS" -t half -r "$R" --prefix none \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	wait_until 10 grep -q 'the log holds 0 to 1' "$BATS_TEST_TMPDIR/err"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -qx 'mailbox-audit: error: stopped by a signal' \
		"$BATS_TEST_TMPDIR/err"
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
}

# bats test_tags=slow
@test "a mark that goes back meanwhile: 75" {
	local pid status=0
	start_mock -t dispatch:4 --error fetch=NOT_LEADER_FOR_PARTITION:30
	seq 9 | kcat -P -b "$MOCK_BROKERS" -t dispatch -p 1
	redis_cli a ZADD 'qim:{3}:mark' 0 'dispatch partitions=4 nodes=1 place=0'
	redis_cli a ZADD 'qim:{2}:mark' 0 'dispatch partitions=4 nodes=1 place=0'
	audit -v >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	pid=$!
	# It is held up there for seconds.
	wait_until 10 grep -q 'dispatch.1.: .*the log holds 0 to 9' \
		"$BATS_TEST_TMPDIR/err"
	redis_cli a ZADD 'qim:{1}:mark' 2 'dispatch partitions=4 nodes=1 place=0'
	wait "$pid" || status=$?
	[ "$status" = 75 ]
	grep -qE 'error: qim:\{1}:mark: went from [0-9]+ back to 2 meanwhile: its node lost data$' \
		"$BATS_TEST_TMPDIR/err"
}
