#include "redis/round.h"

static int
refuse_form(const struct round *round, struct err *err)
{
	struct slice name =
	    commands_argument(round->commands, round->reply_at, 0);

	return err_set(err, EX_DATAERR, "%.*s: not the reply of a Redis",
	    (int)name.bytes, (const char *)name.data);
}

/* An error reply of the command at `index`. */
static int
take_error(struct round *round, const struct reply *reply, size_t index,
    struct err *err)
{
	struct slice key = commands_argument(round->commands, index, 1);

	return reply_error(reply, key, err) == FAULT_WAIT ? ROUND_RETRY : -1;
}

/* The counter must be the number of rounds sent on this connection. */
static int
check_counter(struct round *round, const struct reply *reply, struct err *err)
{
	uint64_t number;

	if (reply->type == REPLY_NIL)
		number = 0;
	else if (!reply_number(reply, &number))
		return refuse_form(round, err);
	if (number == round->sent)
		return 0;
	return err_set(err, EX_TEMPFAIL,
	    "lost data: it counted %llu rounds of this connection's %llu; "
	    "start again at its marks",
	    (unsigned long long)number, (unsigned long long)round->sent);
}

static int
take_opening(struct round *round, const struct reply *reply, struct err *err)
{
	switch (round->reply_at) {
	case 0:
		if (reply_is_status(reply, "OK"))
			return 0;
		err_set(err, EX_TEMPFAIL, "this connection's id was taken");
		return ROUND_RETRY;
	case 1:
		return reply_is_status(reply, "OK") ? 0
						    : refuse_form(round, err);
	default:
		if (check_counter(round, reply, err) < 0)
			return -1;
		round->phase = ROUND_IDLE;
		return 0;
	}
}

static int
take_mark(struct round *round, struct place *place, const struct reply *reply,
    struct err *err)
{
	if (mark_take(reply, &place->stem, round->mailbox, round->node,
		&place->mark, err) < 0)
		return -1;
	if (place->mark >= place->base)
		return 0;
	return err_set(err, EX_TEMPFAIL,
	    "%.*smark: %s%llu, this chain goes on from %llu: start again at "
	    "its marks",
	    (int)place->stem.bytes, place->stem.text,
	    reply->count == 0 ? "none, which is " : "",
	    (unsigned long long)place->mark, (unsigned long long)place->base);
}

static int
take_quarantined(struct round *round, struct place *place,
    const struct reply *reply, struct err *err)
{
	if (reply->type != REPLY_INTEGER)
		return refuse_form(round, err);
	place->quarantined = (uint64_t)reply->integer;
	place->known = true;
	place->asked = false;
	round->unknown_count--;
	round->asked_count--;
	return 0;
}

/* Both copies into quarantine; the claim stays, as it came first. */
static void
add_conflict(struct round *round, struct entry *entry,
    const struct claim *claim, struct slice value)
{
	struct place *place = round_place(round, entry->partition);
	const uint8_t *id = entry->dispatch.id;

	entry->state = ENTRY_CONFLICT;
	quarantine_add(&round->quarantine, &place->stem, id, claim->digest.data,
	    claim->offset, "conflict: the claim", value,
	    place->quarantined++ < QUARANTINE_COUNT_MAX);
	quarantine_add(&round->quarantine, &place->stem, id,
	    entry->dispatch.digest, entry->offset,
	    "conflict: another digest than the claim's", entry->value,
	    place->quarantined++ < QUARANTINE_COUNT_MAX);
}

static int
take_claim(struct round *round, struct entry *entry, const struct reply *reply,
    struct err *err)
{
	struct slice digest = {entry->dispatch.digest, HASH_BYTES};
	struct claim claim;

	if (reply->type == REPLY_NIL)
		return err_set(err, EX_TEMPFAIL,
		    "lost data: a claim that stood is gone; start again at "
		    "its marks");
	if (reply->type != REPLY_TEXT)
		return refuse_form(round, err);
	if (claim_decode(reply->text, &claim, err) < 0) {
		struct slice key =
		    commands_argument(round->commands, round->reply_at, 1);

		return err_prefix(
		    err, "%.*s", (int)key.bytes, (const char *)key.data);
	}
	entry->first = claim.offset;
	entry->state = ENTRY_CLAIMED;
	if (!slice_equal(claim.digest, digest))
		add_conflict(round, entry, &claim, reply->text);
	round->ask_count--;
	return 0;
}

/* The next place that was asked about, which one that a batch has named since
 * wasn't; NULL: the claims have begun. */
