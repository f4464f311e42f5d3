#!/usr/bin/env bats
# The supervisor, over stages of our own making: what it tells by --status, to
# systemd and in its log.

# shellcheck disable=SC2016,SC2154  # stages are scripts; bats and lib set them
bats_require_minimum_version 1.5.0
load lib/common
load lib/fakes
load lib/supervisor

# bats test_tags=slow
@test "--status in each state; nothing that is dead is shown as alive" {
	has_status 'not running' 69
	run -64 "$fanout" --status
	fake_slow outbox-read
	fake_ready
	start_fan "${quick[@]}"
	wait_until 10 started $stages
	has_status 'starting for ' 75
	touch "$notes/go"
	rm "$QIM_BIN/outbox-read"
	fake outbox-read 'trap "stop=1" TERM; echo line
		while [[ -z ${stop-} ]]; do sleep 0.05; done
		while [[ ! -e '"$notes"'/drained ]]; do sleep 0.05; done'
	# The slow one ends well: so does the supervisor. Once more.
	expect_end 0
	start_fan "${quick[@]}"
	wait_until 10 has_status 'ready for ' 0
	run -0 fan --status
	[ "$(wc -l <<<"$output")" = 7 ]
	[[ ${lines[0]} =~ ^"qim-fanout: ready for "[0-9.]+" s; supervisor $supervisor, up "[0-9.]+" s; run 1, restarts 0"$ ]]
	i=2
	for name in $stages; do
		[[ ${lines[i]} =~ ^$name\ +$(pid_of "$name")\ +[0-9.]+\ s\ +-\ +-\ +-\ +-$ ]]
		i=$((i + 1))
	done
	kill -9 "$(pid_of fanout-plan)"
	wait_until 10 has_status 'draining for ' 75
	run ! grep -q fanout-plan <(fan --status)
	touch "$notes/drained"
	wait_until 10 has_status 'ready for ' 0
	run -0 fan --status
	[[ ${lines[0]} == *'; run 2, restarts 1' ]]
	[[ ${lines[1]} == 'last cause: fanout-plan: pid '*': killed by signal 9 (KILL)' ]]
	kill -9 "$supervisor"
	wait_until 10 has_status "not running: supervisor $supervisor was killed while ready" 69
	[[ $(fan --status || true) != *outbox-read* ]]
}

# bats test_tags=slow
@test "--status: stages that a stopped supervisor hasn't seen die aren't ready" {
	fake_ready
	start_fan
	wait_until 10 has_status 'ready for ' 0
	kill -STOP "$supervisor"
	has_status 'ready for ' 0
	kill -9 "$(pid_of fanout-plan)"
	wait_until 10 has_status 'ready, but without ' 75
	run -75 fan --status
	[[ ${lines[0]} =~ ^"qim-fanout: ready, but without "[a-z,\ -]*fanout-plan,[a-z,\ -]*" for "[0-9.]+" s; " ]]
	kill -CONT "$supervisor"
	wait_until 10 said 'start again in'
}

# bats test_tags=slow
@test "--status shows the figures that stages write, but no older ones" {
	cat >"$BATS_TEST_TMPDIR/prom" <<-'EOF'
		# HELP qim_batches_total Batches done.
		qim_batches_total{program="outbox-read",chain="x"} 7
		qim_records_total{program="outbox-read",chain="x"} 3500
		qim_in_flight_batches{program="outbox-read",chain="x"} 2
		qim_lag_records{program="outbox-read",chain="x",partition="0"} 10
		qim_lag_records{program="outbox-read",chain="x",partition="1"} 5
		qim_start_timestamp_seconds{program="outbox-read",chain="x"} NOW.250000
	EOF
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	figures=$locks/fanout:group/qim-fanout:group@locks-outbox-read.prom
	sed "s/NOW/$EPOCHSECONDS/" "$BATS_TEST_TMPDIR/prom" >"$figures"
	fan --status | grep -E '^outbox-read +[0-9]+ +[0-9.]+ s +7 +3500 +2 +15$'
	sed "s/NOW/$((EPOCHSECONDS - 100))/" "$BATS_TEST_TMPDIR/prom" >"$figures"
	fan --status | grep -E '^outbox-read +[0-9]+ +[0-9.]+ s +- +- +- +-$'
	kill "$supervisor"
	expect_end 0
}

