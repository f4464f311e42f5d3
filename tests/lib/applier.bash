# shellcheck shell=bash
# shellcheck disable=SC2034,SC2119,SC2120  # what tests use and give
# applier.bash: mailbox-apply under test, fed with few messages on servers of
# the test's own.  R is its -r.

# shellcheck source=tests/lib/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"

# stream [dispatch-stream.py's arguments] < lines: a stream of four partitions.
stream() {
	/usr/bin/python3 "$qim_root/tests/lib/dispatch-stream.py" "$@"
}

# start NAME [--setting value]...: an empty server; sets R.
start() {
	redis_start "$1" --appendonly yes --appendfsync always "${@:2}"
	R=127.0.0.1:$(redis_port "$1")
}

apply() {
	mailbox-apply -n 4 -r "$R" --connect-ms 60000 "$@"
}

# The same for `run`, which can't take what isn't text.
applies() {
	apply "$@" >out
}

# content NAME: a digest of all keys but the counters of connections.
content() {
	redis_cli "$1" EVAL "for _, k in ipairs(redis.call('keys', '*:round:*'))
		do redis.call('del', k) end" 0 >/dev/null
	redis_cli "$1" DEBUG DIGEST
}

mark() {
	redis_cli "$1" ZRANGE "qim:{$2}:mark" 0 -1 WITHSCORES | tail -n 1
}

# Messages of two conversations in three batches. lou is in partition 3, bob
# in 2, pat in 1 (murmur2 modulo 4).
messages() {
	cat <<-'END'
		{"conversation_id":"c","conversation_seq":1,"to":["lou","bob","pat"],"sender":"lou"}
		{"conversation_id":"c","conversation_seq":2,"to":["lou","bob","pat"],"sender":"bob"}

		{"conversation_id":"d","conversation_seq":1,"to":["lou","bob"],"sender":"bob"}

		{"conversation_id":"c","conversation_seq":3,"to":["lou","bob","pat"],"sender":"pat"}
	END
}

# run_waiting [option]...: `messages`, of which the last two batches wait for
# the file `go`; see feed.
run_waiting() {
	{
		messages | head -n 2
		echo '{"wait":"go"}'
		messages | tail -n +4
	} >lines
	rm -f go
	feed lines "$@"
}

# feed FILE [option]...: mailbox-apply of the lines in FILE; sets PID, and
# returns after the second batch's receipt.
feed() {
	rm -f out pipe # an earlier run's receipts aren't these
	mkfifo pipe
	stream <"$1" >pipe 3>&- &
	apply "${@:2}" <pipe >out 2>err 3>&- &
	PID=$!
	wait_until 30 has_receipt 2
}

has_receipt() {
	stream-dump <out 2>/dev/null | grep -q "^{\"batch\":$1,"
}

# has_read COUNT: mailbox-apply has read more bytes than that.
has_read() {
	local pos
	pos=$(sed -n 's/^pos:[[:space:]]*//p' "/proc/$PID/fdinfo/0")
	((pos > $1))
}
