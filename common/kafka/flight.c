#include "kafka/flight.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "kafka/figures.h"
#include "kafka/flight-parts.h"
#include "stream/figures.h"

/* How long to wait for reports when librdkafka's queue is full. */
#define FULL_WAIT_MS 100

static void
free_part(struct part *part)
{
	*part->link = part->next;
	if (part->next != NULL)
		part->next->link = part->link;
	stream_item_release(&part->item);
	free(part->records);
	free(part);
}

/* Takes the item in any case; NULL when memory ran out. */
static struct part *
make_part(struct flight *flight, struct stream_item *item)
{
	struct part *part = calloc(1, sizeof(*part));
	uint32_t count = item->batch.rec_count;
	struct sent *records =
	    calloc((size_t)count + 1, sizeof(*part->records));

	if (part == NULL || records == NULL) {
		free(part);
		free(records);
		stream_item_release(item);
		err_memory(&flight->failure, "batch");
		return NULL;
	}
	*part = (struct part){.item = *item, .records = records};
	part->next = flight->parts;
	part->link = &flight->parts;
	if (part->next != NULL)
		part->next->link = &part->next;
	flight->parts = part;
	return part;
}

/* "the record from SOURCE [P] offset N: WHY", and before it where it should
 * have gone, where that is known. */
static void
describe(const struct sent *sent, const char *topic, int32_t partition,
    int code, const char *why, struct err *err)
{
	struct dispatch_record record;
	const struct range *source;

	sent_record(sent, &record);
	source = sent_source(sent, &record);
	err_set(err, code, "the record from %.*s [%d] offset %lld: %s",
	    (int)source->topic.bytes, (const char *)source->topic.data,
	    (int)source->partition, (long long)record.offset, why);
	if (topic != NULL)
		err_prefix(err, "%s [%d]", topic, (int)partition);
}

/* One record less to wait for. */
static void
settle(struct flight *flight, struct part *part, bool delivered)
{
	struct window_batch *batch = part->window.batch;
	bool over = window_report(&flight->window, &part->window, delivered);

	if (batch->pending == 0 && batch->last != NULL)
		((struct part *)batch->last)->acks_end_us = clock_us();
	if (over)
		free_part(part);
}

/* A letter in the place of the record, where its failure may have one. */
static bool
bury(struct flight *flight, struct sent *sent,
    const struct producer_report *report, struct err *err)
{
	struct err reason, why;

	if (report->code != EX_DATAERR || flight->dead == NULL || sent->final ||
	    flight->producer->abandoned)
		return false;
	err_set(&reason, 0, "%s", report->why);
	if (report->topic != NULL)
		err_prefix(
		    &reason, "%s [%d]", report->topic, (int)report->partition);
	if (flight_bury(flight, sent, reason.text, &why) < 0) {
		describe(sent, report->topic, report->partition, why.code,
		    why.text, err);
		return false;
	}
	if (flight->letters++ == 0)
		flight->first_letter = *err;
	return true;
}

/* A record whose own fault it is gets a dead letter, where there is a topic
 * for them; any other failure ends the run.  The first one is told. */
static void
fail(struct flight *flight, struct sent *sent,
    const struct producer_report *report)
{
	struct err err;

	describe(sent, report->topic, report->partition, report->code,
	    report->why, &err);
	if (bury(flight, sent, report, &err))
		return;
	flight->counts[report->state]++;
	if (flight->failure.code == 0)
		flight->failure = err;
	settle(flight, sent->part, false);
}

static void
on_report(const struct producer_report *report, void *context)
{
	struct flight *flight = context;
	struct sent *sent = report->record;

	if (report->code != 0) {
		fail(flight, sent, report);
		return;
	}
	flight->counts[PRODUCER_DELIVERED]++;
	if (sent->part->window.batch->pending > 1)
		FAILPOINT("after-partial-dr");
	settle(flight, sent->part, true);
}

int
flight_init(struct flight *flight, struct producer *producer,
    struct producer_topic *target, uint32_t batches_most, uint64_t bytes_most,
    struct err *err)
{
	*flight = (struct flight){.producer = producer, .target = target};
	producer->report = on_report;
	producer->context = flight;
	return window_init(&flight->window, batches_most, bytes_most, err);
}

void
flight_release(struct flight *flight)
{
	while (flight->parts != NULL)
		free_part(flight->parts);
	window_release(&flight->window);
	buf_release(&flight->letter_headers);
}

bool
flight_has_room(const struct flight *flight)
{
	return flight->failure.code == 0 && window_has_room(&flight->window);
}

bool
flight_waits(const struct flight *flight)
{
	return window_waits(&flight->window);
}

/* 1 yes, 0 no, -1 EX_DATAERR. */
static int
is_dead_letter(struct slice headers, struct err *err)
{
	struct cursor cursor;
	struct header header;
	uint32_t left;
	int more, found = 0;

	if (headers_open(headers, &cursor, &left, err) < 0)
		return -1;
	while ((more = headers_next(&cursor, &left, &header, err)) == 1)
		if (slice_is(header.name, FLIGHT_REASON_HEADER))
			found = 1;
	return more < 0 ? -1 : found;
}

/* There it would be read as a dispatch. */
static int
refuse_dead_letter(const struct flight *flight, struct err *err)
{
	const char *name = (const char *)flight->target->name.data;

	return err_set(err, EX_CONFIG,
	    "a dead letter: fanout-plan --dead-letter %s is the topic of "
	    "dispatches, dispatch-produce -t %s",
	    name, name);
}

