# shellcheck shell=bash
# run.bash: one run of the chain, from the start of its processes to the death
# of the last.
#
# Everything that the supervisor waits for is the death of a child: of a stage,
# of a timer, of the reader that waits for readiness. A signal's trap only
# counts it and kills the timer. (It may not fork: `wait -n` forgets who dies
# meanwhile.)
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

stops=0 # TERM and INT that came
stops_seen=0
hups=0 # HUP that came
timer_pid=
guard_pid=
deadline=0 # on uptime's clock; 0: none

phase= # running, draining, abandoned, killed
ready=
ready_ms=0

on_signal() {
	stops=$((stops + 1))
	wake
}

on_hup() {
	if [[ -n $hup_is_stop ]]; then
		on_signal
	else
		hups=$((hups + 1))
		wake
	fi
}

wake() {
	[[ -z $timer_pid ]] || kill -KILL "$timer_pid" 2>/dev/null
}

# sleep_start WHAT SECONDS: a child that ends then, or with this process.
sleep_start() {
	(
		close_all_but
		exec setpriv --pdeathsig KILL sleep "$2"
	) </dev/null >/dev/null &
	alive[$!]=$1
}

# timer_start: a child that ends at the deadline, or in a second: a death or a
# signal between bash's last look and its wait for a child is seen only when
# the next child dies, so that there is always one that will; and the guard,
# for where that one's death is missed. Where the parent dies before the sleep
# has asked for its signal, it is left for so long.
timer_start() {
	local left=1000 uptime_ms
	if ((deadline > 0)); then
		uptime
		left=$((deadline - uptime_ms))
		((left >= 1)) || left=1
		((left <= 1000)) || left=1000
	fi
	printf -v left '%d.%03d' "$((left / 1000))" "$((left % 1000))"
	sleep_start timer "$left"
	timer_pid=$!
	if [[ -z $guard_pid ]]; then
		sleep_start guard 5
		guard_pid=$!
	fi
}

# deadline_in MS: a new deadline, or with 0 none.
deadline_in() {
	local uptime_ms
	uptime
	deadline=$(($1 > 0 ? uptime_ms + $1 : 0))
	wake
}

is_due() {
	local uptime_ms
	uptime
	((deadline > 0 && uptime_ms >= deadline))
}

# status_of_dead: sets status, of `pid`, which is gone. A signal that comes while
# bash reaps a process makes it forget that it did, and `wait PID` waits for
# ever for one that it takes for running; what it was is not known then.
status_of_dead() {
	local running
	running=$(jobs -rp)
	if [[ $'\n'$running$'\n' == *$'\n'$pid$'\n'* ]]; then
		status=0
		[[ ${alive[$pid]} != [0-9]* && ${alive[$pid]} != check ]] || status=75
	else
		wait "$pid"
		status=$?
	fi
}

# next_death: sets pid and status, in the order in which they die, as far as it
# can be seen: of two that die before this shell gets to run, the one that was
# started first is taken. `wait -n` doesn't know a process any more that died
# while this shell waited for something else, or before a turn of a loop ended,
# `wait PID` does: so each is looked at. pid is empty when a signal came; bash
# 5.2 was seen to set the one of an earlier death then.
next_death() {
	local candidate
	for candidate in "${pids[@]}" "${!alive[@]}"; do
		if [[ -n $candidate && -n ${alive[$candidate]-} ]] &&
			! kill -0 "$candidate" 2>/dev/null
		then
			pid=$candidate
			status_of_dead
			return
		fi
	done
	pid=
	wait -n -p pid "${!alive[@]}"
	status=$?
	[[ -n ${pid-} && -n ${alive[$pid]-} ]] && ! kill -0 "$pid" 2>/dev/null ||
		pid=
}

# await: waits for something to happen; sets `what` and `status`.
await() {
	local pid
	figures_beat
	next_death
	what=
	[[ -n $pid ]] || return 0
	what=${alive[$pid]}
	unset "alive[$pid]"
	case $what in
	timer) [[ $pid != "$timer_pid" ]] || timer_pid= ;;
	guard) guard_pid= ;;
	notify) [[ $pid != "$notify_pid" ]] || notify_pid= ;;
	own) own_log_died ;;
	check) reload_checked "$status" ;;
	esac
}

# The own log-keep: one that was killed has a successor, one that can't run, or
# dies at once again and again, has none: lines go to stderr itself then.
own_log_died() {
	local code=$status uptime_ms
	own_pid=
	uptime
	own_quick=$((uptime_ms - own_ms < 1000 ? own_quick + 1 : 0))
	exec {say_fd}>&-
	say_fd=$err_fd
	[[ -z $ending ]] || return 0
	if ((code > 128 && own_quick < 5)); then
		own_log_start
		say warning "log-keep of these lines: $(describe "$keep" "$code"): started again"
	else
		say warning "log-keep of these lines: $(describe "$keep" "$code"): not started again"
	fi
}

