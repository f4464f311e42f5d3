# shellcheck shell=bash
# spawn.bash: pipes, and how a process of the chain is started.
#
# A pipe has no name: a file of a killed supervisor would stay. And an end that
# another process holds too keeps a reader from ever seeing EOF, so that each
# child closes all that isn't its own.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

readers=() # pipe I leads from process I to process I + 1
writers=()
log_readers=() # of process I's stderr
log_writers=()
ready_read='' ready_write='' # offset-commit says on it that the stream flows
marks_fd=
notify_pid= # the last one, while it runs

declare -A alive=() # pid → index of a process, or what else it is
pids=()

# make_pipe: sets pipe_read and pipe_write. A pipe that bash makes is opened
# again for each of the ends.
make_pipe() {
	local both
	{
		exec {both}<> <(:) &&
			exec {pipe_read}</proc/self/fd/"$both" &&
			exec {pipe_write}>/proc/self/fd/"$both"
	} 2>/dev/null || return
	exec {both}>&-
}

close_fds() {
	local fd
	for fd; do
		[[ -z $fd ]] || exec {fd}>&-
	done
}

# Once all processes have theirs.
close_pipes() {
	close_fds "${readers[@]}" "${writers[@]}" "${log_readers[@]}" \
		"${log_writers[@]}" "$ready_write" "$marks_fd"
	readers=() writers=() log_readers=() log_writers=()
	ready_write='' marks_fd=''
}

# close_all_but FD...: in a child: of the lock's descriptor too, since the lock
# is held as long as any process has it.
close_all_but() {
	local fd kept=" $* "
	((say_fd > 2)) || say_fd=
	for fd in "${readers[@]}" "${writers[@]}" "${log_readers[@]}" \
		"${log_writers[@]}" "$ready_read" "$ready_write" "$marks_fd" \
		"$lock_fd" "$err_fd" "$say_fd"
	do
		[[ -z $fd || $kept == *" $fd "* ]] ||
			{ exec {fd}>&-; } 2>/dev/null
	done
}

# All pipes of a run; fails where there are no descriptors left.
make_pipes() {
	local i pipe_read pipe_write
	for ((i = 0; i + 1 < pipeline; i++)); do
		make_pipe || return
		readers[i]=$pipe_read writers[i]=$pipe_write
	done
	for ((i = 0; i < ${#labels[@]}; i++)); do
		((i != keep)) || continue
		make_pipe || return
		log_readers[i]=$pipe_read log_writers[i]=$pipe_write
	done
	make_pipe || return
	ready_read=$pipe_read ready_write=$pipe_write
	[[ -z $marks ]] || make_marks
}

# A file that has no name any more when anything is written to it.
make_marks() {
	exec {marks_fd}<>"$run_folder/marks" || return
	rm -f -- "$run_folder/marks"
}

# own_args I: sets `args` to what the supervisor adds.
own_args() {
	local i=$1 each
	args=(--with-parent)
	if ((i == keep)); then
		args+=(--last-dir "$run_folder"
			${log_folder:+--dir "$log_folder"}
			${opt[--log-bytes]:+--bytes "${opt[--log-bytes]}"}
			${opt[--log-files]:+--files "${opt[--log-files]}"})
		for each in "${!log_readers[@]}"; do
			args+=("${labels[each]}=${log_readers[each]}")
		done
		return
	fi
	((i >= pipeline)) || is_tap "$i" ||
		args+=(--prom "$prom_folder" --chain "$chain_label")
	[[ ${labels[i]} != offset-commit ]] || args+=(--ready "$ready_write")
}

# redirect I: this subshell's stdin, stdout and stderr become those of I.
redirect() {
	local i=$1
	if ((i == keep)); then
		exec >/dev/null 2>&"$err_fd"
		return
	fi
	((i == 0 || i >= pipeline)) || exec <&"${readers[i - 1]}"
	((i + 1 >= pipeline)) || exec >&"${writers[i]}"
	[[ $i != "$marks" ]] || exec >&"$marks_fd"
	[[ $i != 0 || -z $marks ]] || exec </proc/self/fd/"$marks_fd"
	exec 2>&"${log_writers[i]}"
}

# become I: turns this subshell into process I. It gets a session of its own,
# so that Ctrl-C reaches the supervisor alone: the supervisor's TERM would be
# the second signal, and a second one abandons. Signals that a parent ignores
# would stay ignored.
become() {
	local i=$1 args
	own_args "$i"
	redirect "$i"
	if ((i == keep)); then
		close_all_but "${log_readers[@]}"
	elif [[ ${labels[i]} == offset-commit ]]; then
		close_all_but "$ready_write"
	else
		close_all_but
	fi
	export QIM_SUPERVISOR=$$
	exec env --default-signal=PIPE,INT,QUIT,HUP setsid \
		"${paths[i]}" "${args[@]}" "${argv[@]:from[i]:count[i]}"
}

# notify --ready|--stopping|--reloading: tells systemd, where it wants to know.
# As an assignment: systemd-notify has the latter two as options only from 253
# on. It doesn't overtake the one before, but waits no longer than quit does.
notify() {
	local word=${1#--} i
	[[ -n ${NOTIFY_SOCKET-} ]] || return 0
	(
		close_all_but
		for ((i = 0; i < 50; i++)); do
			{ [[ -n $notify_pid ]] && kill -0 "$notify_pid"; } || break
			sleep 0.02
		done
		exec setpriv --pdeathsig KILL systemd-notify "${word^^}=1"
	) </dev/null >/dev/null &
	notify_pid=$!
	alive[$!]=notify
}

# start I...: these processes.
start() {
	local i
	for i; do
		become "$i" </dev/null 2>/dev/null &
		pids[i]=$!
		alive[$!]=$i
		say info "${labels[i]}: pid $!: started"
	done
}

# kill_all SIGNAL...: each to every process of the chain but log-keep, which
# ends when they have. Two TERMs that come at once would be one to a process:
# TERM and INT are two.
kill_all() {
	local pid signal
	for pid in "${!alive[@]}"; do
		[[ ${alive[$pid]} == [0-9]* && ${alive[$pid]} != "$keep" ]] ||
			continue
		for signal; do
			kill "-$signal" "$pid" 2>/dev/null
		done
	done
}

# ready_start: a child that waits for offset-commit's line.
ready_start() {
	(
		trap '' HUP
		close_all_but "$ready_read"
		read -r _ <&"$ready_read"
	) </dev/null >/dev/null &
	alive[$!]=ready:$run
}

# own_log_start: the supervisor's own lines go through a log-keep too, so that
# a stderr that nobody reads doesn't stop it. It lives as long as this one.
own_log_start() {
	local pipe_read pipe_write uptime_ms
	[[ -z $say_file ]] || return 0
	uptime
	own_ms=$uptime_ms
	make_pipe || return 0
	(
		exec >/dev/null 2>&"$err_fd"
		close_all_but
		close_fds "$pipe_write"
		export QIM_SUPERVISOR=$$
		exec env --default-signal=PIPE,INT,QUIT,HUP setsid \
			"${paths[keep]}" --with-parent "$chain_name=$pipe_read"
	) </dev/null 2>/dev/null &
	alive[$!]=own
	own_pid=$!
	close_fds "$pipe_read"
	say_fd=$pipe_write
}
