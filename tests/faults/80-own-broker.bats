#!/usr/bin/env bats
# A broker of this file's own, on a file system of 64 MiB, which is full in the
# end; with a listener for passwords (SASL) and three for TLS, each behind a
# proxy, and rights.

# shellcheck disable=SC2034,SC2154  # the harness reads and sets them
bats_require_minimum_version 1.5.0
load ../lib/faults
load ../lib/proxy

setup_file() {
	export KAFKA_DIR=$BATS_FILE_TMPDIR/kafka TLS=$BATS_FILE_TMPDIR/tls
	small_disk
	kafka_start 1
	make_certificates
	add_listeners
	kafka_restart 1
	kafka_wait_isr
	# What no rule forbids.
	kafka_admin grant topic '*' User:chain all
	kafka_admin grant group '*' User:chain all
}

teardown_file() {
	proxy_stop
	kafka_stop
	daemon_signal "$BATS_FILE_TMPDIR/disk" KILL
}

setup() {
	faults_begin "$KAFKA_BROKERS"
}

teardown() {
	faults_end
}

# The mount is that of a process of its own, and goes with it.
small_disk() {
	local at=$BATS_FILE_TMPDIR/disk
	mkdir -p "$at/data"
	daemon_start "$at" '' unshare -rm bash -c \
		'mount -t tmpfs -o size=64m none "$0" && echo yes && exec sleep infinity' \
		"$at/data"
	wait_until 30 test -s "$at/out"
	echo "/proc/$(daemon_pid "$at")/root$at/data" >"$BATS_FILE_TMPDIR/disk.path"
}

kafka_data_parent() {
	cat "$BATS_FILE_TMPDIR/disk.path"
}

# certificate NAME SUBJECT-ALTERNATIVE CA [openssl option...]: NAME.pem, as a broker
# wants it.
certificate() {
	openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "/CN=$1" \
		-out "$1.csr"
	openssl x509 -req -in "$1.csr" -CA "$3.crt" -CAkey "$3.key" \
		-CAcreateserial -extfile <(echo "subjectAltName=$2") \
		"${@:4}" -out "$1.crt"
	cat "$1.key" "$1.crt" >"$1.pem"
}

make_certificates() {
	local name
	mkdir "$TLS"
	cd "$TLS" || return
	{
		for name in ca other-ca; do
			openssl req -x509 -newkey rsa:2048 -nodes -days 2 \
				-subj "/CN=$name" -keyout $name.key -out $name.crt
		done
		certificate good IP:127.0.0.1,DNS:localhost ca -days 2
		certificate name DNS:elsewhere.example ca -days 2
		# It has ended a day before it began.
		certificate old IP:127.0.0.1,DNS:localhost ca -days -1
	} >"$TLS/log" 2>&1 || fail "$(<"$TLS/log")"
}

add_listeners() {
	local name listeners='' proxies=() advertised='' map='' port
	local dir=$KAFKA_DIR/1
	for name in sasl good name old; do
		port=$(free_port)
		proxies+=("$name:$port")
		listeners+=,${name^^}://127.0.0.1:$port
		map+=,${name^^}:SSL
	done
	proxy_start "${proxies[@]}"
	for name in sasl good name old; do
		advertised+=,${name^^}://127.0.0.1:$(proxy_port $name)
	done
	(umask 077 && cat /proc/sys/kernel/random/uuid >"$BATS_FILE_TMPDIR/password")
	cat >>"$dir/server.properties" <<-END
		listeners=PLAINTEXT://127.0.0.1:$(<"$dir/port"),CONTROLLER://127.0.0.1:$(<"$dir/controller-port")$listeners
		advertised.listeners=PLAINTEXT://127.0.0.1:$(<"$dir/port")$advertised
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT${map/SASL:SSL/SASL:SASL_PLAINTEXT}
		listener.name.sasl.sasl.enabled.mechanisms=PLAIN
		listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_chain="$(<"$BATS_FILE_TMPDIR/password")";
		authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
		super.users=User:ANONYMOUS
		# An index's new page that a full disk has no room for doesn't
		# end Kafka 4.1, which goes on with offsets it has written: its
		# coordinator never loads them again.  So no index grows here.
		log.index.interval.bytes=1073741824
	END
	for name in good name old; do
		printf 'listener.name.%s.ssl.keystore.%s\n' \
			$name type=PEM $name "location=$TLS/$name.pem"
	done >>"$dir/server.properties"
}

# through LISTENER command...: the chains go there, with the properties that it
# prints, by its proxy, which counts.
through() {
	BROKERS=127.0.0.1:$(proxy_port "$1")
	(umask 077 && "${@:2}" >"$RUN/properties")
	FANOUT_MORE+=(-F "$RUN/properties")
	MAILBOX_MORE+=(-F "$RUN/properties")
}

