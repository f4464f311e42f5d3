# shellcheck shell=bash
# redis.bash: redis-servers for tests, each with a name, a port and a socket.
#
# NAME belongs to the test file; the name "shared" to the whole suite
# (need_redis). A server has no persistence unless it is told so:
#	redis_start a --appendonly yes --appendfsync always

# shellcheck source=tests/lib/common.bash
source "${BASH_SOURCE[0]%/*}/common.bash"

# redis_dir NAME: its state; data in redis_dir/data, its log is redis_dir/out.
redis_dir() {
	if [[ $1 == shared ]]; then
		echo "$QIM_STATE/redis-shared"
	else
		echo "$(scope_dir)/redis-$1"
	fi
}

redis_port() {
	cat "$(redis_dir "$1")/port"
}

redis_socket() {
	echo "$(redis_dir "$1")/socket"
}

# redis_pid NAME: fails when it isn't running.
redis_pid() {
	daemon_pid "$(redis_dir "$1")"
}

redis_cli() {
	local port
	port=$(redis_port "$1") || return
	redis-cli -h 127.0.0.1 -p "$port" "${@:2}"
}

# Answers and isn't loading; with a password NOAUTH is an answer too.
redis_is_up() {
	local answer
	redis_pid "$1" >/dev/null || return
	answer=$(redis_cli "$1" PING 2>&1)
	[[ $answer == PONG || $answer == NOAUTH* ]] || fail "$answer"
}

redis_is_up_or_dead() {
	redis_is_up "$1" || ! redis_pid "$1" >/dev/null
}

# Of a cut log, what its end lies in goes as a whole: see qim-mailbox(5).
redis_repair() {
	local manifest=$1/appendonlydir/appendonly.aof.manifest
	[[ ! -e $manifest ]] ||
		redis-check-aof --fix "$manifest" <<<y >"$1/../repair" 2>&1 ||
		fail "redis-check-aof: $(<"$1/../repair")"
}

redis_run() {
	local dir args
	dir=$(redis_dir "$1")
	redis_repair "$dir/data"
	readarray -d '' -t args <"$dir/args"
	daemon_start "$dir" '' redis-server --port "$(<"$dir/port")" \
		--bind 127.0.0.1 --unixsocket "$dir/socket" --dir "$dir/data" \
		--save '' --appendonly no --aof-load-truncated no \
		--enable-debug-command local \
		"${args[@]}"
	if ! wait_until 30 redis_is_up_or_dead "$1" || ! redis_is_up "$1"; then
		fail "redis-server $1 doesn't start: $(tail -q -n 5 "$dir/err" "$dir/out")"
	fi
}

# redis_start NAME [--setting value]...: an empty one; one of that name that
# an earlier test left is ended first.
redis_start() {
	local dir port
	dir=$(redis_dir "$1")
	daemon_signal "$dir" KILL
	rm -rf "$dir"
	mkdir -p "$dir/data"
	port=$(free_port)
	echo "$port" >"$dir/port"
	: >"$dir/args"
	(($# < 2)) || printf '%s\0' "${@:2}" >"$dir/args"
	redis_run "$1"
}

# redis_stop NAME: in order, as a shutdown would. redis_kill NAME: kill -9.
redis_stop() {
	daemon_signal "$(redis_dir "$1")" TERM
}

redis_kill() {
	daemon_signal "$(redis_dir "$1")" KILL
}

# redis_restart NAME: the same port, settings and data; stops it where it runs.
redis_restart() {
	redis_stop "$1"
	redis_run "$1"
}

redis_ensure_shared() {
	redis_is_up shared 2>/dev/null || redis_start shared
}

# need_redis: the suite's own server, started once; sets and exports
# REDIS_PORT and REDIS_SOCKET. Others use it too: choose a key prefix, and
# don't flush, stop or configure it.
need_redis() {
	under_lock redis redis_ensure_shared || return
	REDIS_PORT=$(redis_port shared)
	REDIS_SOCKET=$(redis_socket shared)
	export REDIS_PORT REDIS_SOCKET
}
