#!/usr/bin/env bats
# log-audit on a real broker: what was put in is found; transactions, deleted
# records, many records.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/kafka

setup() {
	need_kafka 1
	topic=$(unique topic)
}

# produce PARTITION: lines "KEY NUMBER".
produce() {
	awk '{ printf "%s|seq=%s\n", $1, $2 }' |
		kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" -p "$1" -K '|'
}

audit() {
	timeout -k 5 120 log-audit -b "$KAFKA_BROKERS" -t "$topic" --seq seq "$@"
}

@test "what was put in is found, all of it" {
	kafka_create_topic "$topic" 3
	# Each key has 5,000 numbers; k3 and k7 are damaged.
	awk 'BEGIN { for (n = 1; n <= 5000; n++) for (k = 0; k < 10; k++) {
		if (k == 3 && n == 4000) { print "k3", 4001; print "k3", 4000 }
		else if (k == 3 && n == 4001) continue
		else if (k == 7 && n >= 100 && n < 120) continue
		else print "k" k, n
		if (k == 7 && n == 2000) for (i = 1981; i <= 2000; i++) print "k7", i
	} }' | produce 1
	run -1 --separate-stderr audit --from 1 --list 1 --expect-no all
	expect_message 'log-audit: error: 20 duplicates, 1 inversions, 1 gaps: none expected'
	printf '%s\n' "${lines[@]}" | jq -c 'del(.offset, .after_offset)' | diff - <(
		cat <<-'END'
			{"found":"duplicate","group":"k7","partition":1,"seq":1981}
			{"found":"inversion","group":"k3","partition":1,"seq":4000,"after_seq":4001}
			{"found":"gap","group":"k7","first":100,"last":119}
			{"records":50000,"unreadable":0,"groups":10,"duplicates":20,"inversions":1,"gaps":1,"missing":20}
		END
	)
	# The places are true.
	[ "$(kcat -C -b "$KAFKA_BROKERS" -t "$topic" -p 1 -c 1 -q \
		-o "$(jq -r 'select(.found == "inversion").offset' <<<"${lines[1]}")")" = seq=4000 ]
}

@test "aborted transactions and markers are no records, and no gaps" {
	kafka_create_topic "$topic" 1
	transact -X transactional.id="$topic" "$KAFKA_BROKERS" "$topic" \
		begin keyed:0:k:seq=1 keyed:0:k:seq=2 commit \
		begin keyed:0:k:seq=3 keyed:0:k:seq=9 flush abort \
		begin keyed:0:k:seq=3 commit
	[ "$(kafka_end_offsets "$topic")" = '0 8' ]
	run -0 audit --expect-no all
	[ "$output" = '{"records":3,"unreadable":0,"groups":1,"duplicates":0,"inversions":0,"gaps":0,"missing":0}' ]
}

@test "records below the log's beginning are no gap; -o there is 65" {
	kafka_create_topic "$topic" 1
	seq 100 | sed 's/^/k /' | produce 0
	kafka_delete_records "$topic" 0 40
	run -0 audit --expect-no all
	[ "$output" = '{"records":60,"unreadable":0,"groups":1,"duplicates":0,"inversions":0,"gaps":0,"missing":0}' ]
	run -0 audit --from 1
	[ "${lines[0]}" = '{"found":"gap","group":"k","first":1,"last":40}' ]
	run -65 --separate-stderr audit -o 5
	expect_message "${topic}[0]: offset out of range: start 5 (explicit), the log holds 40 to 100"
}

@test "a million records with ids, over two partitions" {
	local i
	kafka_create_topic "$topic" 2
	for i in 0 1; do
		seq 500000 | awk -v i=$i '{
			printf "k%d|seq=%d id=%d.%d\n", $1 % 1000, $1, i, $1 }' |
			kcat -P -b "$KAFKA_BROKERS" -X acks=all -t "$topic" \
				-p $i -K '|'
	done
	run -0 audit --id id --expect-no duplicates,inversions,unreadable --list 0
	[ "$output" = '{"records":1000000,"unreadable":0,"groups":1000,"duplicates":0,"inversions":0,"gaps":499000,"missing":498501000}' ]
	run -0 audit --list 0
	[[ "$output" == *'"duplicates":500000,'* ]]
}
