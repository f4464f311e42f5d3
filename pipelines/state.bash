# shellcheck shell=bash
# state.bash: the state of a chain, as its supervisor writes it and as others read
# it; the clock and the processes that it is about.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

declare -A saw=() # name → value in the state file
saw_processes=()

# uptime: sets `uptime_ms`, the clock that nobody sets.
uptime() {
	local text
	read -r text _ </proc/uptime
	uptime_ms=$((10#${text/./} * 10))
}

# process_stat PID: sets `parent` and `began`, in ticks since the boot.
process_stat() {
	local line fields
	{ read -r line </proc/"$1"/stat; } 2>/dev/null || return
	read -ra fields <<<"${line##*) }"
	[[ ${fields[0]} != [ZX] ]] || return
	parent=${fields[1]} began=${fields[19]}
}

# state_set STATE: for --status. One write, so that it is never seen in part, and
# over the old one, which a full disk has room for; a line "." ends it. What
# can't be written is no reason to stop.
state_set() {
	local i text uptime_ms
	uptime
	[[ $1 == "$state" ]] || state_since=$uptime_ms
	state=$1
	figures_changed
	printf -v text '%s\n' "state=$state" "pid=$$" "since=$state_since" \
		"began=$began_ms" "run=$run" "restarts=$restarts" \
		"prom=$prom_folder" "chain=$chain_label" "cause=${last_cause//$'\n'/ }"
	for ((i = 0; i < ${#labels[@]}; i++)); do
		[[ -z ${pids[i]-} || -z ${alive[${pids[i]}]-} ]] ||
			text+="process=${pids[i]} ${labels[i]}"$'\n'
	done
	{ printf '%s.\n' "$text" 1<>"$run_folder/state"; } 2>/dev/null
}

# is_count TEXT: fit for arithmetic, which would run what stands in a file that
# somebody else can write to.
is_count() {
	is_number "$1" 0 999999999999999999
}

# state_read: sets saw and saw_processes; fails where there is no whole state.
state_read() {
	local name value
	saw=() saw_processes=()
	[[ -r $run_folder/state ]] || return
	while IFS='=' read -r name value; do
		case $name in
		.) return 0 ;;
		pid | since | began | run | restarts) is_count "$value" || return ;;
		process) is_count "${value%% *}" || return ;;
		esac
		case $name in
		process) saw_processes+=("$value") ;;
		*) saw[$name]=$value ;;
		esac
	done <"$run_folder/state"
	return 1
}
