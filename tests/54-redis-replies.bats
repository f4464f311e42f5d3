# Each error reply of Redis, made by a real redis-server while mailbox-apply
# runs: nothing is lost, no receipt comes too early, and what may pass does.
# shellcheck disable=SC2030,SC2031  # each test sets its R
# shellcheck disable=SC2154  # stderr is set by run
bats_require_minimum_version 1.5.0
load lib/common
load lib/applier

setup() {
	cd "$BATS_TEST_TMPDIR" || exit
}

# waits_out TEXT: of a running mailbox-apply that has two of four batches to
# go. It says TEXT, and gives no receipt meanwhile.
waits_out() {
	touch go
	wait_until 20 grep -qF "$1: connecting again" err
	run ! has_receipt 3
}

# goes_on NAME: after what was wrong is over, all is as if it had never been.
goes_on() {
	local is
	wait "$PID"
	grep -q 'notice: redis .* goes on after' err
	is=$(content "$1")
	redis_cli "$1" CONFIG SET appendonly no >/dev/null
	redis_cli "$1" FLUSHALL >/dev/null
	R=127.0.0.1:$(redis_port "$1")
	messages | stream | mailbox-apply -q -n 4 -r "$R" >again
	[ "$(content "$1")" = "$is" ]
	stream-dump <out >/dev/null
}

# ends CODE TEXT: it can't go on.
ends() {
	local status=0
	touch go
	wait "$PID" || status=$?
	[ "$status" = "$1" ]
	grep -F "error: redis 127.0.0.1" err | grep -qF "$2"
	run ! has_receipt 3
}

# bats test_tags=slow
@test "OOM: nothing written, and on again once there is room; 75 if never" {
	start a
	redis_cli a CONFIG SET maxmemory 1
	run -75 --separate-stderr applies --connect-ms 3000 < <(messages | stream)
	expect_message 'nothing confirmed for 3000 ms: '
	expect_message 'OOM command not allowed'
	[ "$(redis_cli a DBSIZE)" = 0 ]
	redis_cli a CONFIG SET maxmemory 0
	run_waiting
	redis_cli a CONFIG SET maxmemory 1
	waits_out "OOM command not allowed when used memory > 'maxmemory'."
	redis_cli a CONFIG SET maxmemory 0
	goes_on a
}

# bats test_tags=slow
@test "BUSY: another's script is waited for" {
	start a
	run_waiting
	redis_cli a CONFIG SET busy-reply-threshold 20
	redis_cli a EVAL 'while true do end' 0 >/dev/null 2>&1 3>&- &
	wait_until 10 is_busy
	waits_out 'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.'
	redis_cli a SCRIPT KILL
	goes_on a
}

is_busy() {
	[[ $(redis_cli a PING) == BUSY* ]]
}

# bats test_tags=slow
@test "READONLY: the connection goes, the master is looked for again" {
	start a
	run_waiting
	redis_cli a REPLICAOF 127.0.0.1 1
	waits_out "READONLY You can't write against a read only replica."
	redis_cli a REPLICAOF NO ONE
	goes_on a
	redis_cli a REPLICAOF 127.0.0.1 1
	run -75 --separate-stderr applies --connect-ms 3000 < <(messages | stream)
	expect_message READONLY
}

# A write would be told READONLY; what is read at the start is told this.
# bats test_tags=slow
@test "MASTERDOWN at the start is waited for" {
	start a --replica-serve-stale-data no
	redis_cli a REPLICAOF 127.0.0.1 1
	messages | stream >in
	apply <in >out 2>err 3>&- &
	PID=$!
	wait_until 20 grep -q "notice: redis $R: not reachable yet: MASTERDOWN Link with MASTER is down" err
	redis_cli a REPLICAOF NO ONE
	wait "$PID"
	[ "$(mark a 3)" = 4 ]
}

is_loaded() {
	[[ $(redis_cli a PING) == PONG ]]
}

is_loading() {
	[[ $(redis_cli a PING) == LOADING* ]]
}

# Between two of the keys it answers, once in 1024 bytes.
# bats test_tags=slow
@test "LOADING" {
	start a
	run_waiting
	redis_cli a EVAL "for i = 1, 600 do redis.call('set', i, ('x'):rep(2000)) end" 0
	redis_cli a CONFIG SET loading-process-events-interval-bytes 1024
	redis_cli a CONFIG SET key-load-delay 100000
	redis_cli a DEBUG RELOAD >/dev/null 2>&1 3>&- &
	wait_until 10 is_loading
	waits_out 'LOADING Redis is loading the dataset in memory'
	redis_cli a CONFIG SET key-load-delay 0
	wait_until 20 is_loaded
	redis_cli a EVAL "for i = 1, 600 do redis.call('del', i) end" 0
	goes_on a
}

@test "NOREPLICAS" {
	start a
	run_waiting
	redis_cli a CONFIG SET min-replicas-to-write 1
	waits_out 'NOREPLICAS Not enough good replicas to write.'
	redis_cli a CONFIG SET min-replicas-to-write 0
	goes_on a
}

bgsave_is() {
	redis_cli a INFO persistence | grep -q "rdb_last_bgsave_status:$1"
}

# bats test_tags=slow
@test "MISCONF: no snapshot can be written" {
	start a
	run_waiting
	mkdir "$(redis_dir a)/data/dump.rdb"
	redis_cli a CONFIG SET save '3600 1'
	redis_cli a BGSAVE
	wait_until 10 bgsave_is err
	touch go
	wait_until 20 grep -qF "MISCONF Redis is configured to save RDB snapshots, but" err
	run ! has_receipt 3
	rmdir "$(redis_dir a)/data/dump.rdb"
	redis_cli a BGSAVE
	wait_until 10 bgsave_is ok
	goes_on a
}

