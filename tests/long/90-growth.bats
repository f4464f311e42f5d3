#!/usr/bin/env bats
# A million messages through both chains, a process for each stage: none has
# more threads and descriptors at the end than after a tenth, or much more memory.

# shellcheck disable=SC2034,SC2154  # what chains.bash takes, and gives
bats_require_minimum_version 1.5.0
load ../lib/faults

messages=${QIM_MESSAGES:-1000000}

setup() {
	need_kafka 1
	RUN=$BATS_TEST_TMPDIR
	OUTBOX=$(unique outbox) DISPATCH=$(unique dispatch) GROUP=$(unique group)
	# What a reader has fetched in advance is little, and doesn't hide what
	# grows.
	set -- -n 16
	for value in -X queued.max.messages.kbytes=4096 \
		-X fetch.message.max.bytes=65536; do
		set -- "$@" --stage "outbox-read=$value"
	done
	FANOUT_MORE=("$@") MAILBOX_MORE=("$@")
	kafka_create_topics "$OUTBOX:4" "$DISPATCH:16"
	redis_start growth-a
	redis_start growth-b
	REDIS=127.0.0.1:$(redis_port growth-a),127.0.0.1:$(redis_port growth-b)
}

teardown() {
	touch "$RUN/stop"
	redis_kill growth-a
	redis_kill growth-b
}

# One recipient each, so that every stage has as many records.
make_messages() {
	seq 0 $((messages - 1)) | awk '{
		printf "{\"message_id\":\"m%d\",\"conversation_id\":\"c%d\",\"conversation_seq\":%d,\"sender\":\"s\",\"created_at\":1,\"payload\":\"%080d\",\"recipients\":[\"u%d\"]}\n",
			$1, $1 % 1000, int($1 / 1000) + 1, $1, $1 % 5000 }'
}

# look: lines "chain/program pid records KiB threads descriptors", KiB the most
# that the process ever had.
look() {
	local chain pid name figures
	for chain in fanout mailbox; do
		[[ -e $RUN/$chain.pid ]] || continue
		for pid in $(pgrep -P "$(<"$RUN/$chain.pid")" -x \
			'outbox-read|fanout-plan|dispatch-produc|mailbox-apply|offset-commit')
		do
			name=$(<"/proc/$pid/comm")
			figures=("$RUN/locks/$chain"*/qim-*-"$name"*.prom)
			printf '%s ' "$chain/$name" "$pid" "$(sed -n \
				's/^qim_records_total{.*} //p' "${figures[0]}")" \
				"$(awk '/^VmHWM|^Threads/ { print $2 }' \
					"/proc/$pid/status" | xargs)" \
				"$(find "/proc/$pid/fd" -mindepth 1 | wc -l)"
			echo
		done
	done
}

keep_looking() {
	while [[ ! -e $RUN/seen ]]; do
		look 2>/dev/null || true
		sleep 0.3
	done
}

# is_done CHAIN TOPIC: or a person must act, which stop_chains says.
is_done() {
	[[ -e $RUN/$1.fatal ]] || expect_committed_end "$GROUP-$1" "$2"
}

# 16 MiB more of memory are less than one allocation for each message would be, of
# which the smallest takes 32 bytes.
@test "a million messages: no more threads, descriptors, memory than after a tenth" {
	local looks name
	make_messages | outbox-write -q -b "$KAFKA_BROKERS" -t "$OUTBOX"
	keep_looking >"$RUN/looks" 3>&- &
	looks=$!
	start_chains fanout
	wait_until 1000 is_done fanout "$OUTBOX"
	# All of it is there, so that nobody waits for the one before.
	start_chains mailbox
	wait_until 1000 is_done mailbox "$DISPATCH"
	sleep 2
	touch "$RUN/seen"
	wait "$looks"
	stop_chains
	for name in outbox-read fanout-plan dispatch-produc mailbox-apply \
		offset-commit; do
		echo "$name $(memory_of "$name")"
	done >"$RUN/bounds"
	awk -v messages="$messages" -f - "$RUN/bounds" "$RUN/looks" \
		>"$RUN/grown" <<-'END' || fail "$(<"$RUN/grown")"
		NR == FNR { bound[$1] = $2 * 1024; next }
		NF != 6 || $3 < messages / 10 { next }
		!($1 in pid) { pid[$1] = $2; at[$1] = $3; kib[$1] = $4; threads[$1] = $5; fds[$1] = $6 }
		{ last[$1] = $0 }
		END {
			for (name in last) {
				split(last[name], now)
				split(name, part, "/")
				print name ": at " at[name] " and " now[3] " records: KiB " kib[name], now[4] ", threads " threads[name], now[5] ", descriptors " fds[name], now[6]
				seen++
				if (now[2] != pid[name] || now[3] < messages || at[name] > messages / 2 ||
					now[4] > kib[name] + 16384 || now[4] > bound[part[2]] ||
					now[5] > threads[name] || now[6] > fds[name]) {
					print "wrong: " name
					bad = 1
				}
			}
			exit bad || seen != 7
		}
	END
	sort "$RUN/grown" | sed 's/^/# /' >&3
}
