# shellcheck shell=bash
# options.bash: messages and options of the supervisor scripts, in the form
# that the programs have.
#
# chain_name and chain_synopsis are set. After
#	options_parse "-b -t ..." "$@"
# with the names of the options that take a value, `opt` has the last value of
# each, and options_pick hands options on as they were given.

: "${chain_name:?}" "${chain_synopsis:?}"

declare -A opt=() # name → the last value, or 1
options_given=() # name, value, name, value, …: those with a value, in order
picked=()
say_fd=2

# mask TEXT: sets `masked`: bytes that aren't printable ASCII, and the
# backslash, as \xNN.
mask() {
	local LC_ALL=C text=$1 i char
	masked=$text
	[[ $text == *[!\ -~]* || $text == *\\* ]] || return 0
	masked=
	for ((i = 0; i < ${#text}; i++)); do
		char=${text:i:1}
		if [[ $char != [\ -~] || $char == \\ ]]; then
			printf -v char %d "'$char"
			printf -v char '\\x%02x' "$((char & 255))"
		fi
		masked+=$char
	done
}

# say LEVEL TEXT: one line on stderr in one write.
say() {
	local masked
	case $1 in
	error) ;;
	info) [[ -n ${opt[-v]-} ]] || return 0 ;;
	*) [[ -z ${opt[-q]-} ]] || return 0 ;;
	esac
	mask "$2"
	printf '%s: %s: %s\n' "$chain_name" "$1" "$masked" >&"$say_fd"
}

# die CODE TEXT
die() {
	say error "$2"
	exit "$1"
}

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
	local values=" $1 --stage --tap --connect-ms " wanting='' word
	local flags=" -h -q -V -v --check --once --help --quiet --version --verbose "
	shift
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
	options_alias -h --help -q --quiet -V --version -v --verbose
	[[ -z ${opt[-h]-} ]] || { printf '%s\n' "$chain_synopsis" && exit; }
	[[ -z ${opt[-q]-} || -z ${opt[-v]-} ]] ||
		die 64 "-q, -v: one or the other"
}

options_alias() {
	while (($#)); do
		[[ -z ${opt[$2]-} ]] || opt[$1]=1
		shift 2
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