# A server whose data are on a file system of its own, of 8 MiB.
start_small() {
	local dir
	dir=$(redis_dir a)
	start a
	redis_kill a
	daemon_start "$dir" '' unshare -rm bash -c '
		mount -t tmpfs -o size=8m none "$0"
		exec redis-server "$@"' "$dir/data" --port "$(redis_port a)" \
		--bind 127.0.0.1 --dir "$dir/data" --save '' \
		--enable-debug-command local --appendonly yes \
		--aof-load-truncated no
	wait_until 30 redis_is_up a
	small=/proc/$(redis_pid a)/root$dir/data
}

aof_is() {
	redis_cli a INFO persistence | grep -q "aof_last_write_status:$1"
}

# One write is lost, as Redis confirms it before it tries: everysec.
fill_up() {
	head -c 8388608 /dev/zero >"$small/filler" 2>/dev/null || true
	redis_cli a SET filler "$(printf 'x%.0s' {1..9000})" >/dev/null
	aof_is err
}

# bats test_tags=slow
@test "MISCONF: the disk of the append-only file is full" {
	local small
	start_small
	run_waiting
	wait_until 10 fill_up
	touch go
	wait_until 20 grep -qF 'MISCONF Errors writing to the AOF file: No space left on device' err
	run ! has_receipt 3
	rm "$small/filler"
	wait_until 10 aof_is ok
	redis_cli a DEL filler
	goes_on a
}

@test "too many clients" {
	local reply
	start a
	run_waiting
	exec 5<>"/dev/tcp/127.0.0.1/$(redis_port a)"
	printf 'CONFIG SET maxclients 1\r\n' >&5
	read -r reply <&5
	[[ $reply == +OK* ]]
	printf 'CLIENT KILL TYPE normal\r\n' >&5
	read -r reply <&5
	touch go
	wait_until 20 grep -q 'connecting again' err
	run ! has_receipt 3
	printf 'CONFIG SET maxclients 100\r\n' >&5
	read -r reply <&5
	exec 5>&-
	goes_on a
}

@test "NOAUTH on a new connection: 77" {
	start a
	run_waiting
	redis_cli a CONFIG SET requirepass secret
	redis_cli a -a secret --no-auth-warning CLIENT KILL TYPE normal
	ends 77 'NOAUTH Authentication required.'
}

@test "NOPERM while it runs: 77, and the mark stays" {
	start a
	run_waiting
	redis_cli a ACL SETUSER default -zadd
	ends 77 "NOPERM this user has no permissions to run the 'zadd' command"
	[ "$(mark a 3)" = 2 ]
}

# bats test_tags=slow
@test "WRONGTYPE while it runs: 65 names the key, and the mark stays" {
	start a
	run_waiting
	redis_cli a DEL "qim:{3}:box:lou"
	redis_cli a SET "qim:{3}:box:lou" x
	ends 65 'qim:{3}:box:lou: WRONGTYPE Operation against a key'
	[ "$(mark a 3)" = 2 ]
}

# Two nodes of a cluster; `a` has the slots of partition 3 and of the others.
# The bus, unless told, is on the port 10,000 above, which may be a client's.
start_cluster() {
	bus_b=$(free_port)
	start b --cluster-enabled yes --cluster-port "$bus_b" --appendonly no
	start a --cluster-enabled yes --cluster-port "$(free_port)" \
		--appendonly no
	redis_cli a CLUSTER ADDSLOTSRANGE 0 16383
	wait_until 20 cluster_is_ok
}

cluster_is_ok() {
	redis_cli a CLUSTER INFO | grep -q '^cluster_state:ok'
}

@test "a cluster is refused at the start: 78" {
	start a --cluster-enabled yes --cluster-port "$(free_port)" \
		--appendonly no
	run -78 --separate-stderr applies </dev/null
	expect_message "error: redis $R: redis_mode is 'cluster', wants 'standalone'"
}

# Where INFO may not be asked the replies themselves tell.
# bats test_tags=slow
@test "CLUSTERDOWN 69, CROSSSLOT, MOVED and ASK 78" {
	local id slot
	start_cluster
	redis_cli a ACL SETUSER default -info
	run -78 --separate-stderr applies < <(messages | stream)
	expect_message "CROSSSLOT Keys in request don't hash to the same slot"
	redis_cli a CLUSTER MEET 127.0.0.1 "$(redis_port b)" "$bus_b"
	wait_until 20 knows_other
	id=$(redis_cli b CLUSTER MYID)
	slot=$(redis_cli a CLUSTER KEYSLOT "qim:{0}:mark")
	redis_cli a CLUSTER SETSLOT "$slot" MIGRATING "$id"
	run -78 --separate-stderr applies </dev/null
	expect_message "qim:{0}:mark: ASK $slot 127.0.0.1:$(redis_port b)"
	redis_cli a FLUSHALL
	redis_cli a CLUSTER SETSLOT "$slot" NODE "$id"
	run -78 --separate-stderr applies </dev/null
	expect_message "qim:{0}:mark: MOVED $slot 127.0.0.1:$(redis_port b)"
	redis_cli b ACL SETUSER default -info
	R=127.0.0.1:$(redis_port b)
	redis_cli b CLUSTER RESET HARD
	run -69 --separate-stderr applies </dev/null
	expect_message 'CLUSTERDOWN Hash slot not served'
}

# By its own name: until their handshake is over it has another.
knows_other() {
	redis_cli a CLUSTER NODES | grep -q "^$(redis_cli b CLUSTER MYID) .* connected"
}