static int
check_partition(const struct dispatch_record *record,
    const struct producer_topic *topic, struct err *err)
{
	if (record->partition >= -1 &&
	    record->partition < (int64_t)topic->partitions)
		return 0;
	return err_set(err, EX_DATAERR,
	    "no such partition: wants -1 to %lld, the topic has %lu",
	    (long long)topic->partitions - 1, (unsigned long)topic->partitions);
}

/* Where the record goes, and what it counts as. */
static int
route(struct flight *flight, struct sent *sent,
    const struct dispatch_record *record, struct producer_topic **topic,
    struct err *err)
{
	int dead = 0;

	*topic = flight->target;
	if (record->topic.data != NULL) {
		if (producer_find_topic(
			flight->producer, record->topic, topic, err) < 0)
			return -1;
		dead = is_dead_letter(record->headers, err);
		if (dead < 0)
			return -1;
	}
	if (dead == 1 && *topic == flight->target)
		return refuse_dead_letter(flight, err);
	flight->sums.out -= dead == 1;
	flight->sums.dead += dead == 1;
	/* A letter isn't put into another; and where the partitions don't fit
	 * it is the plan that is wrong, not a record. */
	sent->final = dead == 1;
	if (check_partition(record, *topic, err) < 0) {
		sent->final = true;
		return -1;
	}
	return 0;
}

/* Sends it, whatever waiting that takes. */
static int
push(struct flight *flight, const struct producer_record *record,
    struct err *err)
{
	int sent;

	while ((sent = producer_send(flight->producer, record, err)) ==
	    PRODUCER_FULL)
		if (producer_serve(flight->producer, FULL_WAIT_MS, err) < 0)
			return -1;
	return sent;
}

static void
send_record(struct flight *flight, struct sent *sent,
    const struct dispatch_record *record)
{
	struct producer_record out = {
	    .partition = record->partition,
	    .key = record->key,
	    .value = record->value,
	    .headers = record->headers,
	    .record = sent,
	};
	struct producer_report report = {.state = PRODUCER_NOT_PERSISTED};
	struct err err;

	window_expect(&sent->part->window);
	/* What librdkafka copies. */
	window_grow(&flight->window, &sent->part->window,
	    record->key.bytes + record->headers.bytes);
	flight->sums.in++;
	flight->sums.out++;
	flight->sums.bytes += record->key.bytes + record->value.bytes;
	if (route(flight, sent, record, &out.topic, &err) == 0 &&
	    push(flight, &out, &err) == 0)
		return;
	report.code = err.code;
	report.why = err.text;
	report.partition = record->partition;
	if (out.topic != NULL)
		report.topic = (const char *)out.topic->name.data;
	fail(flight, sent, &report);
}

static int
send_records(struct flight *flight, struct part *part)
{
	/* A copy: the part's own stays at its first record. */
	struct batch batch = part->item.batch;
	struct dispatch_record record;
	struct sent *sent = part->records;
	struct err err;
	int more;

	for (;;) {
		*sent = (struct sent){.part = part, .at = batch.rec.at};
		more = dispatch_record_next(&batch, &record, &err);
		if (more != 1)
			break;
		send_record(flight, sent++, &record);
		if (flight->failure.code != 0)
			return -1;
	}
	if (more < 0 && flight->failure.code == 0)
		flight->failure = err;
	return more;
}

int
flight_take(struct flight *flight, struct stream_item *item)
{
	uint64_t bytes = item->batch.rec_count;
	bool more = item->batch.more;
	struct part *part;
	int result;

	bytes = bytes * FLIGHT_RECORD_BYTES + item->frame.map.bytes;
	if (item->batch.part <= 1) {
		flight->sums = (struct receipt){0};
		flight->enqueue_start_us = clock_us();
	}
	part = make_part(flight, item);
	if (part == NULL)
		return -1;
	window_begin(&flight->window, &part->window, bytes, more);
	result = send_records(flight, part);
	FAILPOINT("after-enqueue");
	part->receipt = flight->sums;
	part->enqueue_start_us = flight->enqueue_start_us;
	part->enqueue_end_us = clock_us();
	/* Gives up the hold of window_begin(). */
	settle(flight, part, result == 0);
	return result;
}

int
flight_write_receipts(
    struct flight *flight, struct stream_out *out, struct err *err)
{
	struct part *part;

	while ((part = (struct part *)window_done(&flight->window)) != NULL) {
		const struct step steps[] = {
		    {"enqueue", part->enqueue_start_us, part->enqueue_end_us},
		    {"acks", part->enqueue_end_us, part->acks_end_us},
		};

		part->receipt.head = part->item.batch.head;
		part->receipt.out -= part->window.batch->buried;
		part->receipt.dead += part->window.batch->buried;
		if (stream_out_receipt(out, &part->receipt, steps, 2, err) < 0)
			return -1;
		window_pop(&flight->window);
		free_part(part);
	}
	return 0;
}

void
flight_show(const struct flight *flight)
{
	figure_set(&stage_in_flight_batches, flight->window.count);
	figure_set(&stage_in_flight_bytes, flight->window.bytes);
	figure_set(&stage_dead_letters, flight->letters);
	kafka_deliveries_set(flight->counts);
}
