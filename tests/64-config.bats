#!/usr/bin/env bats
# The configuration file of both chains: what is refused, what it gives, and
# that the example is right.

# shellcheck disable=SC2154  # bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes

setup() {
	fake_chain
	conf=$BATS_TEST_TMPDIR/conf
}

least() {
	printf '%s\n' brokers=b outbox=o dispatch=d fanout.group=g \
		mailbox.group=m redis=r:1 "lock-dir=$locks"
}

# bats test_tags=slow
@test "what isn't right is refused by both chains: 78, file, line, name, value, what is allowed" {
	while IFS='|' read -r line text; do
		{ least; printf '%b\n' "$line"; } >"$conf"
		for chain in fanout mailbox; do
			run -78 --separate-stderr "$qim_root/pipelines/$chain" \
				-f "$conf" --check
			[[ $stderr == "qim-$chain: error: $conf:8: $text"* ]] ||
				fail "$line: $stderr"
			[ "${#stderr_lines[@]}" = 1 ]
		done
	done <<-'EOF'
		brokrs=b|'brokrs': no such name: there are brokers, properties, 
		brokers =b|'brokers ': no such name
		mailbox.frist=end|'mailbox.frist': no such name
		brokers=c|brokers: 'c': stands in line 1 already
		properties=|properties: empty
		properties= x|properties: ' x': blanks at its ends
		properties=x\t|properties: 'x\x09': blanks at its ends
		properties=a\rb|properties: 'a\x0db': control characters
		brokers|'brokers': wants name=value
		=b|'': no such name
		  indented=1|'  indented': no such name
		property=x|property: 'x': wants name=value
		dispatch-partitions=0|dispatch-partitions: '0': wants a number from 1 to 100000
		drain-ms=1.5|drain-ms: '1.5': wants a number from 1 to 3600000
		connect-ms=99|connect-ms: '99': wants a number from 100 to 3600000
		give-up=5|give-up: '5': wants deaths/seconds
		back-off=9-8|back-off: '9-8': wants least-most in ms
		log-files=0|log-files: '0': wants a number from 1 to 999
		fanout.partitions=3-|fanout.partitions: '3-': wants numbers like 0-3,7
		mailbox.partitions=x|mailbox.partitions: 'x': wants numbers like 0-3,7
		fanout.partitions=5-3|fanout.partitions: '5-3': wants numbers like
		mailbox.partitions=0,7-2|mailbox.partitions: '0,7-2': wants numbers like
		fanout.partitions=2147483648|fanout.partitions: '2147483648': wants numbers like
		mailbox.partitions=0-99998,7,8|mailbox.partitions: '0-99998,7,8': wants numbers like
		fanout.first=start|fanout.first: 'start': wants beginning or end
		fanout.tap=x|fanout.tap: 'x': wants stage=file
		redis.wait-replicas=-1|redis.wait-replicas: '-1': wants a number from 0 to 
		redis.wait-ms=5|redis.wait-ms: '5': wants a number from 10 to 600000
		stage.fanout-plan=|stage.fanout-plan: empty
		stage.tee=x|'stage.tee': no such name
		dead-letter=d|dead-letter: 'd': is the topic of dispatch too
	EOF
	[ ! -e "$notes/outbox-read.pid" ]
}

# bats test_tags=slow
@test "partitions and nodes that are right, and nodes that aren't" {
	fake mailbox-read 'exit 0'
	for line in mailbox.partitions=7,3-3,2147483647 mailbox.partitions=0-99999 \
		fanout.partitions=08-010; do
		{ least; echo "$line"; } >"$conf"
		run -0 "$mailbox" -f "$conf" --check
	done
	for nodes in unix:/a,b:1 '[::1]:6379' b:65535; do
		least | sed "s|^redis=.*|redis=$nodes|" >"$conf"
		run -0 "$fanout" -f "$conf" --check
	done
	for nodes in garbage:: r r: :1 a:1, a:0 a:65536 a:1,,b:1 a:1,a:1 unix: \
		::1:6379 '[]:1' 'a:1, b:1'; do
		least | sed "s|^redis=.*|redis=$nodes|" >"$conf"
		run -78 --separate-stderr "$fanout" -f "$conf" --check
		[[ $stderr == "qim-fanout: error: $conf:6: redis: '$nodes': wants host:port or unix:/path"* ]]
	done
}

@test "a file that can't be read: 66; what is missing in it: 64" {
	run -66 --separate-stderr "$fanout" -f "$conf.none"
	[ "$stderr" = "qim-fanout: error: -f: '$conf.none': can't be read" ]
	run -66 "$fanout" --config "$BATS_TEST_TMPDIR"
	echo 'brokers=b' >"$conf"
	run -64 --separate-stderr "$fanout" -f "$conf"
	[ "$stderr" = 'qim-fanout: error: -t: missing' ]
}

