# shellcheck shell=bash
# chain.bash: a chain of programs joined by pipes, each a process of its own
# whose pid and exit status are known.
#
# A script sets chain_name, chain_synopsis and chain_here (its folder) and calls
#	chain_options VALUES WORD...	as options_parse, in options.bash
#	chain_add NAME ARG...	for each stage, the first one first
#	chain_ready		refuses what can be refused before anything runs
#	chain_run [ARG...]	starts all, with these arguments more for the first
#				stage, which gets this script's stdin; with --check
#				runs each stage's own --check instead. It doesn't
#				return but exits, with the chain's status
#
# Why not a pipeline of the shell's: its status is that of the last stage that
# failed, which hides the first cause, since a stage that died of 65 makes its
# neighbours die of 75.

# shellcheck source=pipelines/options.bash
source "${BASH_SOURCE[0]%/*}/options.bash"
# shellcheck source=pipelines/status.bash
source "${BASH_SOURCE[0]%/*}/status.bash"

: "${chain_here:?}"

# The processes: a stage each, and a tee behind each stage with a tap.
labels=()
paths=()
from=() # where the arguments begin in argv
count=() # how many there are
argv=()
stages=() # the names of those that are stages

declare -A alive=() # pid → index
pids=()
signals=0 # TERM and INT that came
drained= # the first stage was told to stop

# find_program NAME: its path: in QIM_BIN, in a build beside this script,
# beside this script, in PATH.
find_program() {
	local dir
	for dir in "${QIM_BIN-}" "$chain_here/../build/bin" "$chain_here"; do
		if [[ -n $dir && -f $dir/$1 && -x $dir/$1 ]]; then
			printf '%s' "$dir/$1"
			return
		fi
	done
	type -P -- "$1"
}

need_program() {
	find_program "$1" ||
		die 78 "$1: no such program in \$QIM_BIN, beside $chain_name or in \$PATH"
}

chain_options() {
	local path
	options_parse "$@"
	if [[ -n ${opt[-V]-} ]]; then
		path=$(need_program outbox-read) || exit
		printf '%s %s\n' "$chain_name" "$("$path" -V | cut -d ' ' -f 2-)"
		exit
	fi
}

process_add() {
	labels+=("$1")
	paths+=("$2")
	from+=("${#argv[@]}")
	count+=("$(($# - 2))")
	argv+=("${@:3}")
}

