# shellcheck shell=bash
# status.bash: --status: what a chain's supervisor is doing, and its stages.
#
# The lock says whether there is one: a file that a dead one has left shows
# nothing as alive. A process is shown when it is the supervisor's child, and
# its figures when the file they are in was begun after it was.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

# duration MS: sets `text`.
duration() {
	local s=$(($1 / 1000))
	if (($1 < 60000)); then
		printf -v text '%d.%d s' "$s" "$(($1 % 1000 / 100))"
	elif ((s < 3600)); then
		text="$((s / 60)) min $((s % 60)) s"
	elif ((s < 86400)); then
		text="$((s / 3600)) h $((s % 3600 / 60)) min"
	else
		text="$((s / 86400)) d $((s % 86400 / 3600)) h"
	fi
}

# figure_sum FILE NAME: sets `sum` to the sum of its series, or to "-".
figure_sum() {
	local name value
	sum=-
	while read -r name value; do
		[[ ${name%%\{*} == "$2" ]] || continue
		value=${value%%[.e]*}
		is_count "$value" || continue
		[[ $sum != - ]] || sum=0
		sum=$((sum + 10#$value))
	done <"$1"
}

# started_after FILE: the figures are of a process that began no earlier than
# the one that began `age_ms` ago.
started_after() {
	local sum now=${EPOCHREALTIME%[.,]*}
	[[ -r $1 ]] || return
	figure_sum "$1" qim_start_timestamp_seconds
	[[ $sum != - ]] && ((sum >= now - age_ms / 1000 - 2))
}

# is_child PID: of the holder, and alive; sets `began`.
is_child() {
	local parent
	process_stat "$1" && [[ $parent == "$holder" ]]
}

# show_process PID LABEL
show_process() {
	local began age_ms text file figures=(- - - -) i=0 name sum
	is_child "$1" || return 0
	age_ms=$((uptime_ms - began * 1000 / ticks))
	duration "$age_ms"
	file=${saw[prom]-}/qim-${saw[chain]-}-$2.prom
	if started_after "$file"; then
		for name in qim_batches_total qim_records_total \
			qim_in_flight_batches qim_lag_records
		do
			figure_sum "$file" "$name"
			figures[i++]=$sum
		done
	fi
	printf '%-26s %8s %13s %10s %12s %9s %12s\n' "$2" "$1" "$text" \
		"${figures[@]}"
}

show_processes() {
	local line ticks uptime_ms
	ticks=$(getconf CLK_TCK)
	uptime
	printf '%-26s %8s %13s %10s %12s %9s %12s\n' STAGE PID UPTIME BATCHES \
		RECORDS 'IN FLIGHT' LAG
	for line in "${saw_processes[@]}"; do
		show_process "${line%% *}" "${line#* }"
	done
}

# check_ready: a supervisor that is stopped doesn't see who dies.
check_ready() {
	local line began gone=
	for line in "${saw_processes[@]}"; do
		is_child "${line%% *}" || gone+="${gone:+, }${line#* }"
	done
	[[ -z $gone ]] || state="ready, but without $gone,"
}

show_dead() {
	if state_read; then
		case ${saw[state]-} in
		ended\ *) echo "$chain_name: not running: ended with ${saw[state]#ended }" ;;
		*) echo "$chain_name: not running: supervisor ${saw[pid]-?} was killed while ${saw[state]-?}" ;;
		esac
		[[ -z ${saw[cause]-} ]] || echo "last cause: ${saw[cause]}"
	else
		echo "$chain_name: not running"
	fi
	exit 69
}

# find_holder: sets holder and state; the state file is the holder's own, or it
# hasn't written one yet.
find_holder() {
	local tries
	for ((tries = 0; tries < 20; tries++)); do
		state_read || saw=()
		holder_of "$run_folder/lock" "${saw[pid]-}"
		[[ -n $holder && ${saw[pid]-} == "$holder" ]] && return
		lock_is_free && return 1
		sleep 0.05
	done
	saw=([state]=starting) saw_processes=()
}

# show_status: prints and exits: 0 ready, 75 not ready, 69 not running.
show_status() {
	local holder text uptime_ms
	[[ -z ${opt[-f]-} ]] || config_apply
	options_require -g
	run_folder_name
	if lock_is_free || ! find_holder; then
		show_dead
	fi
	state=${saw[state]}
	[[ $state != waiting ]] || state='waiting to start again'
	[[ $state != ready ]] || check_ready
	uptime
	text="$chain_name: $state"
	if [[ -n ${saw[since]-} ]]; then
		local head=$text
		duration "$((uptime_ms - saw[since]))"
		head+=" for $text"
		duration "$((uptime_ms - saw[began]))"
		text="$head; supervisor $holder, up $text; run ${saw[run]}, restarts ${saw[restarts]}"
	fi
	echo "$text"
	[[ -z ${saw[cause]-} ]] || echo "last cause: ${saw[cause]}"
	show_processes
	[[ $state == ready ]] || exit 75
	exit 0
}
