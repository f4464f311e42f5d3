#!/usr/bin/env bats
# Redis in trouble while both chains and a load run: it refuses, loses data, is
# slow, away or silent, or asks for a password.  What mailbox-apply makes of
# each error reply by itself is in tests/54-redis-replies.bats; its death at
# each point of a round in 20-stages.bats; nodes lost and masters replaced under
# 17,000 messages in tests/kafka/80-mailboxes.bats.

# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154  # the harness reads and sets them
bats_require_minimum_version 1.5.0
load ../lib/faults
load ../lib/proxy

setup() {
	faults_begin
	proxy_start "a:$(redis_port fault-a)" "b:$(redis_port fault-b)"
}

teardown() {
	rm -f "$RUN/flushing"
	proxy_stop
	redis_kill fault-c
	faults_end
}

# outage SECONDS [LONG]: for so long; in the long tier for 40 s, which is more
# than mailbox-apply waits, or for LONG.
outage() {
	sleep "$(long_or "${2-40}" "$1")"
}

# since_fault TEXT...: the mailbox chain has said one of these since the last
# fault began.
since_fault() {
	tac "$RUN/mailbox.log" | sed '/^-- fault: /q' | grep -qE "$1"
}

said() {
	wait_until 30 since_fault "$1" ||
		fail "not said: $1: $(tail -n 5 "$RUN/mailbox.log")"
}

# refuses NAME WHAT SETTING VALUE NORMALLY [LONG]: a setting that has Redis answer
# WHAT, for an outage of LONG.
refuses() {
	fault "$1: $2"
	redis_cli "$1" CONFIG SET "$3" "$4"
	said "$2 "
	outage 1 "${6-40}"
	redis_cli "$1" CONFIG SET "$3" "$5"
	caught_up 30 "$2"
}

is_busy() {
	[[ $(redis_cli "$1" PING) == BUSY* ]]
}

busy() {
	fault 'a script that runs on and on'
	redis_cli fault-a CONFIG SET busy-reply-threshold 20
	redis_cli fault-a EVAL 'while true do end' 0 >/dev/null 2>&1 3>&- &
	wait_until 30 is_busy fault-a
	said 'BUSY '
	outage 1
	redis_cli fault-a SCRIPT KILL
	caught_up 30 BUSY
}

# So many keys take a millisecond each.
loading() {
	fault 'the data set is loaded again'
	redis_cli fault-b CONFIG SET loading-process-events-interval-bytes 1024
	redis_cli fault-b CONFIG SET key-load-delay "$(long_or 20000 1000)"
	redis_cli fault-b DEBUG RELOAD >/dev/null 2>&1 3>&- &
	said 'LOADING '
	wait $!
	redis_cli fault-b CONFIG SET key-load-delay 0
	caught_up 60 LOADING
}

# Acknowledging a batch is a script, and the cache of scripts is emptied without
# pause.
flush_scripts() {
	while [[ -e $RUN/flushing ]]; do
		redis_cli fault-a SCRIPT FLUSH
		redis_cli fault-b SCRIPT FLUSH
		sleep 0.01
	done >/dev/null
}

read_a_device() {
	local given
	given=$(mailbox-read -q -n "$faults_partitions" -r "$REDIS" batch \
		-u "$1" -d phone -c 5 | head -n 1) || return
	mailbox-ack -q -n "$faults_partitions" -r "$REDIS" -u "$1" -d phone \
		--from "$(jq .from <<<"$given")" --to "$(jq .to <<<"$given")"
}

no_script() {
	local i
	fault 'SCRIPT FLUSH all the time'
	touch "$RUN/flushing"
	flush_scripts 3>&- &
	for ((i = 0; i < $(long_or 200 20); i++)); do
		read_a_device "user-$((i % 20))"
	done
	rm "$RUN/flushing"
	wait $!
	caught_up 30 'SCRIPT FLUSH'
}

