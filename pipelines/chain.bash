# shellcheck shell=bash
# chain.bash: a chain of programs joined by pipes, each a process of its own
# whose pid and exit status are known; and how a supervisor script begins.
#
# A script sets chain_name, chain_kind (a word for files), chain_synopsis,
# chain_here (its folder) and chain_values (its options that take a value),
# defines
#	chain_build	refuses what can be refused before anything runs, and
#			calls chain_add for each stage, the first one first
# and calls
#	chain_main WORD...
# which doesn't return. chain_build may call
#	chain_add NAME ARG...	a stage
#	chain_start_at NAME ARG...	a program that is run to its end before
#				each start; what it prints is a file at the
#				first stage's stdin
#
# Why not a pipeline of the shell's: its status is that of the last stage that
# failed, which hides the first cause, since a stage that died of 65 makes its
# neighbours die of 75.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

: "${chain_here:?}"
: "${chain_lib:=${BASH_SOURCE[0]%/*}}"

# shellcheck source=pipelines/say.bash
source "$chain_lib/say.bash" || exit 78
# shellcheck source=pipelines/options.bash
source "$chain_lib/options.bash" || exit 78
# shellcheck source=pipelines/config.bash
source "$chain_lib/config.bash" || exit 78
# shellcheck source=pipelines/lock.bash
source "$chain_lib/lock.bash" || exit 78
# shellcheck source=pipelines/state.bash
source "$chain_lib/state.bash" || exit 78
# shellcheck source=pipelines/spawn.bash
source "$chain_lib/spawn.bash" || exit 78
# shellcheck source=pipelines/cause.bash
source "$chain_lib/cause.bash" || exit 78
# shellcheck source=pipelines/figures.bash
source "$chain_lib/figures.bash" || exit 78
# shellcheck source=pipelines/run.bash
source "$chain_lib/run.bash" || exit 78
# shellcheck source=pipelines/supervise.bash
source "$chain_lib/supervise.bash" || exit 78
# shellcheck source=pipelines/status.bash
source "$chain_lib/status.bash" || exit 78

# The processes: a stage each, and a stream-tap behind each stage with a tap;
# then those that are not in the pipeline: log-keep, and the one of
# chain_start_at.
labels=()
paths=()
from=() # where the arguments begin in argv
count=() # how many there are
argv=()
stages=() # the names of those that are stages
pipeline=0 # how many are in the pipeline
keep= # the index of log-keep
marks= # the index of what chain_start_at runs, or empty

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

# process_add LABEL PROGRAM ARG...
process_add() {
	local path
	path=$(need_program "$2") || exit
	labels+=("$1")
	paths+=("$path")
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
	local name=$1 values file i=0 given
	stages+=("$name")
	stage_values --stage "$name"
	options_pick --connect-ms
	process_add "$name" "$name" "${@:2}" ${opt[-q]:+-q} "${picked[@]}" \
		"${values[@]}"
	stage_values --tap "$name"
	given=(${opt[--tap-bytes]:+--bytes "${opt[--tap-bytes]}"}
		${opt[--tap-files]:+--files "${opt[--tap-files]}"})
	for file in "${values[@]}"; do
		i=$((i + 1))
		[[ $file != -* ]] || file=./$file
		process_add "tap-$i-of-$name" stream-tap "${given[@]}" "$file"
	done
	pipeline=${#labels[@]}
}

chain_start_at() {
	options_pick --connect-ms
	start_at=("$1" "${@:2}" ${opt[-q]:+-q} "${picked[@]}")
}

is_tap() {
	[[ ${labels[$1]} == tap-* ]]
}

# --stage and --tap must name a stage; what ends the chain has no stream to
# copy.
check_names() {
	local i option value name wants
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
check_files() {
	local i option file
	declare -A taps=()
	for ((i = 0; i < ${#labels[@]}; i++)); do
		is_tap "$i" || continue
		file=${argv[from[i] + count[i] - 1]}
		check_tap_file "$file"
		[[ -z ${taps[$file]-} ]] ||
			die 78 "--tap: '$file': is the file of ${taps[$file]} too"
		taps[$file]=${labels[i]}
	done
	for option in --log --prom; do
		[[ -z ${opt[$option]-} || -d ${opt[$option]} && -w ${opt[$option]} ]] ||
			die 66 "$option: '${opt[$option]}': no folder that can be written to"
	done
}

# chain_prepare: all of the chain from the options; refuses what can be
# refused.
chain_prepare() {
	labels=() paths=() from=() count=() argv=() stages=() start_at=()
	keep='' marks=''
	[[ -z ${opt[-f]-} ]] || config_apply
	chain_build
	check_names
	check_files
	if ((${#start_at[@]} > 0)); then
		marks=${#labels[@]}
		process_add "${start_at[0]}" "${start_at[@]}"
	fi
	keep=${#labels[@]}
	process_add log-keep log-keep
}

# check_process I STDIN ARG...: with more arguments; its stdout goes to ours. It
# ends with this shell.
check_process() {
	local i=$1 status
	setpriv --pdeathsig KILL "${paths[i]}" \
		"${argv[@]:from[i]:count[i]}" "${@:3}" <"$2"
	status=$?
	((status == 0)) ||
		die "$(code_of "$i" "$status")" "${labels[i]}: $(describe "$i" "$status")"
}

# The first stage has the start on its stdin, as in a run.
run_checks() {
	local i start
	exec </dev/null
	if [[ -n $marks ]]; then
		start=$(check_process "$marks" /dev/null) || exit
		exec <<<"$start"
	fi
	for ((i = 0; i < pipeline; i++)); do
		check_process "$i" /dev/stdin --check >/dev/null
	done
	exit 0
}

show_version() {
	local path
	path=$(need_program outbox-read) || exit
	printf '%s %s\n' "$chain_name" "$("$path" -V | cut -d ' ' -f 2-)"
	exit
}

chain_main() {
	chain_words=("$@")
	# A core file would hold messages, which are private.
	ulimit -c 0
	options_parse "$chain_values" "$@"
	[[ -z ${opt[-V]-} ]] || show_version
	if [[ -n ${opt[-f]-} ]]; then
		config_read
		config_parse
	fi
	[[ -z ${opt[--status]-} ]] || show_status
	chain_prepare
	[[ -z ${opt[--check]-} ]] || run_checks
	supervise
}
