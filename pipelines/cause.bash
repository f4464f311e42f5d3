# shellcheck shell=bash
# cause.bash: what the end of a process means for its chain.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

cause= # index of the process that is the first cause
cause_status=
cause_pid=
cause_is_hard=
soft=() # "index status pid" of each that was soft, as they were seen
abandoned=0 # 75: the chain was told to abandon

# kind_of INDEX STATUS: fine; soft: may be what another one's death did to it;
# hard.
kind_of() {
	case $2 in
	0) echo fine ;;
	75 | $((128 + 13))) echo soft ;; # SIGPIPE: its reader has gone
	$((128 + 15))) # told to stop before it had a handler
		[[ $1 == 0 && $phase != running ]] && echo soft || echo hard
		;;
	*) echo hard ;;
	esac
}

# Keeps the first that was hard, else the first that was soft; but what was
# told to abandon, or was run for the chain's start and told to stop, isn't a
# cause.
note_death() {
	local kind
	say info "${labels[$1]}: pid ${pids[$1]}: $(describe "$1" "$2")"
	(($2 == 0)) || figures_add qim_stage_deaths_total "${labels[$1]}" ",code=\"$2\"" 1
	kind=$(kind_of "$1" "$2")
	[[ $kind != fine && $phase != abandoned && $phase != killed ]] || return 0
	[[ $1 != "$marks" || $phase == running ]] || return 0
	[[ $kind == hard ]] || soft+=("$1 $2 ${pids[$1]}")
	if [[ -z $cause || -z $cause_is_hard && $kind == hard ]]; then
		cause=$1
		cause_status=$2
		cause_pid=${pids[$1]}
		[[ $kind == soft ]] || cause_is_hard=1
	fi
}

# describe INDEX STATUS: what it means, for a message.
describe() {
	local why
	if (($2 > 128)); then
		echo "killed by signal $(($2 - 128)) ($(kill -l "$2"))"
		return
	fi
	case $2 in
	0) why= ;;
	64) why=': usage' ;;
	65) why=': bad data' ;;
	66) why=": input can't be opened" ;;
	69) why=': not reachable' ;;
	70) why=': internal error' ;;
	71) why=': no resources' ;;
	74) why=': I/O error' ;;
	75) why=': temporary failure' ;;
	76) why=': wrong kind of stream' ;;
	77) why=': not authorised' ;;
	78) why=': configuration' ;;
	126 | 127) why=": ${paths[$1]} can't be started" ;;
	*) why=': not a code of ours' ;;
	esac
	echo "exit $2$why"
}

# is_crash STATUS: ILL, ABRT, BUS, FPE, SEGV: a bug.
is_crash() {
	case $1 in
	$((128 + 4)) | $((128 + 6)) | $((128 + 7)) | $((128 + 8)) | $((128 + 11))) ;;
	*) return 1 ;;
	esac
}

# code_of INDEX STATUS: the chain's exit code where that process is the cause.
code_of() {
	if is_crash "$2"; then
		echo 70
	elif (($2 > 128)); then
		echo 75
	elif (($2 == 126 || $2 == 127)); then
		echo 78
	else
		echo "$2"
	fi
}

# last_line INDEX: sets `line` to the last that it said.
last_line() {
	line=
	{ read -r line <"$run_folder/${labels[$1]}.last"; } 2>/dev/null
}

# cause_of_soft: where no death was hard, the first that ended with 75 and
# didn't say that a neighbour has gone: deaths may be seen in any order. Fails
# where there is none; what was seen first stays then.
cause_of_soft() {
	local each index status pid line
	[[ -z $cause_is_hard ]] || return
	for each in "${soft[@]}"; do
		read -r index status pid <<<"$each"
		last_line "$index"
		[[ $status == 75 && $line != *': error: input: torn: '* &&
			$line != *': error: output: the reader is gone' ]] || continue
		cause=$index cause_status=$status cause_pid=$pid
		return
	done
	return 1
}

# cause_describe: sets `cause_text`: the first cause, with the last line that
# it said.
cause_describe() {
	local line
	if [[ -z $cause_pid ]]; then
		cause_text="no pipes for the stages: $(describe "$cause" "$cause_status"): see ulimit -n"
		[[ -w $run_folder ]] ||
			cause_text="no file for the marks: $run_folder has gone or can't be written to"
		return
	fi
	cause_text="${labels[cause]}: pid $cause_pid: $(describe "$cause" "$cause_status")"
	last_line "$cause"
	[[ -z $line ]] || cause_text+=", its last line: \"$line\""
}

# arguments_of INDEX: where a process has those that a person gives.
arguments_of() {
	if [[ " ${stages[*]} " == *" ${labels[$1]} "* ]]; then
		echo "--stage, stage.${labels[$1]} in the configuration"
	elif is_tap "$1"; then
		echo "--tap, --tap-bytes, --tap-files"
	else
		echo "the supervisor's options"
	fi
}

# advise CODE: what a person is to do about the cause.
advise() {
	local program=${paths[cause]##*/} name=${labels[cause]}
	case $1 in
	64) echo "see the arguments of $name: $(arguments_of "$cause"); $program -h" ;;
	65) echo "see the record that it names, and $program(1), DIAGNOSTICS; --dead-letter takes what can't be sent on" ;;
	66) echo "see the file that it names: -F, properties, --tap, --log, --prom, --lock-dir" ;;
	70) echo "a bug: keep its lines, and report it; to start again loses nothing" ;;
	76) echo "the stages don't fit together: see that all are of one version: $program -V; qim-stream(5)" ;;
	77) echo "see users, passwords and access lists: -F, properties, redis.user, redis.password-file; $program(1)" ;;
	78)
		if ((cause_status == 126 || cause_status == 127)); then
			echo "see QIM_BIN and PATH, and the permissions of the program"
		else
			echo "see the setting that it names, and $program(1), DIAGNOSTICS"
		fi
		;;
	*) echo "$1 is not a code of these programs: is ${paths[cause]} one of them?" ;;
	esac
}
