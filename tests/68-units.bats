#!/usr/bin/env bats
# systemd's units and the runit folder: what systemd says of them, what a chain
# does within them.

bats_require_minimum_version 1.5.0
load lib/common
load lib/redis

# shellcheck disable=SC2154  # bats' own variables

setup_file() {
	# The programs where the units look for them.
	make -s -C "$qim_root" B="${QIM_BIN%/bin}" PREFIX="$BATS_FILE_TMPDIR" \
		UNITDIR="$BATS_FILE_TMPDIR/units" install
	export units=$BATS_FILE_TMPDIR/units
}

teardown_file() {
	stop_mock
}

@test "systemd has nothing to say against the units" {
	cd "$units"
	[ "$(ls | xargs)" = 'qim-fanout.service qim-fanout@.service qim-mailbox.service qim-mailbox@.service' ]
	for unit in qim-fanout qim-mailbox qim-fanout@0-15 qim-mailbox@7; do
		run -0 systemd-analyze verify --man=no "./$unit.service"
		[ -z "$output" ] || fail "$output"
	done
	# It would say so.
	sed 's/^Restart=.*/Restart=never/; s/^ProtectClock/ProtectClok/' \
		qim-fanout.service >bad.service
	run systemd-analyze verify --man=no ./bad.service
	[[ $output == *'ignoring: never'* && $output == *"'ProtectClok'"* ]]
	rm bad.service
}

@test "systemd's score of each unit is 1.5 or better" {
	cd "$units"
	for unit in *.service; do
		run -0 systemd-analyze security --offline=true --no-pager \
			--threshold=15 "./$unit"
	done
	sed '/^ProtectSystem/d' qim-fanout.service >bad.service
	run -1 systemd-analyze security --offline=true --threshold=15 ./bad.service
	rm bad.service
}

@test "the two chains' units differ in names alone, all restart by exit class" {
	cd "$units"
	for more in '' @; do
		diff <(sed 1,5d "qim-fanout$more.service") \
			<(sed '1,5d; s/mailbox/fanout/g' "qim-mailbox$more.service")
	done
	[ "$(sed 's/ -p %i//; s/ of partitions %i//' qim-fanout@.service)" = "$(cat qim-fanout.service)" ]
	for unit in *.service; do
		grep -qx 'Restart=on-failure' "$unit"
		# Those of qim(7) after which a person must act.
		[ "$(sed -n 's/^RestartPreventExitStatus=//p' "$unit")" = '64 65 66 70 76 77 78' ]
	done
}

@test "the user that the units name can be made" {
	mkdir -p "$BATS_TEST_TMPDIR/etc"
	systemd-sysusers --root="$BATS_TEST_TMPDIR" \
		"$BATS_FILE_TMPDIR/lib/sysusers.d/qim.conf"
	user=$(sed -n 's/^User=//p' "$units/qim-fanout.service")
	grep "^$user:" "$BATS_TEST_TMPDIR/etc/passwd" | grep -q ':/usr/sbin/nologin$'
}

# A socket as systemd's, what comes to it in the file `notified`; sets
# `listener`.
listen() {
	python3 -c '
import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("notify")
while True:
    print(s.recv(4096).decode(), file=open("notified", "a"))' 3>&- &
	listener=$!
	wait_until 10 test -S notify
}

