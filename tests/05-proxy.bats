#!/usr/bin/env bats
# The tests' proxy does what its README says.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load lib/common
load lib/proxy
load lib/redis

setup_file() {
	local port
	port=$(free_port)
	daemon_start "$(scope_dir)/echo" '' /usr/bin/python3 -ES \
		"$qim_root/tests/proxy/peer.py" echo "$port"
	wait_until 10 port_is_taken "$port"
	redis_start behind
	proxy_start "a:$port" "b:$port" "nobody:$(free_port)" \
		"redis:$(redis_port behind)"
}

setup() {
	proxy_set all reset
	proxy_clear all
	wait_until 10 has_count a connections 0
	wait_until 10 server_is_idle
	before=$(wc -l <"$(scope_dir)/echo/out")
}

has_count() {
	[ "$(proxy_count "$1" "$2")" = "$3" ]
}

# It has said the end of each connection, also of those of an earlier test.
server_is_idle() {
	awk '/^open/ { open++ } /^(end|reset) / { open-- } END { exit open }' \
		"$(scope_dir)/echo/out"
}

# What the server said in this test.
server_said() {
	tail -n "+$((before + 1))" "$(scope_dir)/echo/out"
}

server_has_said() {
	[[ $(server_said) == *"$1"* ]] || fail "the server said: $(server_said)"
}

# peer COMMAND NAME: in the place of the shell, so that its pid is $!.
peer() {
	exec /usr/bin/python3 -ES "$qim_root/tests/proxy/peer.py" "$1" \
		"$(proxy_port "$2")" 3>&-
}

# connect NAME: sets conn, a descriptor of a connection through NAME.
connect() {
	exec {conn}<>"/dev/tcp/127.0.0.1/$(proxy_port "$1")"
}

say() {
	echo "$1" >&"$conn"
}

# hear TEXT: it comes back.
hear() {
	local line
	read -r -t 20 -u "$conn" line || fail "nothing heard" || return
	[ "$line" = "$1" ] || fail "heard: $line"
}

hear_nothing() {
	local status=0
	read -r -t 0.3 -u "$conn" || status=$?
	# 128 and more is the time; 0 a line, 1 the end.
	((status > 128)) || fail "heard $REPLY, status $status"
}

now_us() {
	echo "${EPOCHREALTIME/./}"
}

@test "bytes pass in both directions, and the end of each" {
	head -c 20000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
	(peer there a) <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" \
		2>"$BATS_TEST_TMPDIR/err"
	cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	[ "$(<"$BATS_TEST_TMPDIR/err")" = end ]
	[ "$(server_said)" = $'open\nend 20000000' ]
	wait_until 10 has_count a connections 0
}

@test "the same with a delay, and through a throttled link" {
	head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
	proxy_set a delay both 3ms
	proxy_set a throttle both 10000000
	(peer there a) <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out"
	cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	[ "$(server_said)" = $'open\nend 3000000' ]
}

@test "delay: an answer takes no less, on connections that were there too" {
	local start took
	connect a
	say one
	hear one
	for rule in 'up 60ms' 'down 0.06s' 'both 30000us'; do
		# shellcheck disable=SC2086
		proxy_set a delay $rule
		start=$(now_us)
		say two
		hear two
		took=$(($(now_us) - start))
		((took >= 60000)) || fail "$rule: $took us"
		proxy_clear a
	done
}

@test "delay: reading goes on meanwhile; a shorter one holds at once" {
	connect a
	proxy_set a delay up 3600s
	say one
	wait_until 10 has_count a kept 4
	say two
	say three
	wait_until 10 has_count a kept 14
	hear_nothing
	proxy_set a delay up 1ms
	hear one
	hear two
	hear three
	has_count a kept 0
}

@test "throttle: no faster than that, all connections together" {
	local start took
	proxy_set a throttle up 100000
	start=$(now_us)
	head -c 20000 /dev/zero | (peer there a) >"$BATS_TEST_TMPDIR/1" 3>&- &
	head -c 20000 /dev/zero | (peer there a) >"$BATS_TEST_TMPDIR/2"
	wait $!
	took=$(($(now_us) - start))
	[ "$(cat "$BATS_TEST_TMPDIR"/[12] | wc -c)" = 40000 ]
	((took >= 380000)) || fail "$took us"
}

@test "the sender feels a receiver that takes nothing: 4 MiB are kept" {
	proxy_set a delay up 3600s
	peer fill a &
	wait_until 20 is_full
	sleep 0.2
	(($(proxy_count a kept) < 4194304 + 65536))
	kill $!
}

is_full() {
	(($(proxy_count a kept) > 4194304 - 65536))
}

@test "hold: silence for old and new connections; resume: nothing was lost" {
	local old
	connect a
	old=$conn
	say one
	hear one
	proxy_set a hold both
	say two
	hear_nothing
	connect a
	say new
	hear_nothing
	proxy_set a resume both
	hear new
	conn=$old
	hear two
}

@test "hold of one direction: the server hears, its answer is held" {
	local up
	up=$(proxy_count a up)
	connect a
	proxy_set a hold down
	say one
	wait_until 10 has_count a up "$((up + 4))"
	hear_nothing
	proxy_set a resume both
	hear one
	proxy_set a hold up
	say two
	hear_nothing
	proxy_clear a
	hear two
}

