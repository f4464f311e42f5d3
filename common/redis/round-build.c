#include "redis/round.h"

#include "message/hash.h"

/* Places and claims that are to be asked about; see round-take.c. */
static void
build_questions(struct round *round, struct commands *commands)
{
	struct slice none = {0};

	for (size_t i = 0; round->unknown_count > 0 && i < round->place_count;
	     i++) {
		struct place *place = &round->places[i];

		if (!place->used || place->known)
			continue;
		place->asked = true;
		round->asked_count++;
		mark_ask(commands, &place->stem);
		commands_begin(commands, 2, "HLEN");
		mailbox_key(commands, &place->stem, "quarantine", none);
	}
	for (size_t i = 0; round->ask_count > 0 && i < round->claimed_count;
	     i++) {
		const struct entry *entry = round->claimed[i];
		const struct dispatch *dispatch = &entry->dispatch;
		char field[FIELD_TEXT_BYTES];

		if (entry->state != ENTRY_ASK)
			continue;
		log_field(dispatch->conversation_seq, dispatch->chunk, field);
		commands_begin(commands, 3, "HGET");
		mailbox_key(commands,
		    &round_place(round, entry->partition)->stem,
		    "log:", dispatch->conversation.bytes);
		commands_text(commands, field);
	}
}

/* The greatest mark of each place only. */
static void
build_mark(struct round *round, const struct advance *advance,
    struct commands *commands)
{
	struct place *place = round_place(round, advance->partition);
	char text[MARK_TEXT_BYTES];

	if (place->pending != (uint64_t)advance->next ||
	    place->pending <= place->mark)
		return;
	place->pending = 0;
	mark_text(round->mailbox, round->node, text);
	commands_begin(commands, 5, "ZADD");
	mailbox_key(commands, &place->stem, "mark", (struct slice){0});
	commands_text(commands, "GT");
	commands_u64(commands, (uint64_t)advance->next);
	commands_text(commands, text);
}

static void
build_marks(struct round *round, struct commands *commands)
{
	const struct share *end = round_first_unjoined(round);

	round->marks_sent = 0;
	for (struct share *s = round->first; s != end; s = s->next) {
		round->marks_sent++;
		for (size_t i = 0; s->is_last && i < s->advance_count; i++) {
			struct place *place =
			    round_place(round, s->advances[i].partition);

			place->pending = (uint64_t)s->advances[i].next;
		}
	}
	for (struct share *s = round->first; s != end; s = s->next)
		for (size_t i = 0; s->is_last && i < s->advance_count; i++)
			build_mark(round, &s->advances[i], commands);
}

/* Appends what has gathered of conflicts. */
static void
build_conflicts(struct round *round, struct commands *commands)
{
	struct commands *conflicts = &round->quarantine;

	buf_append(
	    &commands->bytes, conflicts->bytes.data, conflicts->bytes.bytes);
	commands->bytes.failed |= conflicts->bytes.failed;
	commands->count += conflicts->count;
	commands_reset(conflicts);
}

static void
build_bad(
    struct round *round, const struct entry *entry, struct commands *commands)
{
	struct place *place = round_place(round, entry->partition);
	struct dispatch ignored;
	uint8_t hash[HASH_BYTES];
	struct err err;

	hash_bytes(entry->value, hash);
	/* It fails as it did before; now the reason is wanted. */
	dispatch_decode(entry->value, &ignored, &err);
	quarantine_add(commands, &place->stem, hash, hash, entry->offset,
	    err.text, entry->value,
	    place->quarantined++ < QUARANTINE_COUNT_MAX);
}

/* Gathers recipients of the entry at `spot` and moves it over them; returns
 * how many, at most `most`. */
static size_t
gather(struct round *round, struct spot *spot, size_t most)
{
	const struct entry *entry = &spot->share->entries[spot->index];
	const struct stem *stem = &round_place(round, entry->partition)->stem;
	struct dispatch dispatch = entry->dispatch;
	struct ident user;
	size_t count = 0;

	if (spot->left > 0) {
		dispatch.to.at = spot->at;
		dispatch.to_count = spot->left;
	} else {
		joins_add(round->gathered, stem, (struct slice){0}, entry);
	}
	while (count < most && dispatch_next_recipient(&dispatch, &user) == 1) {
		joins_add(round->gathered, stem, user.bytes, entry);
		count++;
	}
	spot->at = dispatch.to.at;
	spot->left = dispatch.to_count;
	if (spot->left == 0)
		spot_pass(spot);
	return count;
}

