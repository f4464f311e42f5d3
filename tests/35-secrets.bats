#!/usr/bin/env bats
# Programs that have read a secret: nobody but root can look into them, and they
# leave no core file.

bats_require_minimum_version 1.5.0
load lib/common

# shellcheck disable=SC2154  # bats' own variables

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	echo secret >password
	printf 'security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n' >properties
	chmod 600 password properties
	# To root's processes all is root's.
	as=()
	if ((EUID == 0)); then
		as=(setpriv --reuid 54321 --clear-groups)
		chown 54321 password properties
		chmod a+rx "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" \
			"$BATS_SUITE_TMPDIR" "$BATS_FILE_TMPDIR"
	fi
	pid=
	mkfifo input
	exec 9<>input
}

teardown() {
	[[ -z $pid ]] || kill -KILL "$pid" 2>/dev/null || true
}

# owner PROGRAM UID: it runs, and whose its environment is.
owner() {
	[ "$(cat "/proc/$pid/comm")" = "${1:0:15}" ] &&
		[ "$(stat -c %u "/proc/$pid/environ")" = "$2" ]
}

# hides UID PROGRAM ARG...: nobody listens at port 1: it tries until it is
# killed.
hides() {
	"${as[@]}" "${@:2}" --connect-ms 60000 <input >out 2>err 3>&- 9>&- &
	pid=$!
	wait_until 10 owner "$2" "$1" || fail "$2: $(cat err)"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	pid=
}

@test "a password of Redis: each program that reads it isn't dumpable" {
	redis=(-r 127.0.0.1:1 --password-file password)
	hides 0 mailbox-apply "${redis[@]}"
	hides 0 mailbox-read "${redis[@]}" positions -t t
	hides 0 mailbox-ack "${redis[@]}" -u lou --read --conversation c --seq 2
	hides 0 mailbox-trim "${redis[@]}" -t t --bodies 1
	hides 0 mailbox-audit "${redis[@]}" -b 127.0.0.1:1 -t t
}

@test "a secret of Kafka: each program that reads it isn't dumpable" {
	kafka=(-b 127.0.0.1:1 -F properties)
	hides 0 outbox-read "${kafka[@]}" -t t -g g
	hides 0 outbox-write "${kafka[@]}" -t t
	hides 0 dispatch-produce "${kafka[@]}" -t t
	hides 0 offset-commit "${kafka[@]}" -g g
	hides 0 log-audit "${kafka[@]}" -t t
}

@test "without a secret a program is its user's" {
	uid=$EUID
	((EUID != 0)) || uid=54321
	hides "$uid" mailbox-read -r 127.0.0.1:1 positions -t t
	hides "$uid" outbox-read -b 127.0.0.1:1 -t t -g g
}