@test "a NUL byte in the file: 78; CRLF is refused, a missing last newline isn't" {
	printf 'brokers=a\0b\n' >"$conf"
	run -78 --separate-stderr "$fanout" -f "$conf" --check
	[ "$stderr" = "qim-fanout: error: $conf: has a NUL byte" ]
	printf 'brokers=b\r\n' >"$conf"
	run -78 --separate-stderr "$fanout" -f "$conf" --check
	[ "$stderr" = "qim-fanout: error: $conf:1: brokers: 'b\\x0d': control characters" ]
	printf %s "$(least)" >"$conf"
	run -0 --separate-stderr "$fanout" -f "$conf" --check
	run -0 --separate-stderr "$fanout" -f <(cat "$conf") --check
}

# args STAGE: without what the supervisor adds.
args() {
	sed -e '1,/^--chain$/d' "$notes/$1.args" | tail -n +2 | tr '\n' ' '
}

@test "what it gives each stage of both chains; the command line counts first" {
	least >"$conf"
	cat >>"$conf" <<-EOF
		# a comment, and an empty line

		properties=/kafka.properties
		property=a=1
		property=b=x=y
		dispatch-partitions=8
		dead-letter=dead
		fanout.partitions=0-3
		fanout.first=beginning
		stage.outbox-read=--batch 100
		stage.outbox-read=--batch-ms 7
		stage.dispatch-produce=-w 32
		redis.prefix=p
		redis.wait-replicas=1
		connect-ms=900
	EOF
	fake outbox-read 'echo end'
	fake mailbox-read 'exit 0'
	run -0 "$fanout" --once -f "$conf"
	[ "$(args outbox-read)" = '-b b -t o -g g -F /kafka.properties -X a=1 -X b=x=y -p 0-3 --first beginning --connect-ms 900 --batch 100 --batch-ms 7 ' ]
	[ "$(args fanout-plan)" = '-n 8 --dead-letter dead --connect-ms 900 ' ]
	[ "$(args dispatch-produce)" = '-b b -F /kafka.properties -X a=1 -X b=x=y --dead-letter dead -t d --connect-ms 900 -w 32 ' ]
	run -0 "$mailbox" --once -f "$conf"
	[ "$(args outbox-read)" = '-b b -t d -g m -F /kafka.properties -X a=1 -X b=x=y -o @/dev/stdin --connect-ms 900 --batch 100 --batch-ms 7 ' ]
	[ "$(args mailbox-apply)" = '-r r:1 -n 8 --prefix p --wait-replicas 1 --connect-ms 900 ' ]
	run -0 "$fanout" --once -f "$conf" -b other -p 4-7 -X c=2 \
		--stage outbox-read=-e
	[ "$(args outbox-read)" = '-t o -g g -F /kafka.properties -X a=1 -X b=x=y --first beginning -b other -p 4-7 -X c=2 --connect-ms 900 --batch 100 --batch-ms 7 -e ' ] ||
		fail "$(args outbox-read)"
}

@test "the example is right, and says no name that isn't" {
	example=$qim_root/pipelines/qim.conf.example
	fake mailbox-read 'exit 0'
	for chain in "$fanout" "$mailbox"; do
		run -0 --separate-stderr "$chain" -f "$example" \
			--lock-dir "$locks" --check
		[ -z "$output$stderr" ]
	done
	sed 's/^#\([a-z.-]*=\)/\1/; /^log=/d; /^prom=/d' "$example" >"$conf"
	[ "$(wc -l <"$conf")" -gt 30 ]
	run -0 "$fanout" -f "$conf" --lock-dir "$locks" --check
}

@test "the manual has all names" {
	names=$(sed -n "/^readonly config_table=/,/^'/p" \
		"$qim_root/pipelines/config.bash" | sed '1d;$d' |
		cut -d ' ' -f 1)
	[ "$(wc -w <<<"$names")" -gt 30 ]
	for name in $names; do
		grep -qE "Cm .*${name#stage.}|Cm stage" "$qim_root/man/qim.conf.5"
		grep -qE "(Cm|,) .*\b${name#stage.}\b" "$qim_root/man/qim.conf.5" ||
			fail "$name"
	done
}

@test "--status finds the chain that the file names" {
	least >"$conf"
	for chain in fanout mailbox; do
		run -69 --separate-stderr "$qim_root/pipelines/$chain" -f "$conf" \
			--status
		[ "$output" = "qim-$chain: not running" ]
	done
	sed -i '/mailbox.group/d' "$conf"
	run -64 --separate-stderr "$qim_root/pipelines/mailbox" -f "$conf" --status
	expect_message "-g: missing"
}
