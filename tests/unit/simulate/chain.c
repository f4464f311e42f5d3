/* A chain: its four stages, the wires between them, and how they die. */
#include "world.h"

static const enum stream_kind wanted[STAGES] = {
    [PLANNER] = STREAM_RECORDS,
    [PRODUCER] = STREAM_DISPATCHES,
    [COMMITTER] = STREAM_RECEIPTS,
};

void
chain_begin(struct chain *chain)
{
	struct err err;

	memset(chain, 0, sizeof(*chain));
	chain->is_up = true;
	broker_begin(&chain->side);
	for (int s = 0; s < STAGES - 1; s++) {
		wire_open(&chain->wire[s]);
		stream_out_init(&chain->out[s], chain->wire[s].fd);
		stream_in_init(
		    &chain->in[s + 1], chain->wire[s].fd, wanted[s + 1]);
	}
	if (reader_begin(chain, &err) < 0)
		complain("reader: %s", err.text);
}

void
chain_end(struct chain *chain)
{
	if (!chain->is_up)
		return;
	broker_drop(&chain->side);
	if (chain->has_flight)
		flight_release(&chain->flight);
	for (int s = 0; s < STAGES - 1; s++) {
		wire_release(&chain->wire[s]);
		stream_out_release(&chain->out[s]);
		stream_in_release(&chain->in[s + 1]);
	}
	gather_release(&chain->gather);
	commits_release(&chain->commits);
	chain->is_up = false;
}

/* The ends of its pipes close. */
static void
leave(struct chain *chain, enum stage stage, bool killed)
{
	if (stage != COMMITTER && killed)
		wire_cut(&chain->wire[stage]);
	else if (stage != COMMITTER)
		chain->wire[stage].closed = true;
	if (stage != READER)
		chain->wire[stage - 1].gone = true;
	if (stage == PRODUCER)
		broker_drop(&chain->side);
	if (stage == COMMITTER && chain->landing.used && chance(50))
		group_land(&chain->landing);
	else if (stage == COMMITTER && chain->landing.used)
		group_keep_late(&chain->landing);
}

void
chain_kill(struct chain *chain, enum stage stage)
{
	if (!chain->is_up || chain->stage[stage] != ALIVE)
		return;
	world.tally.kills++;
	chain->stage[stage] = DEAD;
	leave(chain, stage, true);
}

/* Bad data has a cause, or is a bug. */
static void
check_code(const struct chain *chain, enum stage stage, const struct err *err)
{
	bool damaged = false;

	for (int s = 0; s < STAGES - 1; s++)
		damaged |= chain->wire[s].damaged;
	if (err->code == EX_DATAERR && !damaged &&
	    !(stage == COMMITTER && chain->is_odd))
		complain("stage %d: %s", (int)stage, err->text);
}

static enum life
turn(struct chain *chain, enum stage stage, struct err *err)
{
	/* EPIPE. */
	if (stage != COMMITTER && chain->wire[stage].gone)
		return DEAD;
	switch (stage) {
	case READER:
		return reader_turn(chain, err);
	case PLANNER:
		return wire_ready(&chain->wire[READER])
		    ? planner_turn(chain, err)
		    : ALIVE;
	case PRODUCER:
		return producer_turn(chain, err);
	default:
		return committer_turn(chain, err);
	}
}

void
chain_turn(struct chain *chain)
{
	enum stage stage = (enum stage)random_below(STAGES);
	struct err err = {0};

	if (chain->stage[stage] != ALIVE)
		return;
	chain->stage[stage] = turn(chain, stage, &err);
	if (err.code != 0)
		check_code(chain, stage, &err);
	if (chain->stage[stage] != ALIVE)
		leave(chain, stage, false);
}
