/*
 * The producer's functions without librdkafka: the linker takes these, so
 * that flight.c and letters.c run as they are.
 */
#include <stddef.h>
#include <stdlib.h>

#include "kafka/flight-parts.h"
#include "world.h"

#define TARGET (&topics[0])
#define DEAD (&topics[1])

/* Without handles: nothing here has any. */
static struct producer_topic topics[2] = {
    {.name = {(const uint8_t *)TARGET_TOPIC, sizeof(TARGET_TOPIC) - 1},
	.partitions = TARGETS},
    {.name = {(const uint8_t *)DEAD_TOPIC, sizeof(DEAD_TOPIC) - 1},
	.partitions = 1},
};

void
broker_begin(struct broker_side *side)
{
	*side = (struct broker_side){0};
}

int
producer_find_topic(struct producer *producer, struct slice name,
    struct producer_topic **topic, struct err *err)
{
	(void)producer;
	(void)err;
	*topic = slice_is(name, TARGET_TOPIC) ? TARGET : DEAD;
	return 0;
}

size_t
producer_bytes_most(const struct producer *producer)
{
	(void)producer;
	return 1000000;
}

int64_t
producer_topic_limit(struct producer *producer, struct producer_topic *topic)
{
	(void)producer;
	(void)topic;
	return -1;
}

static struct broker_side *
side_of(struct producer *producer)
{
	return (struct broker_side *)((char *)producer -
	    offsetof(struct broker_side, producer));
}

int
producer_send(struct producer *producer, const struct producer_record *record,
    struct err *err)
{
	struct broker_side *side = side_of(producer);
	const struct sent *sent = record->record;
	uint64_t batch = sent->part->item.batch.head.number;

	if (!record->alone && fault(10) && side->count > 0)
		return PRODUCER_FULL;
	if (side->count == WAYS_MAX || batch >= BATCHES_MAX)
		abort();
	side->sent[batch] += !record->alone;
	side->letters[batch] += record->alone;
	if (!record->alone && !world.ordered && record->topic == TARGET &&
	    fault(5))
		return err_set(err, EX_DATAERR, "too large");
	side->ways[side->count++] = (struct way){.record = record->record,
	    .value = record->value,
	    .is_letter = record->topic == DEAD,
	    .partition = record->partition,
	    .batch = batch};
	return PRODUCER_SENT;
}

/* Which of those on their way is next: any, or the first of a partition. */
static uint32_t
choose(const struct broker_side *side)
{
	uint32_t i = random_below(side->count);

	if (!world.ordered || side->ways[i].is_letter)
		return i;
	for (uint32_t first = 0; first < i; first++)
		if (!side->ways[first].is_letter &&
		    side->ways[first].partition == side->ways[i].partition)
			return first;
	return i;
}

static struct way
take(struct broker_side *side, uint32_t i)
{
	struct way way = side->ways[i];

	side->count--;
	memmove(&side->ways[i], &side->ways[i + 1],
	    (side->count - i) * sizeof(way));
	return way;
}

static void
report(struct broker_side *side, const struct way *way,
    enum producer_state state, int code)
{
	const struct producer_report report = {.record = way->record,
	    .topic = way->is_letter ? DEAD_TOPIC : TARGET_TOPIC,
	    .partition = way->partition,
	    .state = state,
	    .code = code,
	    .why = "a fault"};

	side->delivered[way->batch] += code == 0;
	side->producer.report(&report, side->producer.context);
}

/* Requests that fail, before or after the append. */
static void
fail(struct broker_side *side, const struct way *way)
{
	bool *stuck = way->is_letter ? NULL : &side->stuck[way->partition];

	if (!way->is_letter && !world.ordered && chance(30)) {
		world.tally.letters++;
		report(side, way, PRODUCER_NOT_PERSISTED, EX_DATAERR);
		return;
	}
	if (stuck != NULL)
		*stuck = true;
	if (chance(30)) {
		world.tally.unproven++;
		if (chance(30))
			outbox_take(way->value);
		if (world.flaw == FLAW_UNPROVEN)
			report(side, way, PRODUCER_DELIVERED, 0);
		else
			report(side, way, PRODUCER_UNPROVEN, EX_TEMPFAIL);
		return;
	}
	world.tally.failed++;
	if (chance(50)) {
		outbox_take(way->value);
		report(side, way, PRODUCER_POSSIBLY_PERSISTED, EX_TEMPFAIL);
	} else {
		report(side, way, PRODUCER_NOT_PERSISTED, EX_TEMPFAIL);
	}
}

static void
settle(struct broker_side *side)
{
	struct way way = take(side, choose(side));
	bool stuck =
	    world.ordered && !way.is_letter && side->stuck[way.partition];

	if (stuck) {
		report(side, &way, PRODUCER_NOT_PERSISTED, EX_TEMPFAIL);
		return;
	}
	if (world.flaw == FLAW_EARLY_ACKS && fault(50)) {
		report(side, &way, PRODUCER_DELIVERED, 0);
		return;
	}
	if (fault(15)) {
		fail(side, &way);
		return;
	}
	outbox_take(way.value);
	if (chance(5)) /* a retry of the request */
		outbox_take(way.value);
	report(side, &way, PRODUCER_DELIVERED, 0);
}

int
producer_serve(struct producer *producer, int timeout_ms, struct err *err)
{
	struct broker_side *side = side_of(producer);
	uint32_t most = 1 + random_below(4);

	(void)err;
	(void)timeout_ms;
	while (side->count > 0 && most-- > 0)
		settle(side);
	return 0;
}

void
broker_drop(struct broker_side *side)
{
	bool stuck[TARGETS] = {false};

	for (uint32_t i = 0; i < side->count; i++) {
		const struct way *way = &side->ways[i];
		bool lands = chance(50);

		if (!way->is_letter && world.ordered) {
			stuck[way->partition] |=
			    !lands || side->stuck[way->partition];
			lands = !stuck[way->partition];
		}
		if (lands)
			outbox_take(way->value);
	}
	side->count = 0;
}
