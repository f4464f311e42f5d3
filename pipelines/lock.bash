# shellcheck shell=bash
# lock.bash: the folder of a chain, and its lock.
#
# A chain's folder is named for its kind, its group and its partitions, and
# lies in the folder of the locks, which is that of the programs
# (common/base/lock.h). It stays, for its lock can't be removed: were it, two
# supervisors could hold it, one of them in a file without a name. What else is
# in it means something only as long as the lock is held.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

lock_fd=
run_folder=

# lock_parent: sets `parent` to the folder of the locks.
lock_parent() {
	if [[ -n ${opt[--lock-dir]-} ]]; then
		parent=${opt[--lock-dir]}
	elif ((EUID == 0)); then
		parent=/run/qim
	elif [[ ${XDG_RUNTIME_DIR-} == /* ]]; then
		parent=$XDG_RUNTIME_DIR/qim
	else
		parent=/tmp/qim-$EUID
	fi
	while [[ $parent == ?*/ ]]; do
		parent=${parent%/}
	done
}

# lock_folder FOLDER: makes it where it isn't there; refuses what isn't this
# user's own: in a folder of somebody else's a lock proves nothing.
lock_folder() {
	local kind owner mode wants="wants a folder of this user's own"
	mkdir -m 700 -- "$1" 2>/dev/null
	# Not what a link leads to.
	read -r owner mode kind < <(stat -c '%u %a %F' -- "$1" 2>/dev/null)
	: "${kind:="can't be made"}"
	[[ $kind == directory ]] || die 78 "--lock-dir: $1: $kind: $wants"
	((owner == EUID)) ||
		die 78 "--lock-dir: $1: belongs to uid $owner, wants uid $EUID"
	(((8#$mode & 8#022) == 0)) ||
		die 78 "--lock-dir: $1: mode $mode lets others write to it, wants 0700"
	[[ -w $1 && -x $1 ]] ||
		die 78 "--lock-dir: $1: can't be written to: $wants"
}

# safe_name TEXT: sets `safe`: what is not fit for a file's name as %XX.
safe_name() {
	local LC_ALL=C i char
	safe=
	for ((i = 0; i < ${#1}; i++)); do
		char=${1:i:1}
		case $char in
		[a-zA-Z0-9._-]) ;;
		*)
			printf -v char %d "'$char"
			printf -v char '%%%02X' "$((char & 255))"
			;;
		esac
		safe+=$char
	done
}

# run_folder_name: sets `run_folder`; two chains never have the same.
run_folder_name() {
	local part safe parent name=$chain_kind
	for part in "${opt[-g]}" "${opt[-p]-}"; do
		safe_name "$part"
		[[ -z $part ]] || name+=:$safe
	done
	if ((${#name} > 200)); then
		read -r part _ < <(md5sum <<<"$name")
		name=${name:0:160}:$part
	fi
	lock_parent
	run_folder=$parent/$name
}

# holder_of FILE [PID]: sets `holder` to the process that has the file open and
# whose parent hasn't, or to nothing. PID is looked at first.
holder_of() {
	local fd pid parent
	declare -A open=()
	holder=
	for fd in ${2:+"/proc/$2/fd/"*} /proc/[0-9]*/fd/*; do
		pid=${fd#/proc/} pid=${pid%%/*}
		[[ $pid != "$$" && $pid != "$BASHPID" && $fd -ef $1 ]] || continue
		open[$pid]=1
		[[ $pid != "${2-}" ]] || break
	done
	for pid in "${!open[@]}"; do
		process_stat "$pid" || continue
		[[ -n ${open[$parent]-} ]] || holder=$pid
	done
}

# lock_take: the lock, for as long as this process lives: no child keeps the
# descriptor. Waits for a moment, since --status holds it to look.
lock_take() {
	local holder parent umask
	lock_parent
	lock_folder "$parent"
	run_folder_name
	lock_folder "$run_folder"
	umask=$(umask)
	umask 077
	exec {lock_fd}<>"$run_folder/lock" ||
		die 71 "--lock-dir: $run_folder/lock: can't be opened"
	umask "$umask"
	# The sticky bit keeps whoever cleans temporary folders off it.
	chmod 1600 -- "$run_folder/lock"
	flock -w 0.5 "$lock_fd" && return
	holder_of "$run_folder/lock"
	die 78 "$run_folder: locked by ${holder:+pid }${holder:-a process that is not to be seen from here}: it runs this chain for group '${opt[-g]}'${opt[-p]+, partitions ${opt[-p]},} already"
}

# lock_is_free: nobody holds it; nothing is made.
lock_is_free() {
	local fd status=0
	[[ -e $run_folder/lock ]] || return 0
	exec {fd}<"$run_folder/lock" || return
	flock -ns "$fd" || status=1
	exec {fd}<&-
	return "$status"
}