# bats test_tags=slow
@test "--status runs nothing that stands in the files that it reads" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	code='a[$(touch '"$notes"'/ran)]'
	figures=$locks/fanout:group/qim-fanout:group@locks-outbox-read.prom
	printf '%s\n' "qim_start_timestamp_seconds{} $EPOCHSECONDS" \
		"qim_batches_total{} 7" "qim_records_total{} $code" >"$figures"
	fan --status | grep -E '^outbox-read +[0-9]+ +[0-9.]+ s +7 +- +- +-$'
	state=$locks/fanout:group/state
	cp "$state" "$BATS_TEST_TMPDIR/state"
	for name in since began pid process; do
		sed "s,^$name=[0-9]*,$name=$code," "$BATS_TEST_TMPDIR/state" >"$state"
		run -75 fan --status
		[ "${lines[0]}" = 'qim-fanout: starting' ]
	done
	[ ! -e "$notes/ran" ]
	kill "$supervisor"
	expect_end 0
}

@test "the state is written over the old one: a full disk has room for that" {
	fake_ready
	start_fan
	wait_until 10 said 'ready: run 1'
	state=$locks/fanout:group/state
	# As long as it never is: cut off, it would be short.
	printf '%05000d' 0 >>"$state"
	kill "$supervisor"
	expect_end 0
	[ "$(stat -c %s "$state")" -gt 5000 ]
	has_status 'not running: ended with 0' 69
}

# bats test_tags=slow
@test "systemd is told: ready, reloading, stopping" {
	mkdir "$BATS_TEST_TMPDIR/path"
	# What isn't waited for would overtake the slow one.
	printf '#!/bin/bash\n[[ $1 != READY* ]] || sleep 0.5\necho "$@" >>"%s"\n' "$notes/told" \
		>"$BATS_TEST_TMPDIR/path/systemd-notify"
	chmod +x "$BATS_TEST_TMPDIR/path/systemd-notify"
	notified=(env NOTIFY_SOCKET=/nowhere PATH="$BATS_TEST_TMPDIR/path:$PATH"
		"$fanout" --lock-dir "$locks" -b x -t outbox -d d -g group)
	fake_ready
	start "${notified[@]}"
	wait_until 10 grep -qx READY=1 "$notes/told"
	kill -HUP "$supervisor"
	wait_until 10 said 'ready: run 2'
	kill "$supervisor"
	expect_end 0
	[ "$(tr '\n' ' ' <"$notes/told")" = 'READY=1 RELOADING=1 READY=1 STOPPING=1 ' ]
	# Not ready after that: the first receipt comes of what drains.
	rm "$notes/told"
	fake outbox-read 'trap "stop=1" TERM; touch '"$notes"'/trapped
		while [[ -z ${stop-} ]]; do sleep 0.05; done; echo end'
	sed -i "s,exec cat,while [[ ! -e $notes/go ]]; do sleep 0.05; done," \
		"$QIM_BIN/offset-commit"
	start "${notified[@]}"
	wait_until 10 test -e "$notes/trapped"
	kill "$supervisor"
	wait_until 10 said 'ready: run 1'
	touch "$notes/go"
	expect_end 0
	[ "$(<"$notes/told")" = STOPPING=1 ]
}

@test "a stderr that nobody reads stops nothing" {
	fake fanout-plan 'trap "" TERM
		for ((i = 0; i < 3000; i++)); do printf "%0200d\n" "$i" >&2; done
		touch "'"$notes"'/written"; exec cat'
	fake_ready
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	exec 7<>"$BATS_TEST_TMPDIR/fifo"
	"$fanout" -v --lock-dir "$locks" -b x -t outbox -d d -g group \
		2>"$BATS_TEST_TMPDIR/fifo" >"$BATS_TEST_TMPDIR/out" 3>&- 7>&- &
	supervisor=$!
	wait_until 20 has_status 'ready for ' 0
	[ -e "$notes/written" ]
	kill "$supervisor"
	status=0
	wait "$supervisor" || status=$?
	[ "$status" = 0 ]
	exec 7>&-
	wait_until 5 nothing_left "$supervisor"
}

