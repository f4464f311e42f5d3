# shellcheck shell=bash
# figures.bash: what the supervisor shows of its chain, in a file beside those
# of its stages: qim-CHAIN-supervisor.prom, see qim-figures(5).
#
# It is written at each change and every ten seconds, so that an older one tells
# of a supervisor that was killed; by a child, since a disk that hangs is to
# stop the figures and not the chain.
#
# What a stage says in its last file only is gone with its next start, a second
# later. So it is summed up here. The sums go on from those of the supervisor
# before: with --once each run has one of its own.
# shellcheck disable=SC2034,SC2154  # the variables of the other parts

readonly figures_beat_ms=10000

readonly figures_table='qim_chain_up gauge 1 while the chain is supervised, 0 once that has ended.
qim_chain_ready gauge Whether the chain is ready.
qim_chain_to_end gauge Whether its end is no fault: it was told to stop, or reads to the end only.
qim_chain_changed_timestamp_seconds gauge When the state of the chain changed last.
qim_supervisor_heartbeat_timestamp_seconds gauge When the supervisor wrote this.
qim_chain_starts_total counter Runs of the chain that were started.
qim_chain_unproven_total counter Deliveries unproven in runs that have ended.
qim_chain_out_of_order_total counter OUT_OF_ORDER_SEQUENCE and its kin in runs that have ended.
qim_chain_lost_data_total counter Losses of Redis in runs that have ended.
qim_stage_deaths_total counter Processes of the chain that ended with another code than 0.'

figures_file=
figures_pid= # of the child that writes it
figures_due=0 # when to write it next, on uptime's clock
figures_state=
declare -A figures=() # series → value
declare -A figures_taken=() # stage → start of the one that was summed up

# figures_add NAME PROGRAM LABELS COUNT
figures_add() {
	local series="$1{program=\"$2\",chain=\"$chain_label\"$3}"
	figures[$series]=$((${figures[$series]-0} + $4))
}

# figures_set NAME VALUE
figures_set() {
	figures["$1{program=\"supervisor\",chain=\"$chain_label\"}"]=$2
}

# figures_name: sets figures_file. One in a folder that was left is no chain's.
figures_name() {
	local file=$prom_folder/qim-$chain_label-supervisor.prom
	[[ -z $figures_file || $figures_file == "$file" ]] ||
		rm -f -- "$figures_file"
	figures_file=$file
}

# figures_begin: goes on from the supervisor before, which has summed up what
# the last stages have left.
figures_begin() {
	local name series value
	figures_take
	for name in starts unproven out_of_order lost_data; do
		figures_set "qim_chain_${name}_total" 0
	done
	[[ -f $figures_file && -r $figures_file ]] || return 0
	while read -r series value; do
		[[ ! $series =~ ^qim_(chain|stage)_[a-z_]+_total\{program=\"[a-z0-9-]+\",chain=\""$chain_label"\"(,code=\"[0-9]+\")?\}$ ]] ||
			! is_count "$value" || figures[$series]=$((10#$value))
	done <"$figures_file"
}

# figures_take: sums up the last files of the stages, each once: its start
# stands before what is counted.
figures_take() {
	local i file name value sum
	for ((i = 0; i < pipeline; i++)); do
		file=$prom_folder/qim-$chain_label-${labels[i]}.prom
		[[ -f $file && -r $file ]] || continue
		while read -r name value; do
			case $name in
			qim_start_timestamp_seconds\{*)
				[[ $value != "${figures_taken[$i]-}" ]] || break
				figures_taken[$i]=$value
				continue
				;;
			qim_deliveries_total\{*'state="unproven"'*) sum=unproven ;;
			qim_kafka_errors_total\{*'kind="out_of_order"'*) sum=out_of_order ;;
			qim_redis_errors_total\{*'kind="lost_data"'*) sum=lost_data ;;
			*) continue ;;
			esac
			! is_count "$value" ||
				figures_add "qim_chain_${sum}_total" supervisor '' "$((10#$value))"
		done <"$file"
	done
}

# figures_changed: the state was set, perhaps to what it was.
figures_changed() {
	[[ $state == "$figures_state" ]] ||
		figures_set qim_chain_changed_timestamp_seconds "$EPOCHSECONDS"
	figures_state=$state
	figures_due=0
}

figures_busy() {
	[[ -n $figures_pid ]] && kill -0 "$figures_pid" 2>/dev/null
}

# figures_done: nothing is to be written, nor being written.
figures_done() {
	[[ -z $figures_file ]] || ((figures_due > 0)) && ! figures_busy
}

# figures_beat: begins to write them, where it is time to.
figures_beat() {
	local uptime_ms
	uptime
	[[ -n $figures_file ]] && ((uptime_ms >= figures_due)) &&
		! figures_busy || return 0
	figures_due=$((uptime_ms + figures_beat_ms))
	figures_write </dev/null >/dev/null 2>&1 &
	figures_pid=$!
	alive[$!]=figures
}

# figures_write: turns this subshell into what puts them into the file's place.
figures_write() {
	local text draft=$figures_file.new
	trap '' TERM INT HUP
	close_all_but
	figures_text
	umask 022
	[[ ! -L $draft && (-f $draft || ! -e $draft) ]] &&
		printf '%s' "$text" >"$draft" &&
		exec mv -fT -- "$draft" "$figures_file"
	exec rm -f -- "$draft"
}

# figures_text: sets `text`.
figures_text() {
	local name type help series up=1 ready=0 end=0
	local words=" ${argv[*]:from[0]:count[0]} "
	[[ $state != ended* ]] || up=0
	[[ $state != ready ]] || ready=1
	[[ $stops == 0 && $words != *' -e '* && $words != *' --exit-at-end '* ]] ||
		end=1
	figures_set qim_chain_up "$up"
	figures_set qim_chain_ready "$ready"
	figures_set qim_chain_to_end "$end"
	figures_set qim_supervisor_heartbeat_timestamp_seconds "$EPOCHSECONDS"
	text=
	while read -r name type help; do
		text+="# HELP $name $help"$'\n'"# TYPE $name $type"$'\n'
		for series in "${!figures[@]}"; do
			[[ $series != "$name{"* ]] ||
				text+="$series ${figures[$series]}"$'\n'
		done
	done <<<"$figures_table"
}
