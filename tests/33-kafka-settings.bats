#!/usr/bin/env bats
# Settings of Kafka, in every program that has -b, -X and -F: checked before
# anything is connected.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

bats_require_minimum_version 1.5.0
load lib/common

# Nobody listens at port 1: a program that reached for it would say so.
program() {
	case $1 in
	outbox-read) outbox-read -b 127.0.0.1:1 -t outbox -g g "${@:2}" ;;
	outbox-write) outbox-write -b 127.0.0.1:1 -t outbox "${@:2}" ;;
	dispatch-produce) dispatch-produce -b 127.0.0.1:1 -t d "${@:2}" ;;
	offset-commit) offset-commit -b 127.0.0.1:1 -g g "${@:2}" ;;
	esac </dev/null
}

# refused PROGRAM TEXT option...: 78, one line with the text, nothing on stdout.
refused() {
	run -78 --separate-stderr program "$1" --connect-ms 60000 "${@:3}"
	expect_message "$1: error: $2"
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
}

all='outbox-read outbox-write dispatch-produce offset-commit'

@test "an unknown property, with the one that may be meant" {
	for name in $all; do
		refused "$name" '-X sokcet.timeout.ms: unknown property, is socket.timeout.ms meant?' \
			-X sokcet.timeout.ms=5000
		refused "$name" '-X nonsense: unknown property of librdkafka' \
			-X nonsense=1
		refused "$name" "-X socket.timeout.ms: 'soon': Invalid value" \
			-X socket.timeout.ms=soon
	done
}

@test "the nearest name, also of a second name and of one letter" {
	local pair
	for pair in ack:acks retires:retries linger.m:linger.ms \
		max.in.fligt:max.in.flight bootstrap.server:bootstrap.servers \
		request.required.ack:request.required.acks \
		message.send.max.retrys:message.send.max.retries \
		compresion.type:compression.type \
		security.protocl:security.protocol; do
		refused dispatch-produce \
			"-X ${pair%:*}: unknown property, is ${pair#*:} meant?" \
			-X "${pair%:*}=1"
	done
	# Names are exact: librdkafka's are all in small letters.
	refused dispatch-produce '-X Acks: unknown property, is acks meant?' \
		-X Acks=all
}

# bats test_tags=slow
@test "a number that librdkafka would read in part" {
	for name in $all; do
		refused "$name" "-X socket.timeout.ms: '5000ms': librdkafka takes it for 5000: wants just a number" \
			-X socket.timeout.ms=5000ms
		refused "$name" "-X message.timeout.ms: '4294967297': librdkafka takes it for 1: " \
			-X message.timeout.ms=4294967297
		refused "$name" "-X linger.ms: '5ms': librdkafka takes it for 5: " \
			-X linger.ms=5ms
		refused "$name" "-X max.in.flight: '+5garbage': librdkafka takes it for 5: " \
			-X max.in.flight=+5garbage
		# Numbers as they should be, and what only begins like one.
		run -69 --separate-stderr program "$name" --connect-ms 100 --check \
			-X linger.ms=0.5 -X retries=3 -X client.rack=1a \
			-X socket.keepalive.enable=1 -X acks=-1 -X log_level=6
	done
}

@test "properties that load code, run commands or break a promise" {
	for name in $all; do
		refused "$name" "-X plugin.library.paths: '/tmp/x.so': refused: it would load code" \
			-X plugin.library.paths=/tmp/x.so
		refused "$name" "-X sasl.kerberos.kinit.cmd: 'id': refused: it would run a command" \
			-X sasl.kerberos.kinit.cmd=id
		refused "$name" "-X enable.auto.commit: 'true': refused: only offset-commit commits" \
			-X enable.auto.commit=true
		refused "$name" "-X auto.offset.reset: 'latest': refused: " \
			-X auto.offset.reset=latest
		refused "$name" "-X isolation.level: 'read_uncommitted': refused: " \
			-X isolation.level=read_uncommitted
		refused "$name" "-X enable.idempotence: 'true': refused: only QIM_FANOUT_PRODUCER_IDEMPOTENCE decides it" \
			-X enable.idempotence=true
		refused "$name" "-X group.id: 'x': refused: -g names the group" \
			-X group.id=x
		refused "$name" "-X enable.ssl.certificate.verification: 'false': refused: " \
			-X enable.ssl.certificate.verification=false
	done
}

# Those of some kinds are refused for every program above.
# bats test_tags=slow
@test "every name that is refused" {
	local name
	for name in plugin.library.paths ssl.engine.location ssl.engine.id \
		ssl.providers sasl.kerberos.kinit.cmd \
		sasl.oauthbearer.token.endpoint.url test.mock.num.brokers \
		test.mock.broker.rtt enable.idempotence transactional.id \
		transaction.timeout.ms delivery.report.only.error \
		queuing.strategy enable.gapless.guarantee partitioner \
		enable.auto.commit \
		auto.commit.enable auto.commit.interval.ms \
		enable.auto.offset.store offset.store.method offset.store.path \
		offset.store.sync.interval.ms auto.offset.reset isolation.level \
		enable.partition.eof group.id log.queue \
		enable.ssl.certificate.verification \
		internal.termination.signal; do
		for program in dispatch-produce outbox-read; do
			refused "$program" "-X $name: '1': refused: " -X "$name=1"
		done
	done
	# All of the table are in this list: a test that misses one fails.
	run -0 bash -c 'sed -n "/^} denied/,/^};/p" "$1" | grep -c "{\""' _ \
		"$qim_root/common/kafka/settings-check.c"
	[ "$output" -eq 27 ]
	refused outbox-read "-X ssl.endpoint.identification.algorithm: 'none': refused: " \
		-X ssl.endpoint.identification.algorithm=none
}

