#include "kafka/logs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "message/dead.h"

/* Nothing where the topic has no name. */
static int
open_topic(struct logs *logs, struct whole *whole, const char *topic,
    uint32_t *partitions, struct err *err)
{
	*partitions = 0;
	if (topic == NULL)
		return 0;
	return whole_open(whole, logs->kafka, topic, logs->limit_ms,
	    logs->give_up, partitions, err);
}

int
logs_open(struct logs *logs, uint32_t *partitions, struct err *err)
{
	uint32_t ignored;

	if (open_topic(logs, &logs->dispatches, logs->topic, partitions, err) <
		0 ||
	    open_topic(logs, &logs->letters, logs->dead_letter, &ignored, err) <
		0)
		return -1;
	return open_topic(logs, &logs->outbox, logs->outbox_topic,
	    &logs->outbox_partitions, err);
}

/* -p: the other partitions aren't looked at. */
static int
choose(struct logs *logs, struct err *err)
{
	const struct source *source = &logs->dispatches.scan.source;
	struct ledger *ledger = logs->ledger;

	if (source_check_chosen(source, ledger->partitions, err) < 0)
		return -1;
	if (source->chosen == NULL)
		return 0;
	for (uint32_t p = 0; p < ledger->partitions; p++)
		ledger->parts[p].skip = true;
	for (size_t i = 0; i < source->chosen_count; i++)
		ledger->parts[source->chosen[i]].skip = false;
	return 0;
}

/* What the fan-out's group has committed: up to there all must have been
 * dispatched. */
static int
read_committed(struct logs *logs, struct err *err)
{
	struct kafka_options kafka = *logs->kafka;
	bool any = false;

	kafka.group = logs->group_name;
	if (kafka_client_open(
		&logs->group, &kafka, KAFKA_CONSUMER, logs->limit_ms, err) < 0)
		return -1;
	logs->group.give_up = logs->give_up;
	logs->committed = kafka_client_stored(&logs->group, logs->outbox_topic,
	    logs->outbox_partitions, clock_us() + logs->limit_ms * 1000, err);
	if (logs->committed == NULL)
		return -1;
	for (uint32_t p = 0; p < logs->outbox_partitions; p++)
		any |= logs->committed[p] >= 0;
	if (any)
		return 0;
	return err_set(err, EX_CONFIG, "-g %s: has committed nothing of %s",
	    logs->group_name, logs->outbox_topic);
}

int
logs_begin(struct logs *logs, struct err *err)
{
	if (choose(logs, err) < 0)
		return -1;
	logs->ledger->has_outbox = logs->outbox_topic != NULL;
	return logs->group_name == NULL ? 0 : read_committed(logs, err);
}

static int
take_bounds(struct logs *logs, struct err *err)
{
	const struct source *source = &logs->dispatches.scan.source;

	for (uint32_t i = 0; i < source->count; i++) {
		const struct start_point *point = &source->points[i];
		struct ledger_part *part =
		    &logs->ledger->parts[point->partition];

		part->low = point->low;
		if ((uint64_t)point->high < part->mark)
			return err_set(err, EX_DATAERR,
			    "%s[%ld]: the log ends at %" PRId64
			    ", below the mark %" PRIu64,
			    logs->topic, (long)point->partition, point->high,
			    part->mark);
	}
	return 0;
}

static int
take_copy(void *context, const struct consumer_item *item, struct err *err)
{
	struct logs *logs = context;

	return ledger_copy(logs->ledger, (uint32_t)item->partition,
	    item->offset, item->record.value, err);
}

int
logs_tell_dispatches(struct logs *logs, struct err *err)
{
	if (whole_start(&logs->dispatches, err) < 0 ||
	    take_bounds(logs, err) < 0)
		return -1;
	return whole_read(&logs->dispatches, take_copy, logs, err);
}

/* One of another topic is passed over, as is one that names no record. */
static int
take_letter(void *context, const struct consumer_item *item, struct err *err)
{
	struct logs *logs = context;
	struct slice topic;
	int32_t partition;
	int64_t offset;

	if (!dead_find_source(
		item->record.headers, &topic, &partition, &offset) ||
	    !slice_is(topic, logs->outbox_topic))
		return 0;
	return ledger_letter(logs->ledger, partition, offset, err);
}

static int
tell_letters(struct logs *logs, struct err *err)
{
	if (logs->dead_letter == NULL)
		return 0;
	if (whole_start(&logs->letters, err) < 0)
		return -1;
	return whole_read(&logs->letters, take_letter, logs, err);
}

static int
take_message(void *context, const struct consumer_item *item, struct err *err)
{
	struct logs *logs = context;
	struct ledger_source source = {item->partition, item->offset,
	    logs->committed == NULL ||
		item->offset < logs->committed[item->partition]};

	return ledger_outbox_take(
	    logs->planner, logs->ledger, &item->record, &source, err);
}

int
logs_tell_outbox(struct logs *logs, struct err *err)
{
	const struct source *source = &logs->outbox.scan.source;

	if (logs->outbox_topic == NULL)
		return 0;
	if (tell_letters(logs, err) < 0 || whole_start(&logs->outbox, err) < 0)
		return -1;
	logs->ledger->is_whole = true;
	for (uint32_t i = 0; i < source->count; i++)
		logs->ledger->is_whole &= source->points[i].low == 0;
	return whole_read(&logs->outbox, take_message, logs, err);
}

void
logs_release(struct logs *logs)
{
	whole_release(&logs->dispatches);
	whole_release(&logs->letters);
	whole_release(&logs->outbox);
	free(logs->committed);
}
