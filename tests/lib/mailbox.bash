# shellcheck shell=bash
# shellcheck disable=SC2119,SC2120,SC2154  # what tests give, bats sets
# mailbox.bash: a redis-server of the test's own, filled by mailbox-apply; R is
# its -r.
#
# setup is here; each test is in its own folder.

# shellcheck source=tests/lib/redis.bash
source "${BASH_SOURCE[0]%/*}/redis.bash"

setup() {
	cd "$BATS_TEST_TMPDIR" || exit
	redis_start a --appendonly yes
	R=127.0.0.1:$(redis_port a)
}

fill() {
	/usr/bin/python3 "$qim_root/tests/lib/dispatch-stream.py" "$@" |
		mailbox-apply -q -n 4 -r "$R" >/dev/null
}

read_mailbox() {
	mailbox-read -n 4 -r "$R" "$@"
}

# messages FIRST LAST: for lou, who is in partition 3.
messages() {
	jq -nc --argjson first "$1" --argjson last "$2" 'range($first; $last + 1) |
		{conversation_id: "c", conversation_seq: ., to: ["lou"], offset: (. - 1)}'
}