# wait_for_exec PID: a child that is not a program yet has this shell's
# handlers for a moment, and loses a signal that comes then.
wait_for_exec() {
	local ours theirs i
	mapfile -d '' -t ours </proc/$$/cmdline
	for ((i = 0; i < 100; i++)); do
		{ mapfile -d '' -t theirs <"/proc/$1/cmdline"; } 2>/dev/null || return 0
		[[ ${theirs[*]} == "${ours[*]}" ]] || return 0
		sleep 0.01
	done
}

# The first stage stops its intake, the others end with their input. Told once:
# twice means to abandon. What is run before the first stage has nothing to
# drain.
drain() {
	[[ $phase == running ]] || return 0
	phase=draining
	deadline_in "$drain_ms"
	state_set draining
	if [[ -z ${pids[0]-} ]]; then
		[[ -z $marks || -z ${pids[marks]-} ]] || wait_for_exec "${pids[marks]}"
		kill_all TERM INT
	elif [[ -n ${alive[${pids[0]}]-} ]]; then
		wait_for_exec "${pids[0]}"
		kill -TERM "${pids[0]}" 2>/dev/null
	fi
}

# abandon WHY
abandon() {
	[[ $phase != abandoned && $phase != killed ]] || return 0
	say error "abandoned: $1: what isn't acknowledged is done again"
	phase=abandoned
	abandoned=75
	kill_all TERM INT
	deadline_in "$abandon_ms"
}

# What came since the last look: signals, the deadline.
look() {
	if ((stops > stops_seen)); then
		if ((stops_seen == 0)); then
			say notice "told to stop: stops the first stage, drains, and ends"
			notify --stopping
		fi
		((stops == 1)) || abandon "second signal"
		stops_seen=$stops
		drain
	fi
	((hups == 0)) || [[ -n $check_pid ]] || reload_ask
	is_due || return 0
	case $phase in
	draining) abandon "not drained within $drain_ms ms" ;;
	abandoned)
		phase=killed
		deadline=0
		kill_all KILL
		;;
	esac
}

# lives WHAT...: a process of the chain with such an index.
lives() {
	local index
	for index; do
		[[ -z ${pids[index]-} || -z ${alive[${pids[index]}]-} ]] || return 0
	done
	return 1
}

# watch INDEX...: until all of these have died.
watch() {
	local what status
	while lives "$@"; do
		[[ -n $timer_pid ]] || timer_start
		look
		await
		case $what in
		"ready:$run") ((status != 0)) || became_ready ;;
		[0-9]*)
			note_death "$what" "$status"
			# A chain that isn't whole any more has nothing to wait for.
			[[ $what == "$marks" && $status == 0 ]] || drain
			;;
		esac
	done
}

became_ready() {
	local uptime_ms
	uptime
	ready=1
	ready_ms=$uptime_ms
	# First the state: who has read the line finds it there.
	[[ $phase != running ]] || state_set ready
	say notice "ready: run $run, $((uptime_ms - run_ms)) ms after its start"
	[[ $phase != running ]] || notify --ready
}

# watch_keep: the lines of dead stages are all there before the cause is named;
# but a log that nobody takes isn't waited for.
watch_keep() {
	local what status
	deadline_in 2000
	while lives "$keep"; do
		[[ -n $timer_pid ]] || timer_start
		! is_due || kill -KILL "${pids[keep]}" 2>/dev/null
		await
		[[ $what != "$keep" ]] || is_due || note_death "$what" "$status"
	done
	deadline=0
}

# run_once: sets cause, cause_status, abandoned.
run_once() {
	local uptime_ms i stage_indices=()
	for ((i = 0; i < pipeline; i++)); do
		stage_indices+=("$i")
	done
	uptime
	figures_add qim_chain_starts_total supervisor '' 1
	run=$((run + 1)) run_ms=$uptime_ms ready='' phase=running deadline=0
	cause='' cause_status='' cause_is_hard='' cause_pid='' abandoned=0 pids=() soft=()
	if ! make_pipes; then
		close_pipes
		cause=$keep cause_status=71
		return
	fi
	start "$keep"
	state_set starting
	if [[ -n $marks ]]; then
		start "$marks"
		watch "$marks"
	fi
	if [[ $phase == running && -z $cause ]]; then
		start "${stage_indices[@]}"
		close_pipes
		ready_start
		state_set starting
	fi
	close_pipes
	watch "${stage_indices[@]}"
	figures_take
	close_fds "$ready_read"
	ready_read=
	watch_keep
}