@test "--log: all lines into a folder, with the time; stderr has none" {
	mkdir "$BATS_TEST_TMPDIR/log"
	fake outbox-read 'echo end'
	fake fanout-plan 'echo "fanout-plan: error: why" >&2; exit 69'
	run -69 --separate-stderr fan "${quick[@]}" --give-up 2/60 \
		--log "$BATS_TEST_TMPDIR/log" --log-bytes 100000 --log-files 3
	[ -z "$stderr" ]
	time='[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z'
	current=$BATS_TEST_TMPDIR/log/fanout:group@locks/current
	run ! grep -vE "^$time " "$current"
	[ "$(grep -cE " fanout-plan: error: why$" "$current")" = 2 ]
	grep -qE ' qim-fanout: warning: fanout-plan: .*start again in' "$current"
	grep -qE ' qim-fanout: error: gave up' "$current"
}

@test "--log: the chains of a host share a folder, and no line is lost" {
	mkdir "$BATS_TEST_TMPDIR/log"
	fake outbox-read 'echo end'
	fake fanout-plan 'while [[ $1 != --chain ]]; do shift; done
		seq -f "fanout-plan: info: $2 %04g" 2000 >&2; cat'
	cp "$QIM_BIN/fanout-plan" "$QIM_BIN/mailbox-apply"
	fake mailbox-read ''
	shared=(--once --log "$BATS_TEST_TMPDIR/log" --log-bytes 4096
		--log-files 999)
	fan "${shared[@]}" -p 0-15 3>&- &
	one=$!
	fan "${shared[@]}" -p 16-31 3>&- &
	other=$!
	"$mailbox" "${shared[@]}" --lock-dir "$locks" -b x -t d -g group -r x 3>&- &
	wait "$!"
	wait "$one"
	wait "$other"
	find "$BATS_TEST_TMPDIR/log" -type f -exec cat {} + |
		grep -o 'info: .*' | sort >"$BATS_TEST_TMPDIR/kept"
	for name in fanout:group:0-15 fanout:group:16-31 mailbox:group; do
		seq -f "info: $name@locks %04g" 2000
	done | diff - "$BATS_TEST_TMPDIR/kept"
	[ "$(ls "$BATS_TEST_TMPDIR/log" | xargs)" = \
		'fanout:group:0-15@locks fanout:group:16-31@locks mailbox:group@locks' ]
}

@test "--log: others can't read it, whoever makes a file; a folder that can't be: 66" {
	mkdir "$BATS_TEST_TMPDIR/log"
	fake_ready
	umask 022
	start_fan -v --log "$BATS_TEST_TMPDIR/log"
	folder=$BATS_TEST_TMPDIR/log/fanout:group@locks
	wait_until 10 grep -q 'ready: run 1' "$folder/current"
	[ "$(stat -c %a "$folder" "$folder/current" | xargs)" = '750 640' ]
	rm "$folder/current"
	kill "$supervisor"
	expect_end 0
	head -n 1 "$folder/current" | grep -q 'qim-fanout: notice: told to stop'
	[ "$(stat -c %a "$folder/current")" = 640 ]
	rm -r "$folder"
	touch "$folder"
	run -66 --separate-stderr fan --log "$BATS_TEST_TMPDIR/log"
	[ "$stderr" = "qim-fanout: error: --log: '$folder': can't be made or written to" ]
}

# bats test_tags=slow
@test "chains that share folders for logs and figures have a name each" {
	judge 'chain_kind=fanout
		name() {
			opt=([-g]=$1 [-p]=$2 [--lock-dir]=$3)
			run_folder_name && chain_label && echo "$chain_label"
		}
		name a "" ""; name a 0-15 /run/qim/; name a 0-15 /run/east/
		name a "" /srv/qim
		long=$(printf "%0200d" 1)
		for group in b b_1 b:1 b@c "${long}1" "${long}2"; do
			for partitions in "" 1 1,2 1-2; do
				name "$group" "$partitions" ""
				name "$group" "$partitions" c
				name "$group" "$partitions" 1
			done
		done' >"$BATS_TEST_TMPDIR/names"
	run -0 sort -u "$BATS_TEST_TMPDIR/names"
	[ "${#lines[@]}" -eq $((4 + 6 * 4 * 3)) ]
	mapfile -t lines <"$BATS_TEST_TMPDIR/names"
	[ "${lines[*]:0:4}" = 'fanout:a fanout:a:0-15 fanout:a:0-15@east fanout:a@qim' ]
	# What the programs take.
	for name in "${lines[@]}"; do
		run -75 fanout-plan --chain "$name" </dev/null
	done
}