@test "one property given twice" {
	for name in $all; do
		refused "$name" "bootstrap.servers: '127.0.0.1:1' by -b and 'other:2' by -X: it is one property, give it once" \
			-X bootstrap.servers=other:2
	done
	refused dispatch-produce "acks: 'all' by -X and '-1' by -X: it is one property" \
		-X request.required.acks=all -X acks=-1
}

@test "acks, in flight, retries and time against the promise" {
	refused dispatch-produce "-X acks: '2': refused: wants all, -1, 0 or 1" \
		-X acks=2
	refused dispatch-produce "-X acks: 'All': refused: wants all, -1, 0 or 1" \
		--not-durable -X acks=All
	refused dispatch-produce "-X acks: '1': refused: receipts promise durability: wants all or -1" \
		-X acks=1
	refused dispatch-produce "-X message.timeout.ms: '999': refused: wants 1000 to 2147483647 ms" \
		-X message.timeout.ms=999
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	refused dispatch-produce "-X acks: '1': refused: an idempotent producer wants all or -1" \
		--not-durable -X acks=1
	refused dispatch-produce "-X max.in.flight: '6': refused: an idempotent producer wants 1 to 5" \
		-X max.in.flight=6
	refused dispatch-produce "-X retries: '0': refused: an idempotent producer wants 1 or more" \
		-X retries=0
}

# contradiction NAME=VALUE TEXT: by -X, and by a file.
contradiction() {
	refused "$program" "-X ${1%=*}: '${1#*=}': refused: $2" -X "$1"
	echo "$1" >"$BATS_TEST_TMPDIR/properties"
	refused "$program" "-F line 1 ${1%=*}: '${1#*=}': refused: $2" \
		-F "$BATS_TEST_TMPDIR/properties"
}

# bats test_tags=slow
@test "idempotence against acks, in flight and retries, by any name" {
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=true
	for program in dispatch-produce outbox-write; do
		for name in acks request.required.acks; do
			for value in 0 1; do
				contradiction "$name=$value" \
					'an idempotent producer wants all or -1'
			done
			for value in 2 -2 ALL '' 'all,1'; do
				contradiction "$name=$value" 'wants all, -1, 0 or 1'
			done
		done
		for name in max.in.flight \
			max.in.flight.requests.per.connection; do
			for value in 6 1000000; do
				contradiction "$name=$value" \
					'an idempotent producer wants 1 to 5'
			done
		done
		for name in retries message.send.max.retries; do
			contradiction "$name=0" \
				'an idempotent producer wants 1 or more'
		done
	done
	# At the limit, and spelt otherwise: then only the broker is missed.
	for program in dispatch-produce outbox-write; do
		for good in acks=-1 request.required.acks=-1 acks=all \
			max.in.flight=5 max.in.flight.requests.per.connection=1 \
			retries=1 message.send.max.retries=2147483647; do
			run -69 program "$program" --connect-ms 100 -X "$good"
		done
	done
	# Not idempotent: more in flight and no retries contradict nothing.
	export QIM_FANOUT_PRODUCER_IDEMPOTENCE=false
	run -69 program dispatch-produce --connect-ms 100 -X max.in.flight=6 \
		-X retries=0
}

@test "QIM_FANOUT_PRODUCER_IDEMPOTENCE: exactly true or false" {
	for value in '' TRUE True False FALSE 1 0 yes no on off t ' true' 'true ' \
		true,false truefalse tru '"true"' ' '; do
		export QIM_FANOUT_PRODUCER_IDEMPOTENCE=$value
		refused dispatch-produce "QIM_FANOUT_PRODUCER_IDEMPOTENCE: '$value': wants exactly true or false"
	done
	# Both pass, as it does unset: then the broker is missed.
	for value in true false unset; do
		export QIM_FANOUT_PRODUCER_IDEMPOTENCE=$value
		[ "$value" != unset ] || unset QIM_FANOUT_PRODUCER_IDEMPOTENCE
		run -69 --separate-stderr program dispatch-produce --connect-ms 200
	done
}

