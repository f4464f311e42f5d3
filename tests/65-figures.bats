#!/usr/bin/env bats
# Figures: --stats, --prom and --chain of every stage, and the page about them.

bats_require_minimum_version 1.5.0
load lib/common

readonly stages='outbox-read fanout-plan dispatch-produce mailbox-apply offset-commit outbox-write'

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p prom
}

# stage_options NAME: what it needs to start, with nobody at the other end.
stage_options() {
	local port=1
	case $1 in
	outbox-read) echo "-b localhost:$port -t t -g g" ;;
	dispatch-produce | outbox-write) echo "-b localhost:$port -t t" ;;
	offset-commit) echo "-b localhost:$port -g g" ;;
	mailbox-apply) echo "-r localhost:$port" ;;
	esac
}

# try_stage NAME OPTION...: runs it until it fails to connect, or on no input.
try_stage() {
	local name=$1 options
	shift
	read -ra options <<<"$(stage_options "$name")"
	"$name" "${options[@]}" --connect-ms 300 "$@" </dev/null
}

# value NAME FILE [LABELS]: of a series of a .prom file.
value() {
	awk -v "start=$1{" -v "labels=${3-}" 'index($0, start) == 1 &&
		index($0, labels) { print $NF }' "$2"
}

# value_is VALUE NAME FILE
value_is() {
	[ "$(value "${@:2}")" = "$1" ]
}