static struct place *
next_asked(struct round *round)
{
	if (round->asked_count == 0)
		return NULL;
	while (!round->places[round->ask_at].asked)
		round->ask_at++;
	return &round->places[round->ask_at];
}

static int
take_answer(struct round *round, const struct reply *reply, struct err *err)
{
	struct place *place = next_asked(round);
	int result;

	if (place != NULL && !round->asked_mark) {
		round->asked_mark = true;
		return take_mark(round, place, reply, err);
	}
	if (place != NULL) {
		round->asked_mark = false;
		result = take_quarantined(round, place, reply, err);
		if (round->asked_count == 0)
			round->ask_at = 0;
		return result;
	}
	while (round->claimed[round->ask_at]->state != ENTRY_ASK)
		round->ask_at++;
	return take_claim(round, round->claimed[round->ask_at], reply, err);
}

static int
take_asking(struct round *round, const struct reply *reply, struct err *err)
{
	if (take_answer(round, reply, err) < 0)
		return -1;
	if (round->reply_at + 1 == round->commands->count)
		round->phase = ROUND_IDLE;
	return 0;
}

static int
take_exec(struct round *round, const struct reply *reply, struct err *err)
{
	if (reply->type == REPLY_NIL)
		return err_set(err, EX_TEMPFAIL,
		    "lost data: its data set was replaced between two rounds; "
		    "start again at its marks");
	if (reply->type != REPLY_ARRAY || reply->count != round->inner_count)
		return refuse_form(round, err);
	for (size_t i = 0; i < reply->count; i++)
		if (reply->items[i].type == REPLY_ERROR)
			return take_error(round, &reply->items[i], i + 1, err);
	round->ask_count = 0;
	for (size_t i = 0; i < round->claimed_count; i++) {
		struct entry *entry = round->claimed[i];
		bool is_first =
		    reply->items[round->claimed_first + i].integer == 1;

		entry->state = is_first ? ENTRY_CLAIMED : ENTRY_ASK;
		entry->first = entry->offset;
		round->ask_count += !is_first;
	}
	return 0;
}

/* The round is confirmed. */
static void
confirm(struct round *round)
{
	const struct share *share = round->first;

	for (size_t n = 0; n < round->marks_sent; n++, share = share->next)
		for (size_t i = 0; share->is_last && i < share->advance_count;
		     i++) {
			const struct advance *advance = &share->advances[i];
			struct place *place =
			    round_place(round, advance->partition);
			uint64_t next = (uint64_t)advance->next;

			place->base = next;
			if (place->mark < next)
				place->mark = next;
		}
	round->joins = round->joins_sent;
	round->claims = round->claims_sent;
	round_drop(round, round->marks_sent);
	round->confirmed++;
	round->phase = ROUND_IDLE;
}

/* The replies after a round, from `first` on: how many replicas have it, where
 * they are waited for, and then that this data set still is the one. */
static int
take_proof(struct round *round, size_t first, const struct reply *reply,
    struct err *err)
{
	if (round->wait.replicas > 0 && round->reply_at == first) {
		if (reply->type != REPLY_INTEGER)
			return refuse_form(round, err);
		round->replicas = (uint64_t)reply->integer;
		return 0;
	}
	if (check_counter(round, reply, err) < 0)
		return -1;
	if (round->replicas < round->wait.replicas)
		round->phase = ROUND_SHORT;
	else
		confirm(round);
	return 0;
}

static int
take_round(struct round *round, const struct reply *reply, struct err *err)
{
	size_t exec = round->inner_count + 1;
	const char *status = "QUEUED";

	if (round->reply_at == exec)
		return take_exec(round, reply, err);
	if (round->reply_at > exec + 1)
		return take_proof(round, exec + 2, reply, err);
	if (round->reply_at == 0 || round->reply_at == exec + 1)
		status = "OK";
	return reply_is_status(reply, status) ? 0 : refuse_form(round, err);
}

int
round_take(struct round *round, const struct reply *reply, struct err *err)
{
	int result;

	if (reply->type == REPLY_ERROR)
		return take_error(round, reply, round->reply_at, err);
	if (round->phase == ROUND_OPENING)
		result = take_opening(round, reply, err);
	else if (round->phase == ROUND_ASKING)
		result = take_asking(round, reply, err);
	else if (round->phase == ROUND_WAITING)
		result = take_proof(round, 0, reply, err);
	else
		result = take_round(round, reply, err);
	round->reply_at++;
	return result;
}