# stage_values OPTION NAME: sets `values` to what OPTION NAME=… gave.
stage_values() {
	local i
	options_pick "$1"
	values=()
	for ((i = 1; i < ${#picked[@]}; i += 2)); do
		[[ ${picked[i]} != "$2="* ]] || values+=("${picked[i]#*=}")
	done
}

# chain_add NAME ARG...: the next stage, with what --stage and --tap add.
chain_add() {
	local name=$1 path values file
	path=$(need_program "$name") || exit
	stages+=("$name")
	stage_values --stage "$name"
	options_pick --connect-ms
	process_add "$name" "$path" "${@:2}" ${opt[-q]:+-q} "${picked[@]}" \
		"${values[@]}"
	stage_values --tap "$name"
	for file in "${values[@]}"; do
		process_add "tap of $name" "$(type -P tee)" -- "$file"
	done
}

is_tap() {
	[[ ${labels[$1]} == tap\ * ]]
}

# --stage and --tap must name a stage; what ends the chain has no stream to
# copy.
check_names() {
	local i option value name
	options_pick --stage --tap
	for ((i = 0; i < ${#picked[@]}; i += 2)); do
		option=${picked[i]} value=${picked[i + 1]} name=${picked[i + 1]%%=*}
		[[ $value == ?*=?* ]] ||
			die 64 "$option: '$value': wants $([[ $option == --tap ]] &&
				echo stage=file || echo name=argument)"
		[[ " ${stages[*]} " == *" $name "* ]] ||
			die 64 "$option: '$name': the stages are ${stages[*]}"
		[[ $option != --tap || $name != "${stages[-1]}" ]] ||
			die 64 "--tap: '$name': its output isn't a stream"
	done
}

check_tap_file() {
	local parent=${1%/*}
	[[ $1 == */* ]] || parent=.
	[[ ! -d $1 && (-w $1 || ! -e $1 && -w ${parent:-/}) ]] ||
		die 66 "--tap: '$1': can't be written"
}

# What can be refused before any stage is started.
check_taps() {
	local i
	for ((i = 0; i < ${#labels[@]}; i++)); do
		! is_tap "$i" || check_tap_file "${argv[from[i] + 1]}"
	done
}

# chain_ready: all stages are added.
chain_ready() {
	check_names
	check_taps
}

# Pipe I leads from process I to process I + 1: readers[I], writers[I]. No open
# of a fifo waits for its other end while a third descriptor has it open for
# both.
make_pipes() {
	local dir both reader writer i
	readers=()
	writers=()
	dir=$(mktemp -d) || die 71 "no temporary folder"
	for ((i = 0; i + 1 < ${#labels[@]}; i++)); do
		if ! mkfifo "$dir/$i" || ! exec {both}<>"$dir/$i" ||
			! exec {reader}<"$dir/$i" || ! exec {writer}>"$dir/$i"
		then
			rm -rf -- "$dir"
			die 71 "no pipe to ${labels[i + 1]}"
		fi
		exec {both}>&-
		readers+=("$reader")
		writers+=("$writer")
	done
	rm -rf -- "$dir"
}

# An end that another process holds too keeps a reader from ever seeing EOF.
close_pipes() {
	local fd
	for fd in "${readers[@]}" "${writers[@]}"; do
		exec {fd}>&-
	done
}

# become I ARG...: turns this subshell into process I. It gets a session of
# its own, so that Ctrl-C reaches the supervisor alone: the supervisor's TERM
# would be the second signal, and a second one abandons. Signals that a
# parent ignores would stay ignored.
become() {
	local i=$1
	shift
	((i == 0)) || exec <&"${readers[i - 1]}"
	((i + 1 == ${#labels[@]})) || exec >&"${writers[i]}"
	close_pipes
	exec 2>&"$say_fd" {say_fd}>&-
	is_tap "$i" || set -- "$@" --with-parent
	exec env --default-signal=PIPE,INT,QUIT setsid \
		"${paths[i]}" "${argv[@]:from[i]:count[i]}" "$@"
}

start_all() {
	local i
	for ((i = 0; i < ${#labels[@]}; i++)); do
		((i == 0)) || set --
		# What runs in the background has /dev/null as stdin unless told.
		become "$i" "$@" <&0 &
		pids[i]=$!
		alive[$!]=$i
		say info "${labels[i]}: pid $!: started"
	done
	close_pipes
}

# The first stage stops its intake, the others end with their input. Told once:
# twice means to abandon.
drain() {
	local first=${pids[0]-}
	[[ -z $drained && -n $first && -n ${alive[$first]-} ]] || return
	drained=1
	kill -TERM "$first" 2>/dev/null
}

# Two TERMs that come at once would be one to a stage: TERM and INT are two.
abandon() {
	local signal
	say error "abandoned: second signal: what isn't acknowledged is done again"
	((${#alive[@]} == 0)) || for signal in TERM INT; do
		kill "-$signal" "${!alive[@]}" 2>/dev/null
	done
}

# Runs as a trap, so nothing here may fork: see next_death.
obey_signals() {
	case $signals in
	0) ;;
	1) drain ;;
	*) abandon ;;
	esac
}

on_signal() {
	signals=$((signals + 1))
	obey_signals
}

# next_death: sets pid and status, in the order in which they die, as far as it
# can be seen: of two that die before this shell gets to run, the one that was
# started first is taken. `wait -n` doesn't know a process any more that died
# while this shell waited for something else, `wait PID` does. pid is empty
# when a signal came.
next_death() {
	local candidate
	for candidate in "${pids[@]}"; do
		if [[ -n ${alive[$candidate]-} ]] &&
			! kill -0 "$candidate" 2>/dev/null
		then
			pid=$candidate
			wait "$pid"
			status=$?
			return
		fi
	done
	wait -n -p pid "${!alive[@]}"
	status=$?
}

wait_for_all() {
	local pid status
	while ((${#alive[@]} > 0)); do
		next_death
		[[ -n ${pid-} ]] || continue
		note_death "${alive[$pid]}" "$status"
		unset "alive[$pid]"
		# A chain that isn't whole any more has nothing to wait for.
		drain
	done
}

run_checks() {
	local i status
	for ((i = 0; i < ${#labels[@]}; i++)); do
		! is_tap "$i" || continue
		"${paths[i]}" "${argv[@]:from[i]:count[i]}" "$@" --check >/dev/null
		status=$?
		((status == 0)) || finish "$i" "$status"
		exec </dev/null
		set --
	done
	exit 0
}

chain_run() {
	[[ -z ${opt[--check]-} ]] || run_checks "$@"
	trap on_signal TERM INT
	make_pipes
	# The shell has its own lines for killed processes; these are said here.
	exec {say_fd}>&2 2>/dev/null
	start_all "$@"
	obey_signals
	wait_for_all
	[[ -z $cause ]] || finish "$cause" "$cause_status"
	exit "$abandoned"
}