# run_unit NAME [INSTANCE]: the command of a unit, with folders of this test's
# own, under strace; TERM once it is ready; then its trace against the unit.
run_unit() {
	local line unit=$units/$1.service tracer
	line=$(sed -n 's/^ExecStart=//p' "$unit")
	line=${line//\/etc\/qim/$PWD}
	line=${line//%d/$PWD/credentials}
	line=${line//%t/$PWD}
	line=${line//%i/${2-}}
	line=${line//\$QIM_OPTIONS/}
	[[ $line != *[%\$]* ]] || fail "$line"
	rm -f notified
	# shellcheck disable=SC2086  # words, as systemd makes them
	NOTIFY_SOCKET=$PWD/notify strace -f -qq -o trace $line </dev/null \
		>out 2>err 3>&- &
	tracer=$!
	wait_until 120 grep -q '^READY=1' notified || fail "$(cat err)"
	# The supervisor is strace's child.
	kill -TERM "$(pgrep -P "$tracer")"
	wait "$tracer"
	wait_until 10 grep -q '^STOPPING=1' notified
	forbidden "$unit" || fail "$output"
}

# Nothing in the trace is forbidden by UNIT.
forbidden() {
	run -0 --separate-stderr /usr/bin/python3 \
		"$qim_root/tests/lib/unit-calls.py" "$1" trace
	[ -z "$output" ]
}

# bats test_tags=slow
@test "a unit's command gets ready, drains, and calls what the unit allows" {
	cd "$BATS_TEST_TMPDIR"
	need_redis
	start_mock -t outbox:4 -t dispatch:4
	/usr/bin/python3 "$qim_root/tests/lib/messages.py" 50 |
		outbox-write -b "$MOCK_BROKERS" -t outbox
	install -d -m 700 credentials qim
	sed -n 's/^SetCredential=kafka.properties://p' \
		"$units/qim-fanout.service" >credentials/kafka.properties
	chmod 400 credentials/kafka.properties
	cat >qim.conf <<-EOF
		brokers=$MOCK_BROKERS
		outbox=outbox
		dispatch=dispatch
		dispatch-partitions=4
		fanout.group=$(unique fanout)
		fanout.first=beginning
		fanout.tap=outbox-read=$PWD/tap
		mailbox.group=$(unique mailbox)
		redis=unix:$REDIS_SOCKET
		redis.prefix=$(unique units)
	EOF
	listen
	run_unit qim-fanout
	run_unit qim-fanout@ 0-1
	run_unit qim-mailbox@ 2-3
	kill "$listener"
	# A trace of what isn't allowed would be told.
	echo '1 reboot(1)' >>trace
	echo '1 socket(AF_PACKET, SOCK_RAW)' >>trace
	echo '1 mprotect(0x1, 4096, PROT_READ|PROT_EXEC)' >>trace

	run -0 --separate-stderr /usr/bin/python3 "$qim_root/tests/lib/unit-calls.py" \
		"$units/qim-mailbox.service" trace
	[ "$output" = $'call reboot\nfamily AF_PACKET\nmemory mprotect' ]
}

# as_user COMMAND...: as a user who isn't root, whoever runs the tests.
as_user() {
	unshare --user --map-user=1000 --map-group=1000 "$@"
}

# A service folder whose chain is a fake: it notes its arguments and its TERM,
# and ends with what the file `code` says once that is there.
runit_folder() {
	folder=$BATS_TEST_TMPDIR/$1
	cp -r "$qim_root/pipelines/runit" "$folder"
	mkdir "$BATS_TEST_TMPDIR/fake"
	cat >"$BATS_TEST_TMPDIR/fake/${1%@*}" <<-EOF
		#!/bin/bash
		cd "$BATS_TEST_TMPDIR" || exit
		trap 'echo TERM >>notes; exit 0' TERM
		echo "\$*" >>notes
		echo "${1%@*}: notice: begins" >&2
		until [[ -s code ]]; do sleep 0.05; done
		read -r code <code && rm code && exit "\$code"
	EOF
	chmod +x "$BATS_TEST_TMPDIR/fake/${1%@*}"
	export PATH=$BATS_TEST_TMPDIR/fake:$PATH
	cd "$BATS_TEST_TMPDIR" || return
}

sv_says() {
	sv status "$folder" | grep -q "^$1: "
}

noted() {
	[[ $(wc -l <notes) == "$1" ]]
}

# bats test_tags=slow
@test "runit: started again by exit class, down for a person, drained by TERM" {
	runit_folder qim-fanout@0-15
	as_user runsv "$folder" 3>&- &
	wait_until 20 noted 1
	[ "$(cat notes)" = '-f /etc/qim/qim.conf -p 0-15' ]
	echo 75 >code
	wait_until 20 noted 2
	echo 77 >code
	wait_until 20 sv_says down
	sleep 1.5
	noted 2
	wait_until 20 grep -q 'qim-fanout@0-15: exit 77: stays down' "$folder/log/main/current"
	grep -q 'qim-fanout: notice: begins' "$folder/log/main/current"
	sv up "$folder"
	wait_until 20 noted 3
	sv down "$folder"
	wait_until 20 noted 4
	[ "$(tail -n 1 notes)" = TERM ]
	sv exit "$folder"
	wait "$!"
}

@test "runit: each code that wants a person, and no other, stays down" {
	runit_folder qim-mailbox
	cat >fake/sv <<-'EOF'
		#!/bin/bash
		echo "$*"
	EOF
	chmod +x fake/sv
	cd "$folder"
	for code in 64 65 66 70 76 77 78; do
		run -0 ./finish "$code" 0
		[ "${lines[1]}" = "down $folder" ]
	done
	for code in 0 -1 69 71 74 75 1; do
		run -0 ./finish "$code" 0
		[ -z "$output" ]
	done
}

@test "runit: root takes the user qim and the folder that all chains share" {
	runit_folder qim-mailbox
	for name in install chpst; do
		printf '#!/bin/bash\necho %s "$@"\n' "$name" >"fake/$name"
		chmod +x "fake/$name"
	done
	cd "$folder"
	run -0 unshare -r ./run
	[ "${lines[0]}" = 'install -d -o qim -g qim -m 700 /run/qim' ]
	[ "${lines[1]}" = 'chpst -u qim:qim qim-mailbox -f /etc/qim/qim.conf --lock-dir /run/qim' ]
	cd log
	run -0 unshare -r ./run
	[ "${lines[0]}" = 'install -d -o qim -g qim -m 700 /var/log/qim /var/log/qim/qim-mailbox' ]
	[ "${lines[1]}" = 'chpst -u qim:qim svlogd -tt /var/log/qim/qim-mailbox' ]
}
