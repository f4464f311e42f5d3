# shellcheck shell=bash
# supervise.bash: runs the chain again and again: what the end of a run means,
# how long to wait, when to give up; what is asked for meanwhile.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

abandon_ms=5000 # from the second signal to SIGKILL
steady_ms=60000 # a run that lived so long
ready_steady_ms=10000 # or was ready for so long, is no failure to start
crashes_most=3 # in the window of --give-up

state='' state_since=0 began_ms=0
run=0 restarts=0
last_cause=
chain_label=
log_folder=
deaths=() # when, on uptime's clock, those of the window
crashes=()
back_ms=0 # the next wait, before its jitter
reload= # a HUP's: start again with what is in config_next
config_next=()
config_asked=() # what a HUP asks for, not checked yet
check_pid=
hup_is_stop=
own_pid='' own_ms=0 own_quick=0 ending=''
err_fd=

# settings: numbers from the options.
settings() {
	local given=${opt[--back-off]-1000-30000}
	back_least=$((10#${given%%-*})) back_most=$((10#${given#*-}))
	given=${opt[--give-up]-20/600}
	deaths_most=$((10#${given%%/*})) window_ms=$((10#${given#*/} * 1000))
	drain_ms=$((10#${opt[--drain-ms]-30000}))
	prom_folder=${opt[--prom]-$run_folder}
	chain_label
	figures_name
	log_folder
	say_file=${log_folder:+$log_folder/current}
	back_ms=$back_least
}

# chain_label: sets it to the name of the chain in figures and logs, which other
# chains have too: that of its folder, and where the folder of the locks is
# one's own, behind an @ the last part of its name. 64 characters at most.
chain_label() {
	local sum safe parent=${run_folder%/*}
	chain_label=${run_folder##*/}
	if [[ -n ${opt[--lock-dir]-} && $parent != /run/qim ]]; then
		safe_name "${parent##*/}"
		chain_label+=@$safe
	fi
	((${#chain_label} > 64)) || return 0
	read -r sum _ < <(cksum <<<"$chain_label")
	chain_label=${chain_label:0:50}_$sum
}

# log_folder: sets it to the chain's own in that of --log, or to nothing; makes
# it where it isn't there. Two log-keeps in one folder would lose lines.
log_folder() {
	log_folder=
	[[ -n ${opt[--log]-} ]] || return 0
	log_folder=${opt[--log]}/$chain_label
	[[ -d $log_folder ]] || (umask "$say_umask" && mkdir -- "$log_folder") \
		2>/dev/null
	[[ -d $log_folder && -w $log_folder && -x $log_folder ]] ||
		die 66 "--log: '$log_folder': can't be made or written to"
}

# reload_ask: a HUP. A child checks what is asked for before anything is
# stopped: what is refused changes nothing. One that comes meanwhile waits.
reload_ask() {
	local config_lines=() status=0
	hups=0
	[[ $stops == 0 ]] || return 0
	if [[ -n ${opt[-f]-} ]]; then
		status=1
		# A fifo was read once: it would be waited for.
		if [[ -f ${opt[-f]} ]]; then
			config_load "${opt[-f]}"
			status=$?
		fi
	fi
	config_asked=("${config_lines[@]}")
	reload_check "$status" </dev/null >/dev/null &
	check_pid=$!
	alive[$!]=check
}

# reload_check STATUS: in a child: ends with 0 where neither the file nor a stage
# refuses what is asked for.
reload_check() {
	local old=$run_folder
	trap - TERM INT HUP
	close_all_but "$say_fd" "$err_fd"
	exec 2> >(say_lines)
	# shellcheck disable=SC2064  # this one
	trap "exec 2>&-; wait $!" EXIT
	say_fd=2 say_file=
	config_loaded "$1"
	reload_read
	run_folder_name
	[[ $run_folder == "$old" ]] ||
		die 78 "${opt[-f]}: group, partitions or lock-dir differ: that is another chain, and its lock another: $old"
	log_folder
	run_checks
}

# reload_checked STATUS: what the check ended with.
reload_checked() {
	check_pid=
	((stops == 0)) || return 0
	if (($1 != 0)); then
		say warning "HUP: ${opt[-f]-what the stages read} is refused: goes on as before"
		return
	fi
	config_next=("${config_asked[@]}")
	say notice "HUP: stops the first stage, drains, and starts again"
	notify --reloading
	reload=1
	drain
}

reload_read() {
	options_parse "$chain_values" "${chain_words[@]}"
	[[ -z ${opt[-f]-} ]] || config_parse
	chain_prepare
}

reload_apply() {
	reload=
	config_lines=("${config_next[@]}")
	reload_read
	settings
	[[ -n $own_pid ]] || own_log_start
}

# class_of CODE: done, stop: a person must act, again.
class_of() {
	case $1 in
	0) echo 'done' ;;
	69 | 71 | 74 | 75) echo again ;;
	*) echo stop ;;
	esac
}

# within NAME: the times in the array NAME that lie in the window, and now.
within() {
	local -n times=$1
	local each kept=()
	for each in "${times[@]}"; do
		((each <= uptime_ms - window_ms)) || kept+=("$each")
	done
	times=("${kept[@]}" "$uptime_ms")
}

# quit CODE: its last lines are waited for, but not for long.
quit() {
	local what status pid
	[[ -z $ending ]] || exit "$1"
	ending=$1
	pids=()
	state_set "ended $1"
	[[ -z $check_pid ]] || kill -KILL "$check_pid" 2>/dev/null
	[[ -z $own_pid ]] || { exec {say_fd}>&-; say_fd=$err_fd; }
	deadline_in 2000
	until is_due || [[ " ${alive[*]} " != *" own "* &&
		" ${alive[*]} " != *" notify "* ]] && figures_done; do
		[[ -n $timer_pid ]] || timer_start
		await
	done
	exit "$1"
}

# on_exit: whoever ends this shell. bash does so itself, with 254, where it can
# start no process after some seconds of trying.
on_exit() {
	local code=$?
	[[ -z $ending ]] || exit "$ending"
	if ((code == 254)); then
		code=71
		say error "ended: no process can be started: see ulimit -u, TasksMax=, pids.max; to start again is safe"
	fi
	state_set "ended $code"
	exit "$code"
}

# stop_with CODE: a person must act.
stop_with() {
	say error "$cause_text"
	say error "stopped: $(advise "$1")"
	quit "$1"
}

# never_began: a TERM of ours came before the first stage had a handler for it:
# nothing was taken in.
never_began() {
	((stops > 0)) && [[ -z $cause_is_hard &&
		" ${soft[*]} " == *" 0 $((128 + 15)) "* ]]
}

# run_ended: ends the supervisor or returns to start again.
run_ended() {
	local code=$abandoned class cause_text="not drained" uptime_ms
	cause_of_soft || ! never_began || cause=''
	if [[ -n $cause ]]; then
		code=$(code_of "$cause" "$cause_status")
		cause_describe
		last_cause=$cause_text
	fi
	class=$(class_of "$code")
	if [[ $class == stop ]] && ! may_crash_again; then
		stop_with "$code"
	elif ((stops > 0)) || [[ -n ${opt[--once]-} || $class == "done" ]]; then
		[[ $class == "done" && -n $reload ]] && ((stops == 0)) && return
		[[ -z $cause ]] || say error "$cause_text"
		[[ -n ${opt[--once]-} ]] || ((stops > 0)) ||
			say notice "ended: ${labels[0]} came to its end, or was told to stop"
		quit "$code"
	elif [[ -z $reload ]]; then
		back_off "$code"
	elif [[ -n $cause ]]; then
		uptime
		within deaths
		say warning "$cause_text; start again at once, as HUP asked"
	fi
}

# A crash is tried again a few times.
may_crash_again() {
	[[ -n $cause && -z ${opt[--once]-} ]] && ((stops == 0)) &&
		is_crash "$cause_status" || return
	uptime
	within crashes
	((${#crashes[@]} < crashes_most))
}

# A run that lived for a while, or worked for a while.
worked_well() {
	((uptime_ms - run_ms >= steady_ms)) || {
		[[ -n $ready ]] && ((uptime_ms - ready_ms >= ready_steady_ms))
	}
}

# back_off CODE
back_off() {
	local ms text uptime_ms
	uptime
	within deaths
	if ((${#deaths[@]} >= deaths_most)); then
		say error "$cause_text"
		say error "gave up: ${#deaths[@]} deaths in $((window_ms / 1000)) s (--give-up): see what its lines say; start again when that is mended"
		quit "$1"
	fi
	! worked_well || back_ms=$back_least
	ms=$((back_ms * (500 + SRANDOM % 1001) / 1000))
	((ms > 0)) || ms=1 # 0 would be no deadline
	back_ms=$((back_ms * 2 < back_most ? back_ms * 2 : back_most))
	printf -v text '%d.%03d s' "$((ms / 1000))" "$((ms % 1000))"
	say warning "$cause_text; start again in $text (death ${#deaths[@]} of $deaths_most in $((window_ms / 1000)) s)"
	sleep_ms "$ms"
}

# sleep_ms MS: until then, a stop, or a HUP that is granted.
sleep_ms() {
	local what status
	phase=waiting pids=()
	state_set waiting
	deadline_in "$1"
	until is_due || ((stops > 0)) || [[ -n $reload ]]; do
		[[ -n $timer_pid ]] || timer_start
		if ((hups > 0)) && [[ -z $check_pid ]]; then
			reload_ask
		else
			await
		fi
	done
	deadline=0
	((stops == 0)) || {
		say notice "told to stop: ends, and doesn't start again"
		notify --stopping
		quit 0
	}
}

# orphans: sets `left` to the processes of the supervisor that `saw` is of, which
# has gone. One with a living parent of that pid is another chain's.
orphans() {
	local line pid parent began
	left=()
	for line in "${saw_processes[@]}"; do
		pid=${line%% *}
		process_stat "$pid" || continue
		[[ $parent == "${saw[pid]}" ]] || ! is_orphan "$pid" ||
			left+=("$pid")
	done
}

# is_orphan PID: one that has read a secret shows its arguments alone.
is_orphan() {
	local words=() wants="QIM_SUPERVISOR=${saw[pid]}"
	if ! { mapfile -d '' -t words <"/proc/$1/environ"; } 2>/dev/null; then
		{ mapfile -d '' -t words <"/proc/$1/cmdline"; } 2>/dev/null
		wants=--chain$'\n'${saw[chain]-}
	fi
	[[ $'\n'$(printf '%s\n' "${words[@]}")$'\n' == *$'\n'"$wants"$'\n'* ]]
}

# take_over: the supervisor before was killed. What it has left drains yet, or
# is stopped, and its locks would refuse this chain, with 78.
take_over() {
	local left uptime_ms
	uptime
	# One with a later time is of another boot.
	state_read && [[ ${saw[state]} != ended* ]] &&
		((saw[since] <= uptime_ms)) || return 0
	last_cause="supervisor ${saw[pid]}, before this one, was killed while ${saw[state]}"
	# What the stages of its last run have said is to be summed up yet.
	[[ ${saw[state]} == waiting ]] || figures_taken=()
	orphans
	say warning "$last_cause${left[*]:+: waits for its processes ${left[*]}}"
	deadline_in "$drain_ms"
	until ((${#left[@]} == 0 || stops > 0)) || is_due; do
		figures_beat
		sleep 0.1
		orphans
	done
	deadline=0
	kill_orphans
	figures_take
	((stops == 0)) || quit 0
}

# kill_orphans: where some are left: what they haven't done is done again. Their
# locks are free once they have gone.
kill_orphans() {
	local i
	((${#left[@]} > 0)) || return
	say error "processes ${left[*]} have not ended: killed"
	kill -KILL "${left[@]}" 2>/dev/null
	for ((i = 0; i < 50 && ${#left[@]} > 0; i++)); do
		sleep 0.1
		orphans
	done
}

# supervise: doesn't return.
supervise() {
	local uptime_ms
	[[ ! -t 0 && ! -t 2 ]] || hup_is_stop=1
	lock_take
	settings
	uptime
	began_ms=$uptime_ms
	trap on_exit EXIT
	trap on_signal TERM INT
	trap on_hup HUP
	trap '' PIPE
	# The shell has its own lines for killed processes; these are said here.
	exec {err_fd}>&2 2>/dev/null
	say_fd=$err_fd
	own_log_start
	figures_begin
	take_over
	while :; do
		run_once
		run_ended
		[[ -z $reload ]] || reload_apply
		restarts=$((restarts + 1))
	done
}
