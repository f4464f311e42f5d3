# The harness checks itself: what the other files build on must hold, and must
# fail loudly where it doesn't.
bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/redis
load ../lib/kafka

teardown() {
	stop_mock
}

# fake_mock BODY: a broker-mock of our own, first in PATH.
fake_mock() {
	mkdir -p "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/bash\n%s\n' "$1" >"$BATS_TEST_TMPDIR/bin/broker-mock"
	chmod +x "$BATS_TEST_TMPDIR/bin/broker-mock"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

@test "wait_until gives up, and says for what it waited" {
	run -1 wait_until 0 bash -c 'echo why; exit 3'
	expect_message 'not within 0 s: bash -c'
	expect_message ': why'
}

@test "expect_message fails with what was seen instead" {
	run --separate-stderr bash -c 'echo seen >&2; exit 3'
	expect_message seen
	run -1 expect_message unseen
	[[ $output == *'status: 3'*'stderr: seen'* ]]
}

@test "free_port never gives the same port twice" {
	for _ in {1..10}; do
		free_port >>"$BATS_TEST_TMPDIR/a" &
		free_port >>"$BATS_TEST_TMPDIR/b" &
	done
	wait
	run sort "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
	[ "${#lines[@]}" = 20 ]
	run sort -u "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
	[ "${#lines[@]}" = 20 ]
}

@test "a server ends with the process that started it, kill -9 included" {
	local pid
	# shellcheck disable=SC2016,SC2154
	env -u BATS_ROOT_PID QIM_STATE="$BATS_TEST_TMPDIR/state" bash -c '
		source "$1/tests/lib/common.bash"
		daemon_start "$QIM_STATE/server" "$QIM_STATE/data" sleep 100
		mkdir "$QIM_STATE/data"
		kill -9 $$' bash "$qim_root" || true
	pid=$(<"$BATS_TEST_TMPDIR/state/server/pid")
	wait_until 30 test ! -e "$BATS_TEST_TMPDIR/state/data"
	run ! kill -0 "$pid"
}

@test "start_mock reads the bootstrap servers; stop_mock ends it" {
	# shellcheck disable=SC2016
	fake_mock 'echo "127.0.0.1:1,127.0.0.1:2"; echo "$*" >&2; exec sleep 100'
	start_mock -n 2 -t a:4
	[ "$MOCK_BROKERS" = 127.0.0.1:1,127.0.0.1:2 ]
	grep -qx -- '-n 2 -t a:4' "$(scope_dir)/mock/err"
	kill -0 "$MOCK_PID"
	stop_mock
	run ! kill -0 "$MOCK_PID"
}

@test "start_mock fails when the mock dies, and gives its reason" {
	fake_mock 'echo "no port" >&2; exit 71'
	run -1 start_mock
	expect_message 'no port'
}

@test "a redis-server is empty, and keeps nothing over kill -9" {
	redis_start a
	[ "$(redis_cli a DBSIZE)" = 0 ]
	redis_cli a SET key value
	redis_kill a
	run ! redis_pid a
	redis_restart a
	[ "$(redis_cli a DBSIZE)" = 0 ]
	redis_stop a
}

@test "a redis-server with a log keeps its data and port over kill -9" {
	local port
	redis_start a --appendonly yes --appendfsync always
	port=$(redis_port a)
	redis_cli a SET key value
	redis_kill a
	redis_restart a
	[ "$(redis_cli a GET key)" = value ]
	[ "$(redis-cli -s "$(redis_socket a)" GET key)" = value ]
	[ "$(redis_port a)" = "$port" ]
	redis_stop a
}

@test "a redis-server that doesn't start fails the test with its reason" {
	run -1 redis_start a --no-such-setting 1
	expect_message 'no-such-setting'
}

@test "need_redis starts one server for all" {
	local pid
	need_redis
	pid=$(redis_pid shared)
	need_redis
	[ "$(redis_pid shared)" = "$pid" ]
	[ "$(redis-cli -p "$REDIS_PORT" PING)" = PONG ]
	[ "$(redis-cli -s "$REDIS_SOCKET" PING)" = PONG ]
}

@test "one broker: topics, offsets, deleted records, groups" {
	local topic group
	need_kafka 1
	topic=$(unique topic)
	group=$(unique group)
	kafka_create_topics "$topic:2" "$topic.b:64" retention.ms=86400000
	run -1 kafka_create_topic "$topic" 2
	expect_message TOPIC_ALREADY_EXISTS
	seq 100 | kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 1 -X acks=all
	[ "$(kafka_end_offsets "$topic")" = $'0 0\n1 100' ]
	kafka_delete_records "$topic" 1 40
	[ "$(kafka_begin_offsets "$topic")" = $'0 0\n1 40' ]
	[ "$(kafka_count "$topic")" = 60 ]
	[ -z "$(kafka_committed "$group" "$topic")" ]
	kafka_commit "$group" "$topic" 1:50
	[ "$(kafka_committed "$group" "$topic")" = '1 50' ]
	kafka_delete_group "$group"
	[ -z "$(kafka_committed "$group" "$topic")" ]
	kafka_delete_topics "$topic" "$topic.b"
	run -1 env KAFKA_ADMIN_SECONDS=0 \
		"$qim_root/tests/lib/kafka-admin.py" "$KAFKA_BROKERS" ends "$topic"
	expect_message UNKNOWN_TOPIC_OR_PARTITION
}

@test "brokers that don't start fail the test at once, with the reason" {
	export KAFKA_DIR=$BATS_TEST_TMPDIR/kafka
	run -1 kafka_start 1 process.roles=nonsense
	expect_message 'Invalid value nonsense'
	kafka_stop
}

@test "three brokers: a killed leader is replaced, and comes back in sync" {
	local topic leader
	need_kafka 3
	topic=$(unique topic)
	kafka_create_topic "$topic" 1
	seq 1000 | kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0 -X acks=all
	leader=$(kafka_leader "$topic" 0)
	kafka_kill "$leader"
	run ! kafka_pid "$leader"
	kafka_wait_new_leader "$topic" 0 "$leader"
	seq 1001 2000 |
		kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0 -X acks=all
	kafka_restart "$leader"
	kafka_wait_isr "$topic"
	[ "$(kafka_isr "$topic" 0)" = 1,2,3 ]
	kcat -C -e -q -b "$KAFKA_BROKERS" -t "$topic" -p 0 -o beginning |
		cmp - <(seq 2000)
	kafka_elect "$topic"
	kafka_wait_isr
}

@test "need_kafka repairs what an earlier test left" {
	local pid
	need_kafka 3
	pid=$(kafka_pid 1)
	kafka_pause 2
	need_kafka 3
	[ "$(kafka_pid 1)" = "$pid" ]
	kafka_kill 3
	need_kafka 3
	kafka_pid 3
}

@test "KAFKA_PROXIED: brokers are reached through the proxy alone" {
	local topic leader
	need_kafka 3
	topic=$(unique topic)
	kafka_create_topic "$topic" 1
	leader=$(kafka_leader "$topic" 0)
	[ "$(kcat -L -J -b "$KAFKA_PROXIED" | jq -r '.brokers | sort_by(.id) |
		map(.name) | join(",")')" = "$KAFKA_PROXIED" ]
	seq 100 | kcat -P -b "$KAFKA_PROXIED" -t "$topic" -p 0 -X acks=all
	(($(proxy_count "$leader" up) > 100))
	# Held, nothing gets through; what goes past the proxy does.
	proxy_set brokers hold both
	run -1 timeout 20 kcat -P -b "$KAFKA_PROXIED" -t "$topic" -p 0 \
		-X message.timeout.ms=1000 <<<lost
	seq 101 200 | kcat -P -b "$KAFKA_BROKERS" -t "$topic" -p 0 -X acks=all
	# What an earlier test left is mended.
	need_kafka 3
	kcat -C -e -q -b "$KAFKA_PROXIED" -t "$topic" -p 0 -o beginning |
		cmp - <(seq 200)
}
