#!/usr/bin/env bats
# The build that dies at named points: every point of docs/guarantees.md is in
# the code and is reached, and none is in a build for use.

bats_require_minimum_version 1.5.0
load ../lib/common
load ../lib/redis

fail_bin=$qim_root/build/fail/bin
names=$qim_root/docs/guarantees.md

setup_file() {
	need_redis
	start_mock -t outbox:4 -t dispatch:64
	export FLOW=$BATS_FILE_TMPDIR
	python3 "$qim_root/tests/lib/messages.py" 300 |
		outbox-write -q -b "$MOCK_BROKERS" -t outbox
	outbox-read -q -b "$MOCK_BROKERS" -t outbox -g fanout --batch 50 \
		--first beginning -e >"$FLOW/records"
	fanout-plan <"$FLOW/records" >"$FLOW/plan"
	dispatch-produce -q -b "$MOCK_BROKERS" -t dispatch <"$FLOW/plan" \
		>"$FLOW/receipts"
	outbox-read -q -b "$MOCK_BROKERS" -t dispatch --batch 50 -o beginning \
		-e >"$FLOW/dispatches"
}

teardown_file() {
	stop_mock
}

setup() {
	need_redis
	cd "$BATS_TEST_TMPDIR" || exit
}

# run_stage PROGRAM: of the test build, from the input it has in a chain; its
# output goes to the file out.
run_stage() {
	PATH=$fail_bin:$PATH
	case $1 in
	outbox-read)
		exec outbox-read -q -b "$MOCK_BROKERS" -t outbox -o beginning -e \
			--batch 50 >out
		;;
	fanout-plan) exec fanout-plan <"$FLOW/records" >out ;;
	dispatch-produce)
		exec dispatch-produce -q -b "$MOCK_BROKERS" -t dispatch \
			<"$FLOW/plan" >out
		;;
	mailbox-apply)
		exec mailbox-apply -q -r "127.0.0.1:$REDIS_PORT" --prefix "$(unique p)" \
			<"$FLOW/dispatches" >out
		;;
	offset-commit)
		exec offset-commit -q --every-batch -b "$MOCK_BROKERS" -g fanout --lock-dir . \
			<"$FLOW/receipts" >out
		;;
	esac
}

# Lines "point program" of the table.
documented() {
	sed -nE 's/^\| `([a-z-]+)` \| ([a-z, -]+) \|.*/\1 \2/p' "$names" |
		while read -r point programs; do
			printf "$point %s\n" ${programs//,/}
		done
}

# The test's own view of what stands in the code.
in_code() {
	grep -rhoE 'FAILPOINT(_HALF)?\("[^"]+"\)' "$qim_root/common" \
		"$qim_root/cmd" | cut -d '"' -f 2 | sort -u
}

@test "the points of the documentation are those of the code" {
	documented | cut -d ' ' -f 1 | sort -u | diff - <(in_code)
	[ "$(in_code | wc -l)" -ge 14 ]
}

@test "each point is reached by each program that has it" {
	while read -r point program; do
		FAILPOINT=$point:2 run -137 run_stage "$program" || fail "$point $program"
		cp out "$program-$point"
	done < <(documented)
	# Half a frame is half a frame: what is there is the beginning of the
	# whole, and a reader takes it for torn.
	for program in outbox-read fanout-plan dispatch-produce mailbox-apply; do
		run -0 run_stage "$program"
		bytes=$(wc -c <out)
		for half in "$program"-after-*-half; do
			(($(wc -c <"$half") < bytes))
			run -75 bash -c 'stream-dump <"$1"' _ "$half"
			expect_message 'torn: it ends inside the frame'
		done
	done
}

@test "a point dies at its pass, later where asked, and once for a file" {
	local first second
	FAILPOINT=before-receipt run -137 run_stage dispatch-produce
	run -75 bash -c 'stream-dump <out'
	[ "$(grep -c '^{"batch"' <<<"$output")" -eq 0 ]
	FAILPOINT=dispatch-produce/before-receipt:3:20 run -137 \
		run_stage dispatch-produce
	run -75 bash -c 'stream-dump <out'
	[ "$(grep -c '^{"batch"' <<<"$output")" -eq 2 ]
	# Meant for another, or passed less often: nothing.
	FAILPOINT=mailbox-apply/before-receipt run -0 run_stage dispatch-produce
	FAILPOINT=before-receipt:1000 run -0 run_stage dispatch-produce
	echo fanout-plan/after-frame-write-half:2 >file
	FAILPOINT=@file run -0 run_stage outbox-read
	[ -e file ]
	FAILPOINT=@file run -137 run_stage fanout-plan
	[ ! -e file ]
	FAILPOINT=@file run -0 run_stage fanout-plan
}

@test "a FAILPOINT that can't be understood: 64" {
	for value in x:0 x:y x:1:z / x:1:2:3; do
		FAILPOINT=$value run -64 run_stage fanout-plan
		expect_message 'wants [program/]name[:pass[:ms]] or @file'
	done
}

@test "a build for use has no points" {
	for name in $(in_code) FAILPOINT; do
		run ! grep -lF -- "$name" "$QIM_BIN"/*
	done
	FAILPOINT=before-receipt run -0 dispatch-produce -q -b "$MOCK_BROKERS" \
		-t dispatch <"$FLOW/plan"
}

@test "each row of the guarantees names tests that there are" {
	python3 "$qim_root/tests/lib/guarantees.py"
}
