/* dispatch-produce: what its main loop does, over flight, window, letters. */
#include "world.h"

/* I5: what has a receipt was delivered, all of it. */
static void
check_receipts(struct chain *chain)
{
	const struct broker_side *side = &chain->side;
	uint64_t count = chain->out[PRODUCER].batches;

	for (uint64_t b = chain->receipts + 1; b <= count; b++)
		if (side->delivered[b] != side->sent[b])
			complain("receipt of batch %llu: %u of %u delivered",
			    (unsigned long long)b, side->delivered[b],
			    side->sent[b]);
	chain->receipts = count;
}

static int
begin_producing(struct chain *chain, struct err *err)
{
	struct hello hello = chain->in[PRODUCER].hello;

	producer_find_topic(
	    &chain->side.producer, slice_of(TARGET_TOPIC), &chain->target, err);
	producer_find_topic(
	    &chain->side.producer, slice_of(DEAD_TOPIC), &chain->dead, err);
	if (flight_init(&chain->flight, &chain->side.producer, chain->target,
		1 + random_below(4), 1000 + random_below(20000), err) < 0)
		return -1;
	chain->flight.dead = chain->dead;
	chain->has_flight = true;
	hello.kind = STREAM_RECEIPTS;
	hello.durable = true;
	return stream_out_hello(&chain->out[PRODUCER], &hello, err);
}

static int
take_dispatches(struct chain *chain, struct err *err)
{
	struct stream_item item;
	int event = stream_in_next(&chain->in[PRODUCER], &item, err);
	int result = 0;

	if (event == STREAM_HELLO) {
		stream_item_release(&item);
		result = begin_producing(chain, err);
	} else if (event == STREAM_BATCH) {
		result = flight_take(&chain->flight, &item);
		if (result < 0)
			*err = chain->flight.failure;
	}
	chain->producer_ended |= event == STREAM_END || event < 0;
	return event < 0 || result < 0 ? -1 : 0;
}

enum life
producer_turn(struct chain *chain, struct err *err)
{
	struct err ignored;

	if (chain->has_flight) {
		if (chance(50))
			producer_serve(&chain->side.producer, 0, &ignored);
		if (flight_write_receipts(
			&chain->flight, &chain->out[PRODUCER], err) < 0)
			return DEAD;
		check_receipts(chain);
		chain->producer_failed |= chain->flight.failure.code != 0;
		chain->producer_ended |= chain->producer_failed;
	}
	if (chain->producer_ended) {
		if (chain->has_flight && flight_waits(&chain->flight))
			return ALIVE;
		*err = chain->flight.failure;
		if (chain->producer_failed)
			return DEAD;
		return stream_out_end(&chain->out[PRODUCER], err) < 0 ? DEAD
								      : DONE;
	}
	if ((!chain->has_flight || flight_has_room(&chain->flight)) &&
	    wire_ready(&chain->wire[PLANNER]) &&
	    take_dispatches(chain, err) < 0)
		chain->producer_failed = true;
	return ALIVE;
}
