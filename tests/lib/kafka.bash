# shellcheck shell=bash
# kafka.bash: a real Apache Kafka of one or three brokers for tests.
#
# Most tests call `need_kafka 1` or `need_kafka 3`, which starts the suite's
# shared cluster once (and repairs it where an earlier test left a broker
# dead or stopped), and use topics and groups named by `unique`. A test that
# needs settings of its own calls kafka_start with KAFKA_DIR set.
#
# All state is in KAFKA_DIR: brokers (the bootstrap servers), N/ for node N
# (1, 2, 3) with its properties, pid, log (out; out.before of its earlier lives). Any process that has KAFKA_DIR
# and KAFKA_BROKERS can source this and use the cluster.
#
# Clients that begin with KAFKA_PROXIED (of need_kafka, of kafka_start COUNT
# proxy) are sent through a proxy for each broker, which proxy_set 1, 2, 3 or
# brokers slows, cuts, holds (lib/proxy). What the brokers say to each other,
# and KAFKA_BROKERS, with which the functions here ask, goes past it.

# shellcheck source=tests/lib/common.bash
source "${BASH_SOURCE[0]%/*}/common.bash"
# shellcheck source=tests/lib/proxy.bash
source "${BASH_SOURCE[0]%/*}/proxy.bash"

kafka_jars() {
	echo "${QIM_KAFKA_JARS:-$qim_root/build/kafka-jars}"
}

kafka_admin() {
	python3 -ES "$qim_root/tests/lib/kafka-admin.py" "$KAFKA_BROKERS" "$@"
}

# Brokers write much and wait for none of it to be kept: tmpfs where there is
# a roomy one (containers often have 64 MiB).
kafka_data_parent() {
	local free
	free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
	if [[ -w /dev/shm ]] && ((${free:-0} > 2097152)); then
		echo /dev/shm
	else
		echo "${TMPDIR:-/tmp}"
	fi
}

# kafka_write_node N COUNT [name=value]...
kafka_write_node() {
	local node=$1 count=$2 dir=$KAFKA_DIR/$1 data copies
	copies=$((count < 3 ? 1 : 3))
	data=$(<"$KAFKA_DIR/data")/$node
	mkdir -p "$dir" "$data"
	# A broker that is killed is fenced after session.timeout (9 s unless
	# set): 6 s still bears a busy machine and shortens every fault test.
	# Compaction looks for work every 15 s unless told. Leaders move when a
	# test has them move, and not back, every five minutes, while it runs.
	cat >"$dir/server.properties" <<-EOF
		process.roles=broker,controller
		node.id=$node
		controller.quorum.voters=$(<"$KAFKA_DIR/voters")
		controller.listener.names=CONTROLLER
		listeners=PLAINTEXT://127.0.0.1:$(<"$dir/port"),CONTROLLER://127.0.0.1:$(<"$dir/controller-port")
		log.dirs=$data
		auto.create.topics.enable=false
		default.replication.factor=$copies
		min.insync.replicas=$((copies < 3 ? 1 : 2))
		offsets.topic.replication.factor=$copies
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=$copies
		transaction.state.log.min.isr=$((copies < 3 ? 1 : 2))
		transaction.state.log.num.partitions=4
		share.coordinator.state.topic.replication.factor=$copies
		group.initial.rebalance.delay.ms=0
		broker.session.timeout.ms=6000
		broker.heartbeat.interval.ms=1000
		log.cleaner.backoff.ms=200
		auto.leader.rebalance.enable=false
	EOF
	if [[ -e $dir/proxy-port ]]; then
		cat >>"$dir/server.properties" <<-EOF
			listeners=PLAINTEXT://127.0.0.1:$(<"$dir/port"),PROXIED://127.0.0.1:$(<"$dir/target-port"),CONTROLLER://127.0.0.1:$(<"$dir/controller-port")
			advertised.listeners=PLAINTEXT://127.0.0.1:$(<"$dir/port"),PROXIED://127.0.0.1:$(<"$dir/proxy-port")
			listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
			inter.broker.listener.name=PLAINTEXT
		EOF
	fi
	printf '%s\n' "${@:3}" >>"$dir/server.properties"
	# What `StorageTool format` writes, without three JVMs: the snapshot is
	# the tool's own, from tests/kafka/fetch.
	cp "$(kafka_jars)/bootstrap.checkpoint" "$data/"
	printf '%s\n' version=1 "node.id=$node" \
		"cluster.id=$(<"$KAFKA_DIR/cluster-id")" \
		"directory.id=$(kafka_uuid)" >"$data/meta.properties"
}

# 16 bytes in base64 for URLs; none of Kafka's reserved ids, nor with a leading
# dash.
kafka_uuid() {
	echo "Q$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 2-22)"
}

kafka_run_node() {
	local dir=$KAFKA_DIR/$1 jars
	kafka_harms
	jars=$(kafka_jars)
	[[ ! -e $dir/out ]] || cat "$dir/out" >>"$dir/out.before"
	rm -f "$dir/out"
	daemon_start "$dir" "$(<"$KAFKA_DIR/data")" java -Xmx512m \
		-XX:+UseSerialGC -XX:SharedArchiveFile="$jars/classes.jsa" \
		-cp "$jars/*" \
		"-Dlog4j2.configurationFile=$qim_root/tests/kafka/log4j2.properties" \
		kafka.Kafka "$dir/server.properties"
}

