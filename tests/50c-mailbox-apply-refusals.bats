# mailbox-apply: the streams, options, servers and keys that it refuses.
# shellcheck disable=SC2030,SC2031  # each test sets its R
# shellcheck disable=SC2154  # stderr is set by run
bats_require_minimum_version 1.5.0
load lib/common
load lib/applier

setup() {
	cd "$BATS_TEST_TMPDIR" || exit
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