# Its data on a file system of so many MiB.
start_on_tmpfs() {
	local dir
	dir=$(redis_dir "$1")
	redis_kill "$1"
	daemon_start "$dir" '' unshare -rm bash -c '
		mount -t tmpfs -o size=$1m none "$0"
		exec redis-server "${@:2}"' "$dir/data" "$2" \
		--port "$(redis_port "$1")" --bind 127.0.0.1 --dir "$dir/data" \
		--save '' --enable-debug-command local --appendonly yes \
		--appendfsync everysec --aof-load-truncated no
	wait_until 30 redis_is_up "$1"
	disk=/proc/$(redis_pid "$1")/root$dir/data
}

fill_up() {
	cat /dev/zero >"$disk/filler" 2>/dev/null || true
	redis_cli fault-a INFO persistence | grep -q 'aof_last_write_status:err'
}

no_space() {
	fault 'no space left'
	wait_until 30 fill_up
	said 'MISCONF '
	outage 1
	rm "$disk/filler"
	caught_up 30 MISCONF
}

oom_at_start() {
	chains_stop mailbox
	redis_cli fault-b CONFIG SET maxmemory 1
	fault 'OOM before the start'
	chains_start mailbox
	said 'OOM '
	redis_cli fault-b CONFIG SET maxmemory 0
	caught_up 30 'OOM before the start'
}

read_only() {
	fault READONLY
	redis_cli fault-a REPLICAOF 127.0.0.1 1
	said 'READONLY '
	outage 1
	redis_cli fault-a REPLICAOF NO ONE
	caught_up 30 READONLY
}

@test "Redis refuses for a while: OOM, READONLY, NOREPLICAS, BUSY, LOADING, MISCONF" {
	local disk
	start_on_tmpfs fault-a 512
	faults_start
	refuses fault-a OOM maxmemory 1 0 120
	refuses fault-b NOREPLICAS min-replicas-to-write 1 0
	read_only
	busy
	loading
	no_script
	no_space
	oom_at_start
	expect_whole
}

