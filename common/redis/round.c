#include "redis/round.h"

#include <stdio.h>
#include <stdlib.h>

int
round_init(struct round *round, const struct mailbox *mailbox, uint32_t share,
    struct round_wait wait, struct err *err)
{
	*round = (struct round){
	    .mailbox = mailbox, .node = share % mailbox->nodes, .wait = wait};
	round->place_count = mailbox->partitions / mailbox_shares(mailbox) + 1;
	round->places = calloc(round->place_count, sizeof(*round->places));
	round->gathered = calloc(1, sizeof(*round->gathered));
	if (round->places == NULL || round->gathered == NULL) {
		round_release(round);
		return err_memory(err, "node");
	}
	stem_init(&round->stem, mailbox->prefix, round->node);
	return 0;
}

void
round_release(struct round *round)
{
	free(round->places);
	free(round->gathered);
	commands_release(&round->quarantine);
	buf_release(&round->scratch);
	*round = (struct round){0};
}

/* Moves a spot from the end of a share to the next one, where there is one. */
static void
settle_spot(struct spot *spot)
{
	while (spot->share != NULL && spot->index == spot->share->count &&
	    spot->share->next != NULL)
		*spot = (struct spot){.share = spot->share->next};
}

void
spot_pass(struct spot *spot)
{
	*spot = (struct spot){.share = spot->share, .index = spot->index + 1};
	settle_spot(spot);
}

bool
spot_equal(const struct spot *a, const struct spot *b)
{
	return a->share == b->share && a->index == b->index &&
	    a->left == b->left;
}

struct share *
round_first_unjoined(const struct round *round)
{
	const struct spot *spot = &round->joins;

	if (spot->share == NULL || spot->index < spot->share->count)
		return spot->share;
	return spot->share->next;
}

static void
settle_all(struct round *round)
{
	settle_spot(&round->claims);
	settle_spot(&round->joins);
	settle_spot(&round->claims_sent);
	settle_spot(&round->joins_sent);
}

/* Everything in the queue is to be done from the claims on. */
static void
rewind_spots(struct round *round)
{
	struct spot start = {.share = round->first};

	round->claims = round->claims_sent = start;
	round->joins = round->joins_sent = start;
	settle_all(round);
}

static void
use_place(struct round *round, const struct advance *advance)
{
	struct place *place = round_place(round, advance->partition);

	if (place->used)
		return;
	place->used = true;
	place->base = (uint64_t)advance->from;
	stem_init(&place->stem, round->mailbox->prefix, advance->partition);
	round->unknown_count++;
}

void
round_add(struct round *round, struct share *share)
{
	/* Nothing for this connection. */
	if (share->count == 0 && share->advance_count == 0) {
		share->done = true;
		return;
	}
	for (size_t i = 0; i < share->advance_count; i++)
		use_place(round, &share->advances[i]);
	if (round->last == NULL) {
		round->first = round->last = share;
		rewind_spots(round);
		return;
	}
	round->last->next = share;
	round->last = share;
	settle_all(round);
}

void
round_drop(struct round *round, size_t count)
{
	for (; count > 0; count--) {
		struct share *share = round->first;

		round->first = share->next;
		share->done = true;
	}
	if (round->first == NULL) {
		round->last = NULL;
		rewind_spots(round);
	}
}

void
round_open(struct round *round, const char id[ROUND_ID_BYTES],
    struct commands *commands)
{
	struct slice name;

	memcpy(round->id, id, ROUND_ID_BYTES);
	name = slice_of(round->id);
	commands_begin(commands, 6, "SET");
	mailbox_key(commands, &round->stem, "round:", name);
	commands_u64(commands, 1);
	commands_text(commands, "NX");
	commands_text(commands, "EX");
	commands_u64(commands, ROUND_EXPIRE_S);
	commands_begin(commands, 2, "WATCH");
	mailbox_key(commands, &round->stem, "round:", name);
	commands_begin(commands, 2, "GET");
	mailbox_key(commands, &round->stem, "round:", name);
	round->sent = 1;
	round->confirmed = 0;
	round->commands = commands;
	round->reply_at = 0;
	round->phase = ROUND_OPENING;
}

void
round_close(struct round *round)
{
	round->phase = ROUND_CLOSED;
	round->unknown_count = 0;
	for (size_t i = 0; i < round->place_count; i++) {
		round->places[i].known = round->places[i].asked = false;
		round->unknown_count += round->places[i].used;
	}
	round->asked_count = 0;
	round->ask_count = 0;
	commands_reset(&round->quarantine);
	rewind_spots(round);
}

bool
round_is_waiting(const struct round *round)
{
	return round->phase != ROUND_CLOSED && round->phase != ROUND_IDLE &&
	    round->phase != ROUND_SHORT;
}

bool
round_has_work(const struct round *round)
{
	const struct spot *claims = &round->claims;

	return round->phase == ROUND_SHORT || round->unknown_count > 0 ||
	    round->ask_count > 0 ||
	    round->first != round_first_unjoined(round) ||
	    !spot_equal(&round->joins, claims) ||
	    (claims->share != NULL && claims->index < claims->share->count);
}