sasl_lines() {
	printf '%s\n' security.protocol=sasl_plaintext sasl.mechanisms=PLAIN \
		sasl.username=chain "sasl.password=$1"
}

tls_lines() {
	printf '%s\n' security.protocol=ssl "ssl.ca.location=$TLS/$1.crt"
}

# forbidden CHAIN TEXT topic|group NAME read|write: to its user, for a while.
forbidden() {
	fault "$1: $5 of $4 is forbidden"
	kafka_admin deny "$3" "$4" User:chain "$5"
	expect_stop "$1" 77 "$2"
	kafka_admin undeny "$3" "$4" User:chain "$5"
	chains_start "$1"
}

# locked_out WHAT TEXT: both chains, with the properties that are there now.
locked_out() {
	local before
	fault "$1"
	before=$(proxy_count sasl accepted)
	chains_start
	expect_stop fanout 77 "$2"
	expect_stop mailbox 77 "$2"
	before=$(($(proxy_count sasl accepted) - before))
	echo "# connections with $1: $before" >&3
	((before < 40))
}

@test "passwords: a wrong one, a mechanism that is off, what a rule forbids: 77; no secret in a log" {
	SECRETS=("$(<"$BATS_FILE_TMPDIR/password")" wrong-battery)
	through sasl sasl_lines "${SECRETS[0]}"
	faults_start
	forbidden fanout 'opic authorization failed' topic "$DISPATCH" write
	forbidden mailbox 'opic authorization failed' topic "$DISPATCH" read
	forbidden fanout 'roup authorization failed' group "$GROUP-fanout" read
	caught_up 30 'rights taken and given'
	chains_stop
	sasl_lines wrong-battery >"$RUN/properties"
	locked_out 'a wrong password' 'uthentication failed'
	sasl_lines "${SECRETS[0]}" |
		sed s/=PLAIN/=SCRAM-SHA-256/ >"$RUN/properties"
	locked_out 'a mechanism that is off' 'supported mechanisms: PLAIN'
	sasl_lines "${SECRETS[0]}" >"$RUN/properties"
	chains_start
	expect_whole
}

# refused NAME CA: the fan-out, at a listener whose certificate is no good.
refused() {
	local before status=0
	fault "TLS: $1, $2"
	through "$1" tls_lines "$2"
	before=$(proxy_count "$1" accepted)
	"$qim_root/pipelines/fanout" --once --lock-dir "$RUN/locks3" \
		-b "$BROKERS" -t "$OUTBOX" -d "$DISPATCH" -g "$GROUP-tls" \
		--first beginning -F "$RUN/properties" --connect-ms 3000 \
		>"$RUN/refused.log" 2>&1 || status=$?
	echo "# TLS: $1, $2: exit $status, connections $(($(proxy_count "$1" accepted) - before)): $(tail -n 1 "$RUN/refused.log")" >&3
	[[ $status == 69 ]] && grep -q certificate "$RUN/refused.log" ||
		fail "exit $status: $(<"$RUN/refused.log")"
	(($(proxy_count "$1" accepted) - before < 100))
}

@test "TLS: a good certificate works; another CA, another host, an old one: refused" {
	local more=("${FANOUT_MORE[@]}") how
	refused good other-ca
	refused name ca
	refused old ca
	FANOUT_MORE=("${more[@]}") MAILBOX_MORE=("${more[@]}")
	through good tls_lines ca
	faults_start
	caught_up 30 TLS
	# Without the close_notify that ends a TLS connection in order.
	for how in cut reset; do
		fault "TLS connections: $how"
		proxy_set good $how
		caught_up 30 "TLS connections: $how"
	done
	RETRIED=1
	expect_whole
}

fill_disk() {
	cat /dev/zero >"$(<"$BATS_FILE_TMPDIR/disk.path")/filler" 2>/dev/null || true
	! kafka_pid 1 >/dev/null
}

@test "the broker's disk is full: it dies; space, and it is started again: all goes on" {
	RETRIED=1
	faults_start
	fault 'no space left'
	wait_until 60 fill_disk
	grep -qE 'No space left on device|unsafe memory access' "$KAFKA_DIR/1/out" ||
		fail "broker 1: $(tail -n 8 "$KAFKA_DIR/1/out")"
	sleep "$(long_or 60 2)"
	rm "$(<"$BATS_FILE_TMPDIR/disk.path")/filler"
	kafka_run_node 1
	wait_until 120 kafka_is_up && caught_up 60 'a full disk' ||
		fail "broker 1: $(tail -n 8 "$KAFKA_DIR/1/out")"
	expect_whole
}
