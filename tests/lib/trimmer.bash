# shellcheck shell=bash
# shellcheck disable=SC2119,SC2120  # what tests give
# trimmer.bash: mailbox-trim under test, in the setup of lib/mailbox.

# shellcheck source=tests/lib/mailbox.bash
source "${BASH_SOURCE[0]%/*}/mailbox.bash"

# again FIRST LAST: the same dispatches once more, from a chain whose mark was
# lost, so that none is passed over.
again() {
	redis_cli a DEL 'qim:{3}:mark'
	messages "$1" "$2" | fill
}

trim() {
	mailbox-trim -n 4 -r "$R" -t dispatch "$@"
}

ack() {
	mailbox-ack -n 4 -r "$R" -u lou -d phone "$@"
}

# box [OPTION...]: the mailbox_seqs of lou's box.
box() {
	read_mailbox box -u lou "$@" | jq .mailbox_seq | paste -sd ' '
}

key() {
	redis_cli a "$1" "qim:{3}:$2" "${@:3}"
}

# seen DAYS MARK: as a run so long ago would have left it.
seen() {
	local now
	now=$(redis_cli a TIME | head -n 1)
	key ZADD times $(((now - $1 * 86400) * 1000 - 1000)) "$2"
}

# silent DAYS: the phone's last sign of life.
silent() {
	local now
	now=$(redis_cli a TIME | head -n 1)
	key HSET device:lou phone "$(key HGET device:lou phone |
		cut -d ' ' -f 1,2) $(((now - $1 * 86400) * 1000 - 1000))"
}

# done_is BOXES ENTRIES HELD BODIES CLAIMS: what the last run has printed.
done_is() {
	# shellcheck disable=SC2154  # bats sets it
	[ "$output" = "{\"boxes\":$1,\"entries\":$2,\"held\":$3,\"bodies\":$4,\"claims\":$5,\"dry_run\":${dry:-false},\"complete\":true}" ] ||
		fail "$output"
}
