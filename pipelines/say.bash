# shellcheck shell=bash
# say.bash: messages, in the form that the programs have.
#
# chain_name is set. say_fd is where lines go: stderr, or the pipe to a
# log-keep; with say_file they are appended to that file instead, as log-keep
# does it.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

: "${chain_name:?}"

say_fd=2
say_file=
# No line is for everybody to read, as log-keep's.
own_umask=$(umask)
printf -v say_umask '%04o' "$((8#$own_umask | 8#027))"

# mask TEXT: sets `masked`: bytes that aren't printable ASCII, and the
# backslash, as \xNN; what has been masked before, a stage's last line, stays.
mask() {
	local LC_ALL=C text=$1 i char
	masked=$text
	[[ $text == *[!\ -~]* || $text == *\\* ]] || return 0
	masked=
	for ((i = 0; i < ${#text}; i++)); do
		char=${text:i:1}
		if [[ $char != [\ -~] || $char == \\ &&
			${text:i:4} != \\x[0-9a-f][0-9a-f] ]]
		then
			printf -v char %d "'$char"
			printf -v char '\\x%02x' "$((char & 255))"
		fi
		masked+=$char
	done
}

# utc: sets `utc` to the time as log-keep writes it.
utc() {
	local now=$EPOCHREALTIME TZ=UTC0
	printf -v utc '%(%Y-%m-%dT%H:%M:%S)T.%sZ' "${now%[.,]*}" "${now: -6:3}"
}

# say_line LINE: never ends the shell, and waits for nobody but the disk.
say_line() {
	local utc status
	if [[ -n $say_file ]]; then
		utc
		umask "$say_umask"
		{ printf '%s %s\n' "$utc" "$1" >>"$say_file"; } 2>/dev/null
		status=$?
		umask "$own_umask"
		((status != 0)) || return 0
	fi
	# shellcheck disable=SC2261  # in this order: say_fd may be stderr
	printf '%s\n' "$1" >&"$say_fd" 2>/dev/null
}

# say LEVEL TEXT: one line in one write.
say() {
	local masked
	case $1 in
	error) ;;
	info) [[ -n ${opt[-v]-} ]] || return 0 ;;
	*) [[ -z ${opt[-q]-} ]] || return 0 ;;
	esac
	mask "$2"
	say_line "$chain_name: $1: $masked"
}

# say_lines: those on stdin, as they are.
say_lines() {
	local line masked
	while IFS= read -r line; do
		mask "$line"
		say_line "$masked"
	done
}

# die CODE TEXT: for what is refused before anything runs.
die() {
	say error "$2"
	exit "$1"
}
