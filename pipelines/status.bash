# shellcheck shell=bash
# status.bash: what the end of a process means for its chain. A part of
# chain.bash, whose variables it uses.
# shellcheck disable=SC2034,SC2154

cause= # index of the process that is the first cause
cause_status=
cause_is_hard=
abandoned=0 # 75: a stage was told to abandon, and did

# kind_of INDEX STATUS: fine; soft: may be what another one's death did to it;
# hard.
kind_of() {
	case $2 in
	0) echo fine ;;
	75 | $((128 + 13))) echo soft ;; # SIGPIPE: its reader has gone
	$((128 + 15))) # told to stop before it had a handler
		[[ $1 == 0 && -n $drained ]] && echo soft || echo hard
		;;
	*) echo hard ;;
	esac
}

# Keeps the first that was hard, else the first that was soft.
note_death() {
	local kind
	say info "${labels[$1]}: pid ${pids[$1]}: $(describe "$1" "$2")"
	kind=$(kind_of "$1" "$2")
	[[ $kind != fine ]] || return
	if ((signals > 1)); then
		abandoned=75
	elif [[ -z $cause || -z $cause_is_hard && $kind == hard ]]; then
		cause=$1
		cause_status=$2
		[[ $kind == soft ]] || cause_is_hard=1
	fi
}

# describe INDEX STATUS: what it means, for a message.
describe() {
	local status=$2 why
	if ((status > 128)); then
		echo "killed by signal $((status - 128)) ($(kill -l "$status"))"
		return
	fi
	((status == 0)) || ! is_tap "$1" || status=tap
	case $status in
	0) why= ;;
	tap) why=": ${argv[from[$1] + 1]} isn't whole" ;;
	64) why=': usage' ;;
	65) why=': bad data' ;;
	66) why=": input can't be opened" ;;
	69) why=': not reachable' ;;
	70) why=': internal error' ;;
	71) why=': no resources' ;;
	74) why=': I/O error' ;;
	75) why=': temporary failure, start again' ;;
	76) why=': wrong kind of stream' ;;
	77) why=': not authorised' ;;
	78) why=': configuration' ;;
	126 | 127) why=": ${paths[$1]} can't be started" ;;
	*) why=': not a code of ours' ;;
	esac
	echo "exit $2$why"
}

# code_of INDEX STATUS: the chain's exit code where that process is the cause.
code_of() {
	case $2 in
	$((128 + 4)) | $((128 + 6)) | $((128 + 7)) | $((128 + 8)) | $((128 + 11)))
		echo 70 # ILL, ABRT, BUS, FPE, SEGV: a bug
		;;
	126 | 127) echo 78 ;;
	*)
		if (($2 > 128)); then
			echo 75
		elif is_tap "$1"; then
			echo 74
		else
			echo "$2"
		fi
		;;
	esac
}

# finish INDEX STATUS: names the cause and exits.
finish() {
	die "$(code_of "$1" "$2")" "${labels[$1]}: $(describe "$1" "$2")"
}