@test "what the variable decides is what the producer does" {
	printf '%s\n' '{"qim":1,"minor":0,"kind":"dispatches","from":"x","run":7,"topic":"o","group":null,"start":[["o",0,0,"first"]],"partitions":1}' \
		'{"batch":1,"src":[["o",0,0,1]],"at":[],"rec":[[null,0,"k","v",null,[0,0]]]}' \
		'{"end":true,"batches":1,"records":1}' |
		stream-make >"$BATS_TEST_TMPDIR/in"
	# An idempotent producer asks for an id; a refused one is fatal.
	start_mock -t d:1 --error init-producer-id=CLUSTER_AUTHORIZATION_FAILED:1000
	run -0 bash -c 'QIM_FANOUT_PRODUCER_IDEMPOTENCE=false dispatch-produce \
		-b "$MOCK_BROKERS" -t d <"$1" | stream-dump' _ "$BATS_TEST_TMPDIR/in"
	run -77 bash -c 'QIM_FANOUT_PRODUCER_IDEMPOTENCE=true dispatch-produce \
		-b "$MOCK_BROKERS" -t d <"$1" >/dev/null' _ "$BATS_TEST_TMPDIR/in"
	expect_message 'dispatch-produce: error: '
	stop_mock
}

end_of_topic() {
	run -0 --separate-stderr kcat -Q -b "$MOCK_BROKERS" -t outbox:0:-1
	[ "$output" = "outbox [0] offset $1" ]
}

# What would be done without --check stands ready: a line, a dispatch, a record.
@test "--check looks at the topic, reads no input and produces nothing" {
	local input=$BATS_TEST_TMPDIR/in
	start_mock -v -t outbox:1
	kcat -P -b "$MOCK_BROKERS" -t outbox -p 0 <<<record
	for name in 'outbox-read -g g -o beginning' outbox-write \
		dispatch-produce; do
		echo '{"conversation_id":"c","conversation_seq":1}' >"$input"
		# shellcheck disable=SC2086
		run -0 --separate-stderr $name -b "$MOCK_BROKERS" -t outbox \
			--check <"$input"
		[ -z "$output$stderr" ]
		# shellcheck disable=SC2086
		run -64 --separate-stderr $name -t outbox --check <"$input"
		expect_message "${name%% *}: error: -b: missing"
		[ -z "$output" ]
	done
	run -0 --separate-stderr offset-commit -b "$MOCK_BROKERS" -g g --check \
		<"$input"
	[ -z "$output$stderr" ]
	run -64 --separate-stderr offset-commit -g g --check <"$input"
	end_of_topic 1
	# One produce request, kcat's; no commit.
	[ "$(grep -c 'Received ProduceRequest' "$(scope_dir)/mock/err")" -eq 1 ]
	run ! grep -q 'Received OffsetCommitRequest' "$(scope_dir)/mock/err"
	stop_mock
}

@test "secrets: not on the command line, not in a file that others may read" {
	local file=$BATS_TEST_TMPDIR/properties
	for name in $all; do
		refused "$name" '-X sasl.password: every user can read the command line: put it into a file for -F, of mode 0600' \
			-X sasl.password=hunter2
		[[ "$stderr" != *hunter2* ]]
		echo 'sasl.password=hunter2' >"$file"
		chmod 644 "$file"
		refused "$name" "$file: mode 0644 lets others read it, wants 0600" \
			-F "$file"
		# Even a value that is refused isn't shown.
		printf '%s\n' sasl.password=hunter2 sasl.password=hunter3 >"$file"
		chmod 600 "$file"
		refused "$name" "sasl.password: '(secret)' by -F line 1 and '(secret)' by -F line 2" \
			-F "$file"
		ln -sf "$file" "$file.link"
		run -66 --separate-stderr program "$name" -F "$file.link"
	done
}

@test "a properties file: comments, blanks, its line in the message" {
	local file=$BATS_TEST_TMPDIR/properties
	printf '# one\n\n  linger.ms = 3 \nsocket.timeout.ms=soon\n' >"$file"
	for name in $all; do
		refused "$name" "-F line 4 socket.timeout.ms: 'soon': Invalid value" \
			-F "$file"
	done
	printf 'nonsense\n' >"$file"
	refused outbox-write "$file: line 1: wants name=value" -F "$file"
	run -66 --separate-stderr program outbox-write -F "$file.not"
	expect_message "outbox-write: error: $file.not: No such file or directory"
	head -c 2000000 /dev/zero | tr '\0' '#' >"$file"
	run -65 --separate-stderr program outbox-write -F "$file"
	expect_message "$file: larger than 1048576 bytes"
}

@test "bootstrap.servers may come from the file; without any: 64" {
	local file=$BATS_TEST_TMPDIR/properties
	start_mock -t outbox:1
	echo "bootstrap.servers=$MOCK_BROKERS" >"$file"
	outbox-write -t outbox -F "$file" </dev/null
	for name in 'outbox-read -g g' outbox-write dispatch-produce; do
		# shellcheck disable=SC2086
		run -64 --separate-stderr $name -t outbox </dev/null
		expect_message "${name%% *}: error: -b: missing (or bootstrap.servers in the -F file)"
	done
	run -64 --separate-stderr program outbox-write -X linger.ms
	expect_message "-X: 'linger.ms': wants name=value"
	stop_mock
}

@test "what librdkafka refuses as a whole: 78" {
	for name in $all; do
		run -78 --separate-stderr program "$name" -X security.protocol=ssl \
			-X ssl.ca.location=/nonexistent
		expect_message "$name: error: kafka"
	done
}