# restart NAME [BYTES]: kill -9, and of its log so many are gone.
restart() {
	local log
	redis_kill "$1"
	log=$(ls "$(redis_dir "$1")"/data/appendonlydir/*.incr.aof)
	[[ -z ${2-} ]] || truncate -s "-$2" "$log"
	redis_run "$1"
}

# What Redis has lost was noticed, and done again.
rewinds() {
	said 'lost data|this chain goes on from'
}

# The chain finds the nodes by links, so that a replica can take the place of
# its master.
use_links() {
	local i
	for i in a b; do
		ln -sfn "$(redis_socket "fault-$i")" "$RUN/$i"
	done
	REDIS=unix:$RUN/a,unix:$RUN/b
}

is_following() {
	redis_cli "$1" INFO replication | grep -q 'master_link_status:up'
}

follow() {
	redis_cli "$1" REPLICAOF 127.0.0.1 "$(redis_port "$2")"
	wait_until 60 is_following "$1"
}

# is_ahead NAME OTHER: it has applied more.
is_ahead() {
	(($(applied "$1") > $(applied "$2")))
}

applied() {
	redis_cli "$1" EVAL "local sum = 0
		for _, k in ipairs(redis.call('keys', 'qim:{*}:mark')) do
			sum = sum + redis.call('zrange', k, 0, -1, 'withscores')[2]
		end
		return sum" 0
}

# The replica is cut off; after a while it is told to be the master, while the
# chain still writes to the old one; then the old one goes, and comes back as a
# replica that takes over again.
split_brain() {
	redis_cli fault-a CONFIG SET repl-diskless-sync-delay 0
	fault 'two masters'
	redis_start fault-c --appendonly yes --repl-diskless-sync-delay 0
	follow fault-c fault-a
	redis_cli fault-c REPLICAOF NO ONE
	ln -sfn "$(redis_socket fault-c)" "$RUN/a"
	outage 0 5
	wait_until 30 is_ahead fault-a fault-c
	redis_cli fault-a CLIENT KILL TYPE normal
	rewinds
	caught_up 60 'two masters'
	fault 'the old master again'
	follow fault-a fault-c
	redis_kill fault-c
	redis_cli fault-a REPLICAOF NO ONE
	ln -sfn "$(redis_socket fault-a)" "$RUN/a"
	caught_up 30 'the old master again'
}

# With everysec Redis keeps for itself for two seconds what it has answered,
# where the disk is slow.
killed() {
	fault 'kill -9, appendfsync everysec'
	restart fault-a
	fault 'kill -9, appendfsync everysec'
	restart fault-b
	caught_up 30 'kill -9, appendfsync everysec'
}

cut_log() {
	fault 'the last bytes of the log are gone'
	restart fault-b 7
	caught_up 30 'a log without its last bytes'
	fault 'the end of the log is gone'
	restart fault-b 100000
	rewinds
	caught_up 60 'a cut log'
}

flushed() {
	fault FLUSHALL
	redis_cli fault-a FLUSHALL
	rewinds
	caught_up 60 FLUSHALL
}

@test "Redis loses data: a cut log, FLUSHALL, a replica without the tail, two masters" {
	local i
	use_links
	MARKS_FALL=1
	faults_start
	for ((i = 0; i < $(long_or 10 1); i++)); do
		killed
		cut_log
		flushed
		split_brain
	done
	expect_whole
}

# It dies while it writes, and nothing that was confirmed is gone.
killed_always() {
	local i
	redis_cli fault-a CONFIG SET appendfsync always
	for ((i = 0; i < $(long_or 20 2); i++)); do
		fault 'kill -9, appendfsync always'
		restart fault-a
		redis_cli fault-a CONFIG SET appendfsync always
		caught_up 30 'kill -9, appendfsync always'
		! since_fault 'lost data|this chain goes on from' ||
			fail "$(tail -n 5 "$RUN/mailbox.log")"
	done
}

slow_shard() {
	fault 'a shard that takes 2 s to answer'
	proxy_set a delay down 2s
	said 'no answer for '
	outage 3
	proxy_clear a
	caught_up 60 'a slow shard'
}

dead_shard() {
	fault 'a shard is away'
	proxy_set b refuse
	proxy_set b reset
	said 'connecting again'
	outage 2 120
	proxy_clear b
	caught_up 30 'a shard away'
}

cut_connections() {
	local i how
	for ((i = 0; i < $(long_or 50 2); i++)); do
		for how in cut reset; do
			fault "connections: $how"
			proxy_set all "$how"
			sleep 0.2
		done
	done
	caught_up 30 'connections cut'
}

half_open() {
	fault 'silence'
	proxy_set all hold both
	said 'no answer'
	outage 1
	proxy_set all resume both
	caught_up 30 'silence'
	fault 'old connections are dead'
	proxy_set all forget
	said 'no answer'
	caught_up 60 'dead connections'
}

@test "Redis killed, appendfsync always; a shard slow or away, connections cut, half-open" {
	CHAIN_REDIS=127.0.0.1:$(proxy_port a),127.0.0.1:$(proxy_port b)
	MAILBOX_MORE+=(--stage mailbox-apply=--connect-ms=4000)
	faults_start
	killed_always
	slow_shard
	dead_shard
	cut_connections
	half_open
	expect_whole
}

# Until the chain has asked for a person; it is started again.
ends_with_77() {
	wait_until 30 grep -qx 77 "$RUN/mailbox.fatal"
	said "$1"
}

@test "Redis refuses the chain: 77, and no secret in the logs" {
	local name
	SECRETS=(correct-horse wrong-battery)
	EXITS_MORE=77
	(umask 077 && echo "${SECRETS[0]}" >"$RUN/password")
	for name in fault-a fault-b; do
		redis_cli "$name" ACL SETUSER chain on "#$(printf %s \
			"${SECRETS[0]}" | sha256sum | cut -d ' ' -f 1)" '~qim:*' +@all
	done
	MAILBOX_MORE+=(--user chain --password-file "$RUN/password")
	faults_start
	fault WRONGPASS
	redis_cli fault-a ACL SETUSER chain resetpass ">${SECRETS[1]}"
	redis_cli fault-a CLIENT KILL USER chain
	ends_with_77 WRONGPASS
	redis_cli fault-a ACL SETUSER chain resetpass ">${SECRETS[0]}"
	chains_start mailbox
	caught_up 30 WRONGPASS
	fault NOPERM
	redis_cli fault-b ACL SETUSER chain -zadd
	ends_with_77 NOPERM
	redis_cli fault-b ACL SETUSER chain +zadd
	chains_start mailbox
	caught_up 30 NOPERM
	expect_whole
}