# kafka_harms: what is in sync isn't known until kafka_repair has looked.
kafka_harms() {
	: >"$KAFKA_DIR/harmed"
}

kafka_nodes() {
	cat "$KAFKA_DIR/nodes"
}

# A broker that came back is still in the others' view of its last life for
# seconds; that it has started is only in its own log.
# shellcheck disable=SC2120
kafka_is_up() {
	local n
	for n in $(kafka_nodes); do
		grep -q 'Kafka Server started' "$KAFKA_DIR/$n/out" ||
			fail "broker $n hasn't started" || return
	done
	KAFKA_ADMIN_SECONDS=0 kafka_admin insync "$@"
}

kafka_is_up_or_dead() {
	local n
	for n in $(kafka_nodes); do
		kafka_pid "$n" >/dev/null || return 0
	done
	# shellcheck disable=SC2119
	kafka_is_up
}

# kafka_start_proxy COUNT: its ports, and the process.
kafka_start_proxy() {
	local n port target listeners=() proxied=''
	for ((n = 1; n <= $1; n++)); do
		port=$(free_port)
		target=$(free_port)
		echo "$port" >"$KAFKA_DIR/$n/proxy-port"
		echo "$target" >"$KAFKA_DIR/$n/target-port"
		listeners+=("$n=$port:$target")
		proxied+=,127.0.0.1:$port
	done
	echo "${proxied#,}" >"$KAFKA_DIR/proxied"
	export KAFKA_PROXIED=${proxied#,}
	proxy_run "$KAFKA_DIR/proxy" "${listeners[@]}"
}

# kafka_start COUNT [proxy] [name=value]...: 1 or 3 brokers, empty, with these
# settings on top; sets and exports KAFKA_BROKERS, with proxy KAFKA_PROXIED
# too. KAFKA_DIR must be set.
kafka_start() {
	local count=$1 n port proxy='' brokers='' voters=''
	[[ $count == [13] ]] || fail "kafka_start: 1 or 3, not $count" || return
	if [[ ${2:-} == proxy ]]; then
		proxy=1
		set -- "$1" "${@:3}"
	fi
	"$qim_root/tests/kafka/fetch" || return
	kafka_stop
	mkdir -p "$KAFKA_DIR"
	mktemp -d "$(kafka_data_parent)/qim-kafka-XXXXXX" >"$KAFKA_DIR/data"
	# For the watchdog to remove the data even when no broker lives.
	daemon_start "$KAFKA_DIR/keeper" "$(<"$KAFKA_DIR/data")" sleep infinity
	kafka_uuid >"$KAFKA_DIR/cluster-id"
	for ((n = 1; n <= count; n++)); do
		mkdir -p "$KAFKA_DIR/$n"
		port=$(free_port)
		echo "$port" >"$KAFKA_DIR/$n/port"
		brokers+=,127.0.0.1:$port
		port=$(free_port)
		echo "$port" >"$KAFKA_DIR/$n/controller-port"
		voters+=,$n@127.0.0.1:$port
	done
	echo "${voters#,}" >"$KAFKA_DIR/voters"
	seq "$count" >"$KAFKA_DIR/nodes"
	export KAFKA_BROKERS=${brokers#,}
	unset KAFKA_PROXIED
	[[ -z $proxy ]] || kafka_start_proxy "$count" || return
	for ((n = 1; n <= count; n++)); do
		kafka_write_node "$n" "$count" "${@:2}"
		kafka_run_node "$n"
	done
	# shellcheck disable=SC2119
	if ! wait_until 180 kafka_is_up_or_dead || ! kafka_is_up; then
		grep -hm 5 -E 'ERROR|FATAL|Exception|Error' \
			"$KAFKA_DIR"/[123]/{out,err} >&2
		kafka_end_nodes
		fail "Apache Kafka doesn't start"
		return
	fi
	echo "$KAFKA_BROKERS" >"$KAFKA_DIR/brokers"
}

kafka_end_nodes() {
	local n
	for n in $(kafka_nodes); do
		daemon_signal "$KAFKA_DIR/$n" KILL
	done
}

# kafka_stop: end all brokers at once and throw their data away.
kafka_stop() {
	[[ -e $KAFKA_DIR/nodes ]] || return 0
	kafka_end_nodes
	daemon_signal "$KAFKA_DIR/proxy" KILL
	daemon_signal "$KAFKA_DIR/keeper" KILL
	rm -rf -- "$(<"$KAFKA_DIR/data")" "$KAFKA_DIR"
}

# kafka_pid N; fails when the broker isn't running.
kafka_pid() {
	daemon_pid "$KAFKA_DIR/$1"
}

# kafka_kill N: kill -9. kafka_term N: an orderly stop, its leaders move first.
# Both return when it is gone.
kafka_kill() {
	kafka_harms
	daemon_signal "$KAFKA_DIR/$1" KILL
}

kafka_term() {
	kafka_harms
	daemon_signal "$KAFKA_DIR/$1" TERM
}

# kafka_pause N, kafka_resume N: SIGSTOP and SIGCONT.
kafka_pause() {
	kafka_harms
	daemon_signal "$KAFKA_DIR/$1" STOP
}

kafka_resume() {
	daemon_signal "$KAFKA_DIR/$1" CONT
}

# kafka_restart N: start it again, with its data (stops it where it runs). It
# doesn't wait: kafka_wait_isr does.
kafka_restart() {
	kafka_term "$1"
	kafka_run_node "$1"
}

# kafka_wait_isr [TOPIC]...: until all brokers are up and all replicas of these
# topics (of all) are in sync; 120 s.
# shellcheck disable=SC2120  # tests pass topics
kafka_wait_isr() {
	wait_until 120 kafka_is_up "$@"
}

# kafka_leader TOPIC PARTITION: the node; -1 while there is none.
kafka_leader() {
	kafka_admin topic "$1" | awk -v p="$2" '$2 == p { print $3 }'
}

kafka_isr() {
	kafka_admin topic "$1" | awk -v p="$2" '$2 == p { print $5 }'
}

kafka_has_new_leader() {
	local leader
	leader=$(kafka_leader "$1" "$2") || return
	[[ -n $leader && $leader != -1 && $leader != "$3" ]] ||
		fail "the leader is $leader"
}

# kafka_wait_new_leader TOPIC PARTITION OLD: until a node other than OLD leads;
# 30 s.
kafka_wait_new_leader() {
	wait_until 30 kafka_has_new_leader "$@"
}

# kafka_create_topic NAME PARTITIONS [config=value]...: with the cluster's
# replication. kafka_create_topics NAME:PARTITIONS[:REPLICATION]...
# [config=value]...: several in one request.
kafka_create_topic() {
	kafka_admin create "$1:$2" "${@:3}"
}

kafka_create_topics() {
	kafka_admin create "$@"
}

# kafka_grow_topic NAME PARTITIONS: to so many.
kafka_grow_topic() {
	kafka_admin grow "$1:$2"
}

kafka_delete_topics() {
	kafka_admin delete "$@"
}

# Lines "partition offset": of the next record to be written, of the first.
kafka_end_offsets() {
	kafka_admin ends "$1"
}

kafka_begin_offsets() {
	kafka_admin begins "$1"
}

# kafka_count TOPIC: end offsets less begin offsets, of all partitions (more
# than the records where there are gaps or transaction markers).
kafka_count() {
	{ kafka_begin_offsets "$1" && echo && kafka_end_offsets "$1"; } |
		awk 'BEGIN { s = -1 } !NF { s = 1 } { n += s * $2 } END { print n }'
}

# kafka_delete_records TOPIC PARTITION OFFSET: those below OFFSET.
kafka_delete_records() {
	kafka_admin trim "$1" "$2:$3"
}

# kafka_committed GROUP TOPIC: lines "partition offset", of those that have one.
kafka_committed() {
	kafka_admin committed "$1" "$2" | cut -d ' ' -f 2-
}

# kafka_commit GROUP TOPIC PARTITION:OFFSET...: as any client may, also back.
kafka_commit() {
	kafka_admin commit "$@"
}

kafka_delete_group() {
	kafka_admin forget "$1"
}

# kafka_elect TOPIC: give the leadership back to the preferred replicas.
kafka_elect() {
	kafka_admin elect "$1"
}

kafka_repair() {
	local n
	proxy_clear brokers || return
	for n in $(kafka_nodes); do
		if ! kafka_pid "$n" >/dev/null; then
			kafka_run_node "$n"
		elif [[ $(ps -o stat= -p "$(kafka_pid "$n")") == T* ]]; then
			kafka_resume "$n"
		fi
	done
	[[ -e $KAFKA_DIR/harmed ]] || return 0
	# shellcheck disable=SC2119
	kafka_wait_isr && rm "$KAFKA_DIR/harmed"
}

kafka_ensure() {
	if [[ -e $KAFKA_DIR/failed ]]; then
		fail "Apache Kafka didn't start for an earlier test"
	elif [[ -e $KAFKA_DIR/brokers ]]; then
		KAFKA_BROKERS=$(<"$KAFKA_DIR/brokers") kafka_repair
	elif ! kafka_start "$1" proxy; then
		mkdir -p "$KAFKA_DIR"
		touch "$KAFKA_DIR/failed"
		return 1
	fi
}

# need_kafka COUNT: the suite's cluster of 1 or 3; sets and exports KAFKA_DIR,
# KAFKA_BROKERS and KAFKA_PROXIED. Leave it as you found it: all brokers up, and in sync.
need_kafka() {
	export KAFKA_DIR=$QIM_STATE/kafka$1
	under_lock "kafka$1" kafka_ensure "$1" || return
	KAFKA_BROKERS=$(<"$KAFKA_DIR/brokers")
	KAFKA_PROXIED=$(<"$KAFKA_DIR/proxied")
	export KAFKA_BROKERS KAFKA_PROXIED
}