# messages COUNT: a stream of records, all in one batch.
messages() {
	jq -cn "[range($1) | {message_id: \"m\\(.)\", conversation_id: \"c\",
			conversation_seq: (. + 1), sender: \"ann\",
			created_at: 1, payload: \"hi\",
			recipients: [\"ann\", \"bob\"]} | tojson] as \$values |
		{qim: 1, minor: 0, kind: \"records\", from: \"outbox-read\",
		 run: 1, topic: \"outbox\", group: \"g\",
		 start: [[\"outbox\", 3, 0, \"stored\"]]},
		{batch: 1, src: [[\"outbox\", 3, 0, 0]], at: [], rec: []},
		{batch: 2, src: [[\"outbox\", 3, 0, $1]], at: [],
		 rec: [\$values | to_entries[] | [0, .key, 1, null, .value,
			null]]},
		{end: true, batches: 2, records: $1}" | stream-make
}

# bats test_tags=slow
@test "every stage writes figures, also where it fails; one scrape takes all" {
	for name in $stages; do
		run try_stage "$name" --prom prom --stats "$name.json" --chain a
		((status == 69 || status == 75)) || fail "$name: $status: $output"
		[ "$(value qim_exit_code "prom/qim-a-$name.prom")" = "$status" ]
		jq -e --arg name "$name" --argjson code "$status" -s '.[-1] |
			.program == $name and .chain == "a" and
			.qim_exit_code == $code' "$name.json"
	done
	"$qim_root/tests/lib/prom-check.py" prom/*.prom >metrics
	for file in prom/*.prom; do
		promtool check metrics <"$file"
	done
	[ "$(find prom -name '*.prom' | wc -l)" -eq 6 ]
	# What both formats have is the same.
	for name in $stages; do
		jq -rs '.[-1] | keys[] | select(startswith("qim_"))' \
			"$name.json" | sort >json
		"$qim_root/tests/lib/prom-check.py" "prom/qim-a-$name.prom" |
			cut -d ' ' -f 1 >prom.names
		[ -z "$(comm -23 json prom.names)" ]
	done
}

# Names as they stand in the page: in the tags of its FIGURES.
page_names() {
	sed -n '/^\.Sh FIGURES/,/^\.Sh EXAMPLES/p' "$qim_root/man/qim-figures.5" |
		grep '^\.It Li' | grep -o 'qim_[a-z0-9_]*' | sort
}

# bats test_tags=slow
@test "the page qim-figures, the programs and the supervisor have the same figures" {
	for name in $stages; do
		run try_stage "$name" --prom prom
	done
	run -69 "$qim_root/pipelines/fanout" --once --prom prom --lock-dir locks \
		-b localhost:1 -t o -d d -g g --connect-ms 300
	"$qim_root/tests/lib/prom-check.py" prom/*.prom | cut -d ' ' -f 1 >written
	page_names | diff - written
}

# names_in FILE: names of qim's figures, without the parts of histograms.
names_in() {
	grep -v '^ *#' "$1" | grep -o 'qim_[a-z0-9_]*' |
		sed 's/_seconds_\(bucket\|count\|sum\)$/_seconds/' | sort -u
}

# bats test_tags=slow
@test "the alerts are Prometheus' own language, of figures that there are" {
	rules=$qim_root/pipelines/prometheus/qim-alerts.yml
	series=$qim_root/tests/data/qim-alerts-test.yml
	promtool check rules "$rules"
	[ -z "$(comm -23 <(names_in "$rules") <(page_names))" ]
	[ -z "$(comm -23 <(names_in "$series") <(page_names))" ]
	(cd "${series%/*}" && promtool test rules "${series##*/}")
	# Each of them was seen to fire.
	sed -n 's/^ *- alert: //p' "$rules" | sort >alerts
	grep -o 'alertname="Qim[A-Za-z]*"' "$series" | cut -d '"' -f 2 |
		sort -u | diff alerts -
}

# bats test_tags=slow
@test "wrong values are refused: 64, 66, 78; only stages have the options" {
	touch file
	mkdir closed
	for name in $stages; do
		run -66 try_stage "$name" --prom none
		expect_message "$name: error: --prom: none: No such file or directory"
		run -66 try_stage "$name" --prom file
		expect_message "--prom: file: not a folder"
		run -66 try_stage "$name" --stats none/file
		expect_message "--stats: none/file: No such file or directory"
		run -66 try_stage "$name" --stats 9 9>&-
		expect_message "--stats: 9: Bad file descriptor"
		run -66 try_stage "$name" --stats 9 9<file
		expect_message "--stats: 9: not open for writing"
		run -78 try_stage "$name" --stats 1
		expect_message "--stats: 1: standard input and output are the stages'"
		run -64 try_stage "$name" --chain a/b
		expect_message "--chain: 'a/b': wants 1 to 64 of letters, digits and ._-:@%"
		run -64 try_stage "$name" --chain "$(printf '%065d' 0)"
		run -64 try_stage "$name" --chain ''
	done
	for name in stream-dump mailbox-read broker-mock; do
		run -64 "$name" --stats file </dev/null
	done
}

@test "no thread: 71" {
	local as=()
	# The limit isn't for root.
	((EUID)) || as=(setpriv --reuid 54321 --clear-groups)
	run -71 "${as[@]}" prlimit --nproc=1 "$QIM_BIN/fanout-plan" \
		--stats /dev/null
	expect_message 'fanout-plan: error: figures: thread: Resource temporarily unavailable'
}

@test "--check looks at the values, and writes nothing" {
	run -0 fanout-plan --check --prom prom --chain a
	[ -z "$(ls prom)" ]
	run -66 fanout-plan --check --prom none
}

@test "the figures of fanout-plan are those of its streams" {
	messages 7 >in
	fanout-plan --prom prom --stats stats <in >out
	file=prom/qim-fanout-plan.prom
	[ "$(value qim_in_batches_total $file)" = 2 ]
	[ "$(value qim_in_records_total $file)" = 7 ]
	[ "$(value qim_batches_total $file)" = 2 ]
	[ "$(value qim_records_total $file)" = "$(stream-dump --rec <out | wc -l)" ]
	[ "$(value qim_step_seconds_count $file 'step="plan"')" = 2 ]
	[ "$(value qim_in_bytes_total $file)" = "$(wc -c <in)" ]
	[ "$(value qim_out_bytes_total $file)" = "$(wc -c <out)" ]
	[ "$(value qim_dead_letters_total $file)" = 0 ]
	tail -n 1 stats | jq -e '.qim_batches_total == 2 and
		.qim_step_seconds[0].count == 2 and .qim_exit_code == 0'
}

# A stage that waits: its reader takes nothing, and its pipe is full.
# bats test_tags=slow
@test "a stage that waits for its reader is still seen, and so is who reads" {
	messages 4000 >in
	mkfifo pipe
	exec 7<>pipe
	fanout-plan --prom prom --stats stats <in >pipe 2>err 7>&- &
	pid=$!
	wait_until 10 test -s prom/qim-fanout-plan.prom
	rm prom/*.prom
	wait_until 10 test -s prom/qim-fanout-plan.prom
	wait_until 10 bash -c '(($(wc -l <stats) > 2))'
	wait_until 20 value_is 4000 qim_in_records_total prom/qim-fanout-plan.prom
	[ "$(value qim_batches_total prom/*.prom)" = 1 ]
	cat <pipe >/dev/null 3>&- 7>&- &
	reader=$!
	exec 7>&-
	wait "$pid"
	wait "$reader"
	[ "$(value qim_batches_total prom/*.prom)" = 2 ]
	[ ! -s err ]
}

@test "a --stats pipe that nobody reads stops nothing, and is told of once" {
	messages 10 >in
	mkfifo full
	exec 7<>full
	head -c 65536 /dev/zero >&7
	run -0 --separate-stderr fanout-plan --stats 7 --prom prom <in
	expect_message 'fanout-plan: warning: --stats 7: it takes nothing: figures are dropped'
	[ "${#stderr_lines[@]}" -eq 1 ]
	(($(value qim_figures_dropped_total prom/*.prom) >= 1))
	exec 7>&-
	mkfifo gone
	exec 7<>gone 8>gone 7>&-
	run -0 --separate-stderr fanout-plan --stats 8 <in
	expect_message 'fanout-plan: warning: --stats 8: Broken pipe: figures are dropped'
	exec 8>&-
}

@test "a full disk, for lines and for files, stops nothing" {
	messages 10 >in
	run -0 --separate-stderr fanout-plan --stats /dev/full <in
	expect_message '--stats /dev/full: No space left on device: figures are dropped'
	# shellcheck disable=SC2016
	run -0 --separate-stderr unshare -rm bash -c '
		mount -t tmpfs -o size=4k none prom
		echo old >prom/qim-fanout-plan.prom
		"$1" --prom prom <in >out || exit
		cat prom/*' _ "$QIM_BIN/fanout-plan"
	expect_message 'No space left on device: figures are dropped'
	[ "$output" = old ]
}

# bats test_tags=slow
@test "a folder that goes away is gone on without, and used when it is back" {
	mkfifo pipe
	fanout-plan --prom prom <pipe >out 2>err &
	pid=$!
	exec 7>pipe
	wait_until 10 test -s prom/qim-fanout-plan.prom
	mv prom away # in one step, while it is written to
	wait_until 10 grep -q 'No such file or directory: figures are dropped' err
	mkdir prom
	wait_until 10 test -s prom/qim-fanout-plan.prom
	messages 10 >&7
	exec 7>&-
	wait "$pid"
	[ "$(value qim_batches_total prom/*.prom)" = 2 ]
	[ "$(wc -l <err)" -eq 1 ]
}

# The folder is looked at all the time, while processes are killed.
# bats test_tags=slow
@test "SIGKILL at any time leaves a whole file" {
	mkfifo pipe
	for ((i = 0; i < 20; i++)); do
		fanout-plan --prom prom <pipe >/dev/null &
		pid=$!
		exec 7>pipe
		wait_until 10 test -e prom/qim-fanout-plan.prom
		sleep "0.0$((i % 10))"
		kill -KILL "$pid"
		wait "$pid" || true
		exec 7>&-
		"$qim_root/tests/lib/prom-check.py" prom/*.prom >/dev/null
		[ -z "$(value qim_exit_code prom/*.prom)" ]
		((i % 2)) || rm prom/*.prom
	done 2>/dev/null
	messages 1 | fanout-plan --prom prom >/dev/null
	[ "$(ls prom)" = qim-fanout-plan.prom ]
}

# bats test_tags=slow
@test "a thread and two descriptors more, and none once they are off" {
	mkfifo pipe
	for options in '' '--prom prom --stats stats'; do
		# shellcheck disable=SC2086
		fanout-plan $options <pipe >out &
		pid=$!
		exec 7>pipe
		messages 10 | head -c 300 >&7
		wait_until 10 test -s out
		[[ -z $options ]] || wait_until 10 bash -c '(($(wc -l <stats) > 2))'
		echo "$(ls "/proc/$pid/task" | grep -c .)" \
			"$(ls "/proc/$pid/fd" | grep -c .)"
		exec 7>&-
		wait "$pid" || [ $? -eq 75 ]
	done >counts
	read -r threads fds < <(sed -n 1p counts)
	[ "$threads" -eq 1 ]
	[ "$(sed -n 2p counts)" = "2 $((fds + 2))" ]
}

# -R: the sanitizer wants its addresses where it expects them.
# bats test_tags=slow
@test "gcc's thread sanitizer finds nothing between the two threads" {
	gcc -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=thread \
		-I"$qim_root/common" -o tsan "$qim_root/tests/unit/test-figures.c" \
		"$qim_root"/common/base/*.c -lcmocka -lxxhash
	TSAN_OPTIONS=halt_on_error=1 setarch -R ./tsan
}