static void
build_joins(struct round *round, struct commands *commands)
{
	struct spot *spot = &round->joins_sent;
	size_t room = JOINS_COUNT_MAX;

	*spot = round->joins;
	joins_reset(round->gathered);
	while (room > 0 && !spot_equal(spot, &round->claims)) {
		const struct entry *entry = &spot->share->entries[spot->index];

		if (entry->state == ENTRY_CLAIMED) {
			room -= gather(round, spot, room);
			continue;
		}
		if (entry->state == ENTRY_BAD) {
			build_bad(round, entry, commands);
			room--;
		}
		spot_pass(spot);
	}
	joins_emit(round->gathered, commands);
}

static void
build_claim(struct round *round, struct entry *entry, struct commands *commands)
{
	const struct dispatch *dispatch = &entry->dispatch;
	char field[FIELD_TEXT_BYTES];

	log_field(dispatch->conversation_seq, dispatch->chunk, field);
	commands_begin(commands, 4, "HSETNX");
	mailbox_key(commands, &round_place(round, entry->partition)->stem,
	    "log:", dispatch->conversation.bytes);
	commands_text(commands, field);
	log_value(commands, dispatch, entry->offset, &round->scratch);
	round->claimed[round->claimed_count++] = entry;
}

static void
build_claims(struct round *round, struct commands *commands)
{
	struct spot *spot = &round->claims_sent;
	size_t bytes = commands->bytes.bytes + ROUND_CLAIM_BYTES;

	*spot = round->claims;
	round->claimed_count = 0;
	round->claimed_first = commands->count - 1;
	while (spot->share != NULL && spot->index < spot->share->count &&
	    round->claimed_count < ROUND_CLAIMS_MAX &&
	    commands->bytes.bytes < bytes) {
		struct entry *entry = &spot->share->entries[spot->index];
		struct place *place = round_place(round, entry->partition);

		if (entry->state != ENTRY_BAD) {
			entry->state = ENTRY_NEW;
			if ((uint64_t)entry->offset < place->mark)
				entry->state = ENTRY_BELOW;
			else
				build_claim(round, entry, commands);
		}
		spot_pass(spot);
	}
}

/* The counter is read last, so that the replicas' word is about this data
 * set.  WAIT answers for all that the connection has written. */
static void
build_proof(const struct round *round, struct commands *commands)
{
	if (round->wait.replicas > 0) {
		commands_begin(commands, 3, "WAIT");
		commands_u64(commands, round->wait.replicas);
		commands_u64(commands, round->wait.ms);
	}
	commands_begin(commands, 2, "GET");
	mailbox_key(commands, &round->stem, "round:", slice_of(round->id));
}

static void
build_count(struct round *round, bool renew, struct commands *commands)
{
	struct slice name = slice_of(round->id);

	commands_begin(commands, 2, "INCR");
	mailbox_key(commands, &round->stem, "round:", name);
	if (renew) {
		commands_begin(commands, 3, "EXPIRE");
		mailbox_key(commands, &round->stem, "round:", name);
		commands_u64(commands, ROUND_EXPIRE_S);
	}
	round->inner_count = commands->count - 1;
	commands_begin(commands, 1, "EXEC");
	commands_begin(commands, 2, "WATCH");
	mailbox_key(commands, &round->stem, "round:", name);
	build_proof(round, commands);
	round->sent++;
}

bool
round_next(struct round *round, bool renew, struct commands *commands)
{
	if (!renew && !round_has_work(round))
		return false;
	round->commands = commands;
	round->reply_at = 0;
	if (round->phase == ROUND_SHORT) {
		build_proof(round, commands);
		round->phase = ROUND_WAITING;
		return true;
	}
	if (round->unknown_count > 0 || round->ask_count > 0) {
		round->ask_at = 0;
		round->asked_mark = false;
		build_questions(round, commands);
		round->phase = ROUND_ASKING;
		return true;
	}
	commands_begin(commands, 1, "MULTI");
	build_marks(round, commands);
	build_conflicts(round, commands);
	build_joins(round, commands);
	build_claims(round, commands);
	build_count(round, renew, commands);
	round->phase = ROUND_SENT;
	return true;
}
