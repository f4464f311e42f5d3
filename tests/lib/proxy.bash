# shellcheck shell=bash
# proxy.bash: TCP connections as bad as a test wants them (tests/proxy).
#
# NAME belongs to the test file, which calls proxy_start once for all it needs:
#	redis_start a
#	proxy_start "a:$(redis_port a)"
#	mailbox-apply -r "127.0.0.1:$(proxy_port a)" ...
#	proxy_set a delay both 0.5ms
# The names 1, 2, 3 and `brokers`, which is all of them, are lib/kafka's: each
# broker of a cluster with proxies, for clients that begin with KAFKA_PROXIED.

# shellcheck source=tests/lib/common.bash
source "${BASH_SOURCE[0]%/*}/common.bash"

proxy_is_up_or_dead() {
	[[ -S $1/socket ]] || ! daemon_pid "$1" >/dev/null
}

# proxy_run DIR NAME=PORT:TARGET...: for the harness.
proxy_run() {
	local dir=$1
	command -v proxy >/dev/null ||
		fail "proxy isn't built: make units" || return
	daemon_signal "$dir" KILL
	rm -f "$dir/socket"
	daemon_start "$dir" '' proxy serve "$dir/socket" "${@:2}"
	if ! wait_until 30 proxy_is_up_or_dead "$dir" ||
		! daemon_pid "$dir" >/dev/null
	then
		fail "proxy doesn't start: $(<"$dir/err")"
	fi
}

# proxy_start NAME:TARGET...: to ports on the loopback; one that this file has
# already is ended first.
proxy_start() {
	local dir one port listeners=()
	dir=$(scope_dir)/proxy
	rm -rf "$dir"
	mkdir -p "$dir/ports"
	for one in "$@"; do
		port=$(free_port)
		echo "$port" >"$dir/ports/${one%%:*}"
		listeners+=("${one%%:*}=$port:${one#*:}")
	done
	proxy_run "$dir" "${listeners[@]}"
}

proxy_stop() {
	daemon_signal "$(scope_dir)/proxy" TERM
}

# proxy_port NAME: where clients connect to.
proxy_port() {
	cat "$(scope_dir)/proxy/ports/$1"
}

# proxy_set NAME|all COMMAND...: see tests/proxy/README.md; fails where the
# answer isn't ok. proxy_clear NAME: no rules any more, connections accepted.
proxy_set() {
	local answer
	answer=$(proxy_tell "$@") || fail "proxy_set $*: $answer"
}

proxy_clear() {
	proxy_set "$1" clear
}

# proxy_count NAME WHAT: connections, accepted (since the start), up, down
# (bytes passed on), kept (what waits in the proxy).
proxy_count() {
	local answer
	answer=$(proxy_tell "$1" show) || fail "$answer" || return
	answer=${answer#*" $2="}
	echo "${answer%% *}"
}

proxy_tell() {
	case $1 in
	brokers) proxy tell "$KAFKA_DIR/proxy/socket" all "${@:2}" ;;
	[1-9]) proxy tell "$KAFKA_DIR/proxy/socket" "$@" ;;
	*) proxy tell "$(scope_dir)/proxy/socket" "$@" ;;
	esac
}
