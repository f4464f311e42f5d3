#include "redis/queue.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/msg.h"
#include "redis/figures.h"
#include "stream/figures.h"

/* Lines about quarantine: one for each such time at most. */
#define TELL_PAUSE_US 1000000

/* A batch, or a part of one, until its receipt is out. */
struct unit {
	struct unit *next;
	struct stream_item item; /* holds what the work points into */
	struct work work;
	uint64_t start_us;
};

static uint64_t
bytes_of(const struct unit *unit)
{
	return unit->item.frame.map.bytes + work_bytes(&unit->work);
}

static void
show(const struct queue *queue)
{
	figure_set(&stage_in_flight_batches, queue->batches);
	figure_set(&stage_in_flight_bytes, queue->bytes);
}

struct work *
queue_add(struct queue *queue, struct stream_item *item, int64_t *due,
    struct err *err)
{
	struct unit *unit = calloc(1, sizeof(*unit));

	if (unit == NULL) {
		err_memory(err, "batch");
		return NULL;
	}
	if (work_init(&unit->work, &item->batch, queue->mailbox, due, err) <
	    0) {
		free(unit);
		return NULL;
	}
	unit->item = *item;
	unit->start_us = clock_us();
	queue->batches += item->batch.part <= 1;
	queue->bytes += bytes_of(unit);
	if (queue->first == NULL)
		queue->first = unit;
	else
		queue->last->next = unit;
	queue->last = unit;
	show(queue);
	return &unit->work;
}

static void
keep_conflict(struct queue *queue, const struct entry *entry)
{
	if (queue->conflict.code == 0)
		err_set(&queue->conflict, EX_DATAERR,
		    "%s[%lu] offset %lld: another digest than that of offset "
		    "%lld, which has its place: both are in quarantine: "
		    "--strict stops here, started again it goes on behind it",
		    queue->mailbox->topic, (unsigned long)entry->partition,
		    (long long)entry->offset, (long long)entry->first);
}

/* What went to quarantine is for a person to look at: where it stands, not
 * what it says. */
static void
tell_dead(struct queue *queue, const struct entry *entry)
{
	unsigned long long count = ++queue->quarantined;

	if (clock_us() < queue->tell_us)
		return;
	queue->tell_us = clock_us() + TELL_PAUSE_US;
	if (entry->state == ENTRY_CONFLICT)
		msg_write(MSG_WARNING,
		    "%s[%lu] offset %lld: another digest than that of offset "
		    "%lld, which has its place: both are in quarantine (%llu "
		    "so far)",
		    queue->mailbox->topic, (unsigned long)entry->partition,
		    (long long)entry->offset, (long long)entry->first, count);
	else
		msg_write(MSG_WARNING,
		    "%s[%lu] offset %lld: not a dispatch: in quarantine (%llu "
		    "so far)",
		    queue->mailbox->topic, (unsigned long)entry->partition,
		    (long long)entry->offset, count);
}

/* Counts a unit into the receipt of its batch. */
static void
count_unit(struct queue *queue, const struct unit *unit)
{
	const struct work *work = &unit->work;
	struct work_counts counts = work_count(work);

	figure_add(&mailbox_entries, counts.joined);
	figure_add(&mailbox_quarantined, counts.dead);
	figure_add(&mailbox_skipped, counts.below);
	figure_add(&mailbox_repeats, counts.repeats);
	queue->receipt.in += work->count;
	queue->receipt.out += counts.joined;
	queue->receipt.dead += counts.dead;
	queue->receipt.bytes += work->value_bytes;
	if (queue->receipt_start_us == 0)
		queue->receipt_start_us = unit->start_us;
	for (size_t i = 0; counts.dead > 0 && i < work->count; i++)
		if (work->entries[i].state == ENTRY_CONFLICT && queue->strict)
			keep_conflict(queue, &work->entries[i]);
		else if (work->entries[i].state == ENTRY_CONFLICT ||
		    work->entries[i].state == ENTRY_BAD)
			tell_dead(queue, &work->entries[i]);
}

static int
write_receipt(struct queue *queue, const struct unit *unit,
    struct stream_out *out, struct err *err)
{
	struct step step = {"apply", queue->receipt_start_us, clock_us()};

	queue->receipt.head = unit->item.batch.head;
	if (stream_out_receipt(out, &queue->receipt, &step, 1, err) < 0)
		return -1;
	queue->in += queue->receipt.in;
	queue->out += queue->receipt.out;
	queue->dead += queue->receipt.dead;
	queue->receipt = (struct receipt){0};
	queue->receipt_start_us = 0;
	queue->batches--;
	return 0;
}

static void
free_unit(struct unit *unit)
{
	work_release(&unit->work);
	stream_item_release(&unit->item);
	free(unit);
}

int
queue_finish(struct queue *queue, struct stream_out *out, struct err *err)
{
	while (queue->first != NULL && work_is_done(&queue->first->work)) {
		struct unit *unit = queue->first;
		bool ends_batch = !unit->item.batch.more;
		int result = 0;

		count_unit(queue, unit);
		if (ends_batch)
			result = write_receipt(queue, unit, out, err);
		queue->first = unit->next;
		queue->bytes -= bytes_of(unit);
		free_unit(unit);
		show(queue);
		if (result < 0)
			return -1;
		if (ends_batch && queue->conflict.code != 0) {
			*err = queue->conflict;
			return -1;
		}
	}
	return 0;
}

void
queue_release(struct queue *queue)
{
	while (queue->first != NULL) {
		struct unit *unit = queue->first;

		queue->first = unit->next;
		free_unit(unit);
	}
}