@test "forget: old connections are silent for good, new ones work" {
	local old
	connect a
	old=$conn
	say one
	hear one
	proxy_set a forget
	connect a
	say new
	hear new
	proxy_clear a
	conn=$old
	say two
	hear_nothing
}

# client NAME: one in the background that has sent 4 bytes, which came back, and
# sends no end. It says in err how it ended.
client() {
	mkfifo "$BATS_TEST_TMPDIR/in"
	(peer there "$1") <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" \
		2>"$BATS_TEST_TMPDIR/err" &
	exec {feed}>"$BATS_TEST_TMPDIR/in"
	echo one >&"$feed"
	wait_until 10 grep -q one "$BATS_TEST_TMPDIR/out"
}

@test "cut: both ends see an orderly end, also while they send" {
	local filler
	peer fill a &
	filler=$!
	client a
	proxy_set a cut
	wait_until 10 grep -qx end "$BATS_TEST_TMPDIR/err"
	wait_until 10 server_has_said 'end 4'
	kill "$filler"
	wait_until 10 has_count a connections 0
	run ! server_has_said reset
}

@test "reset: both ends see a reset" {
	client a
	proxy_set a reset
	has_count a connections 0
	wait_until 10 grep -qx reset "$BATS_TEST_TMPDIR/err"
	wait_until 10 server_has_said 'reset 4'
}

@test "cut-after: exactly so many bytes more, for each connection anew" {
	connect a
	say one
	hear one
	proxy_set a cut-after up 1000
	head -c 5000 /dev/zero >&"$conn"
	wait_until 10 server_has_said 'end 1004'
	head -c 5000 /dev/zero | (peer there a) >"$BATS_TEST_TMPDIR/out"
	wait_until 10 server_has_said 'end 1000'
	proxy_clear a
	proxy_set a cut-after down 1
	echo abc | (peer there a) >"$BATS_TEST_TMPDIR/out"
	[ "$(<"$BATS_TEST_TMPDIR/out")" = a ]
}

@test "refuse, until listen: old connections stay" {
	connect a
	proxy_set a refuse
	say one
	hear one
	run -1 bash -c 'exec 9<>"/dev/tcp/127.0.0.1/$1"' - "$(proxy_port a)"
	expect_message 'Connection refused'
	proxy_set a listen
	connect a
	say two
	hear two
}

@test "no server: a reset" {
	echo one | (peer there nobody) 2>"$BATS_TEST_TMPDIR/err"
	[ "$(<"$BATS_TEST_TMPDIR/err")" = reset ]
	has_count nobody connections 0
}

@test "a server's end that the client hasn't read yet is passed on after it" {
	proxy_set a delay down 50ms
	echo one | (peer there a) >"$BATS_TEST_TMPDIR/out" \
		2>"$BATS_TEST_TMPDIR/err"
	[ "$(<"$BATS_TEST_TMPDIR/out")" = one ]
	[ "$(<"$BATS_TEST_TMPDIR/err")" = end ]
}

@test "a rule is one listener's; all is all of them" {
	proxy_set a hold both
	connect b
	say one
	hear one
	proxy_set all hold both
	say two
	hear_nothing
}

@test "Redis: answers through it, a connection that was reset is made again" {
	coproc redis { exec redis-cli -p "$(proxy_port redis)" 2>&1; }
	conn=${redis[1]}
	say 'SET key one'
	wait_until 10 has_key one
	proxy_set redis reset
	say 'SET key lost'
	say 'SET key two'
	wait_until 10 has_key two
}

has_key() {
	[ "$(redis_cli behind GET key)" = "$1" ]
}

@test "what isn't a command is an error with a line" {
	run -1 proxy_tell a nonsense
	[ "$output" = 'error: no such command' ]
	run -1 proxy_tell c reset
	[ "$output" = 'error: no such name' ]
	for command in 'delay both' 'delay both 5' 'delay both -1ms' \
		'delay both 3601s' 'delay there 5ms' 'delay both 5ms more'; do
		# shellcheck disable=SC2086
		run -1 proxy_tell a $command
		[ "$output" = 'error: wants NAME delay up|down|both TIME' ]
	done
	run -1 proxy_tell a throttle both 1x
	[ "$output" = 'error: wants NAME throttle up|down|both BYTES' ]
	run -1 proxy_tell a cut-after both 0
	[ "$output" = 'error: wants NAME cut-after up|down|both BYTES' ]
	run -1 proxy_tell a cut both
	[ "$output" = 'error: wants NAME cut' ]
	run -1 proxy_set a delay
	expect_message 'proxy_set a delay: error: wants'
}

@test "the program: usage 64, a port that is taken 71" {
	run -64 proxy
	run -64 proxy serve socket
	run -64 proxy serve socket a=1
	run -64 proxy tell socket a
	run -71 proxy tell "$BATS_TEST_TMPDIR/none" a show
	expect_message 'proxy: error: '
	run -71 proxy serve "$BATS_TEST_TMPDIR/s" "a=$(proxy_port a):1"
	expect_message 'Address already in use'
	proxy_set a refuse
	daemon_start "$BATS_TEST_TMPDIR/d" '' proxy serve \
		"$BATS_TEST_TMPDIR/s" "a=$(proxy_port a):1"
	wait_until 10 test -S "$BATS_TEST_TMPDIR/s"
	run -1 proxy_tell a listen
	[ "$output" = 'error: listen: its port is taken' ]
	daemon_signal "$BATS_TEST_TMPDIR/d" TERM
}
