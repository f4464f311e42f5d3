# shellcheck shell=bash
# options.bash: options of the supervisor scripts, in the form that the
# programs have.
#
# chain_synopsis is set. After
#	options_parse "-b -t ..." "$@"
# with the names of the options that take a value, `opt` has the last value of
# each, and options_pick hands options on as they were given.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

: "${chain_synopsis:?}"

declare -A opt=() # name → the last value, or 1
options_given=() # name, value, name, value, …: those with a value, in order
picked=()

# Those of the supervisor itself, and those that every stage has.
readonly options_own=" -f --config --stage --tap --tap-bytes --tap-files \
--connect-ms --drain-ms --give-up --back-off --log --log-bytes --log-files \
--prom "

options_take() {
	[[ -n $2 ]] || die 64 "$1: empty"
	opt[$1]=$2
	options_given+=("$1" "$2")
}

# A word that begins with one dash: flags, then perhaps an option whose value
# is the rest of the word. Sets `wanting` where the value is the next word.
options_take_letters() {
	local word=$1 values=$2 flags=$3 name
	while [[ -n $word ]]; do
		name=-${word:0:1}
		word=${word:1}
		if [[ $flags == *" $name "* ]]; then
			opt[$name]=1
		elif [[ $values != *" $name "* ]]; then
			die 64 "$name: unknown option, see -h"
		elif [[ -n $word ]]; then
			options_take "$name" "$word"
			return
		else
			wanting=$name
		fi
	done
}

options_take_long() {
	local word=$1 values=$2 flags=$3 name=${1%%=*}
	if [[ $flags == *" $word "* ]]; then
		opt[$word]=1
	elif [[ $values != *" $name "* ]]; then
		die 64 "$name: unknown option, see -h"
	elif [[ $word == *=* ]]; then
		options_take "$name" "${word#*=}"
	else
		wanting=$name
	fi
}

# options_parse VALUES WORD...
options_parse() {
	local values=" $1 $options_own" wanting='' word
	local flags=" -h -q -V -v --check --once --status --help --quiet \
--version --verbose "
	shift
	opt=() options_given=()
	for word; do
		if [[ -n $wanting ]]; then
			options_take "$wanting" "$word"
			wanting=''
			continue
		fi
		case $word in
		--?*) options_take_long "$word" "$values" "$flags" ;;
		-[!-]*) options_take_letters "${word:1}" "$values" "$flags" ;;
		*) die 64 "'$word': unexpected operand" ;;
		esac
	done
	[[ -z $wanting ]] || die 64 "$wanting: wants a value"
	options_alias -h --help -q --quiet -V --version -v --verbose \
		-f --config
	[[ -z ${opt[-h]-} ]] || { printf '%s\n' "$chain_synopsis" && exit; }
	[[ -z ${opt[-q]-} || -z ${opt[-v]-} ]] ||
		die 64 "-q, -v: one or the other"
	options_check
}

options_alias() {
	while (($#)); do
		[[ -z ${opt[$2]-} ]] || opt[$1]=${opt[$2]}
		shift 2
	done
}

# is_number TEXT LEAST MOST: decimal, without sign or blanks.
is_number() {
	[[ $1 =~ ^[0-9]{1,18}$ ]] && ((10#$1 >= $2 && 10#$1 <= $3))
}

# is_ranges TEXT: as -p takes them.
is_ranges() {
	local range first last count=0
	[[ $1 =~ ^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$ ]] || return
	for range in ${1//,/ }; do
		first=${range%-*} last=${range#*-}
		is_number "$first" 0 2147483647 &&
			is_number "$last" "$((10#$first))" 2147483647 || return
		count=$((count + 10#$last - 10#$first + 1))
	done
	((count <= 100000))
}

# is_nodes TEXT: as -r takes them, each once.
is_nodes() {
	local node host nodes seen=' '
	[[ $1 != *, && $1 != *[[:blank:]]* ]] || return
	IFS=, read -ra nodes <<<"$1"
	for node in "${nodes[@]}"; do
		[[ $seen != *" $node "* ]] || return
		seen+="$node "
		[[ $node != unix:/?* ]] || continue
		host=${node%:*}
		[[ $node == *:* && ($host == \[?*\] || -n $host && $host != *[][:]*) ]] &&
			is_number "${node##*:}" 1 65535 || return
	done
}

# value_fits KIND VALUE: else sets `wants` to what is allowed.
value_fits() {
	local kind=$1 value=$2 least most
	case $kind in
	text | words) ;;
	number:*)
		IFS=: read -r _ least most <<<"$kind"
		wants="a number from $least to $most"
		is_number "$value" "$least" "$most"
		;;
	ranges)
		wants='numbers like 0-3,7, up to 2147483647, 100000 at most'
		is_ranges "$value"
		;;
	nodes)
		wants='host:port or unix:/path, or several with commas between them'
		is_nodes "$value"
		;;
	pair)
		wants=name=value
		[[ $value == ?*=* ]]
		;;
	tap)
		wants=stage=file
		[[ $value == ?*=?* ]]
		;;
	end)
		wants='beginning or end'
		[[ $value == beginning || $value == end ]]
		;;
	give-up)
		wants='deaths/seconds, from 1/1 to 1000000/1000000'
		[[ $value == */* ]] && is_number "${value%%/*}" 1 1000000 &&
			is_number "${value#*/}" 1 1000000
		;;
	back-off)
		wants='least-most in ms, from 1-1 to 3600000-3600000'
		[[ $value == *-* ]] && is_number "${value%%-*}" 1 3600000 &&
			is_number "${value#*-}" 1 3600000 &&
			((10#${value%%-*} <= 10#${value#*-}))
		;;
	esac
}

# The supervisor's own, before anything is started, by config.bash's table.
options_check() {
	local wants name option
	for name in "${!config_option[@]}"; do
		option=${config_option[$name]}
		[[ $options_own == *" $option "* && -n ${opt[$option]-} ]] ||
			continue
		value_fits "${config_kind[$name]}" "${opt[$option]}" ||
			die 64 "$option: '${opt[$option]}': wants $wants"
	done
}

# options_require NAME...
options_require() {
	local name
	for name; do
		[[ -n ${opt[$name]-} ]] || die 64 "$name: missing"
	done
}

# options_pick NAME...: sets `picked` to these options, as they were given.
options_pick() {
	local i names=" $* "
	picked=()
	for ((i = 0; i < ${#options_given[@]}; i += 2)); do
		[[ $names != *" ${options_given[i]} "* ]] ||
			picked+=("${options_given[i]}" "${options_given[i + 1]}")
	done
}
