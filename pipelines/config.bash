# shellcheck shell=bash
# config.bash: the configuration file of both chains, qim.conf(5).
#
# chain_kind is set: fanout or mailbox. The whole file is checked, what is of
# the other chain too, whichever chain reads it.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

: "${chain_kind:?}"

# A name, what its value is, the option that it is for each chain, and whether
# it may stand several times.
readonly config_table='
brokers             text               -b             -b
properties          text               -F             -F
property            pair               -X             -X            often
outbox              text               -t             .
dispatch            text               -d             -t
dead-letter         text               --dead-letter  .
dispatch-partitions number:1:100000    -n             -n
fanout.group        text               -g             .
fanout.partitions   ranges             -p             .
fanout.first        end                --first        .
fanout.tap          tap                --tap          .             often
mailbox.group       text               .              -g
mailbox.partitions  ranges             .              -p
mailbox.tap         tap                .              --tap         often
redis               nodes              .              -r
redis.prefix        text               .              --prefix
redis.user          text               .              --user
redis.password-file text               .              --password-file
redis.wait-replicas number:0:100       .              --wait-replicas
redis.wait-ms       number:10:600000   .              --wait-ms
connect-ms          number:100:3600000 --connect-ms   --connect-ms
drain-ms            number:1:3600000   --drain-ms     --drain-ms
give-up             give-up            --give-up      --give-up
back-off            back-off           --back-off     --back-off
lock-dir            text               --lock-dir     --lock-dir
log                 text               --log          --log
log-bytes           number:4096:1099511627776 --log-bytes --log-bytes
log-files           number:1:999      --log-files    --log-files
tap-bytes           number:1024:1099511627776 --tap-bytes --tap-bytes
tap-files           number:1:999      --tap-files    --tap-files
prom                text               --prom         --prom
stage.outbox-read   words              --stage        --stage       often
stage.fanout-plan   words              --stage        .             often
stage.dispatch-produce words           --stage        .             often
stage.mailbox-apply words              .              --stage       often
stage.offset-commit words              --stage        --stage       often
'

config_lines=() # of the file, as read last
config_given=() # option, value, …: what it gives this chain

declare -A config_kind=() config_option=() config_often=()
config_names=

config_tables() {
	local name kind fanout mailbox often
	while read -r name kind fanout mailbox often; do
		[[ -n $name ]] || continue
		config_names+=${config_names:+, }$name
		config_kind[$name]=$kind
		config_often[$name]=$often
		config_option[$name]=$fanout
		[[ $chain_kind != mailbox ]] || config_option[$name]=$mailbox
	done <<<"$config_table"
}
config_tables

# config_load FILE: sets config_lines, read once, so that what was checked is
# what is used. 1: it can't be read; 2: it has a NUL byte, which bash drops.
config_load() {
	local fd text status
	config_lines=()
	[[ ! -d $1 ]] && { exec {fd}<"$1"; } 2>/dev/null || return 1
	IFS= read -r -d '' text <&"$fd"
	status=$?
	exec {fd}<&-
	((status != 0)) || return 2
	mapfile -t config_lines < <(printf '%s' "$text")
}

# config_loaded STATUS: refuses what couldn't be loaded.
config_loaded() {
	case $1 in
	1) die 66 "-f: '${opt[-f]}': can't be read" ;;
	2) die 78 "${opt[-f]}: has a NUL byte" ;;
	esac
}

config_read() {
	config_load "${opt[-f]}"
	config_loaded "$?"
}

config_refuse() {
	die 78 "${opt[-f]}:$number: $1"
}

# config_check NAME VALUE: of line `number`; notes where it stood in `seen`.
config_check() {
	local name=$1 value=$2 wants
	[[ -n $name && -n ${config_kind[$name]-} ]] ||
		config_refuse "'$name': no such name: there are $config_names"
	[[ -z ${seen[$name]-} || -n ${config_often[$name]} ]] ||
		config_refuse "$name: '$value': stands in line ${seen[$name]} already"
	seen[$name]=$number
	[[ -n $value ]] || config_refuse "$name: empty"
	[[ $value != [[:blank:]]* && $value != *[[:blank:]] ]] ||
		config_refuse "$name: '$value': blanks at its ends"
	[[ $value != *[[:cntrl:]]* ]] ||
		config_refuse "$name: '$value': control characters"
	value_fits "${config_kind[$name]}" "$value" ||
		config_refuse "$name: '$value': wants $wants"
}

# config_add NAME VALUE: as options of this chain, if it has such.
config_add() {
	local name=$1 value=$2 option=${config_option[$1]} word words
	[[ $option != . ]] || return 0
	if [[ ${config_kind[$name]} == words ]]; then
		read -ra words <<<"$value"
		for word in "${words[@]}"; do
			config_given+=("$option" "${name#stage.}=$word")
		done
	else
		config_given+=("$option" "$value")
	fi
}

# A topic isn't used for two purposes, whichever chain reads this.
config_check_topics() {
	local name other
	declare -A by_topic=()
	for name in outbox dispatch dead-letter; do
		[[ -n ${topics[$name]-} ]] || continue
		other=${by_topic[${topics[$name]}]-}
		[[ -z $other ]] || {
			number=${seen[$name]}
			config_refuse "$name: '${topics[$name]}': is the topic of $other too"
		}
		by_topic[${topics[$name]}]=$name
	done
}

# config_parse: config_lines into config_given; refuses what isn't right.
config_parse() {
	local number=0 line name value
	declare -A seen=() topics=()
	config_given=()
	for line in "${config_lines[@]}"; do
		number=$((number + 1))
		[[ -n ${line//[[:blank:]]/} && $line != '#'* ]] || continue
		[[ $line == *=* ]] || config_refuse "'$line': wants name=value"
		name=${line%%=*} value=${line#*=}
		config_check "$name" "$value"
		topics[$name]=$value
		config_add "$name" "$value"
	done
	config_check_topics
}

# config_apply: the command line, parsed before, counts before the file; what
# may stand often adds to it.
config_apply() {
	local i name merged=()
	for ((i = 0; i < ${#config_given[@]}; i += 2)); do
		name=${config_given[i]}
		[[ " -X --stage --tap " == *" $name "* || -z ${opt[$name]-} ]] ||
			continue
		merged+=("$name" "${config_given[i + 1]}")
	done
	options_given=("${merged[@]}" "${options_given[@]}")
	for ((i = 0; i < ${#options_given[@]}; i += 2)); do
		name=${options_given[i]}
		opt["$name"]=${options_given[i + 1]}
	done
}
