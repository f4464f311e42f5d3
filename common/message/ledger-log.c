#include "message/hash.h"
#include "message/ledger-parts.h"

static int
tell(struct ledger *ledger, enum ledger_kind kind, uint32_t partition,
    int64_t offset, const struct dispatch *dispatch, const char *why,
    struct err *err)
{
	struct finding finding = {
	    .kind = kind, .partition = partition, .offset = offset, .why = why};

	if (dispatch != NULL) {
		finding.conversation = dispatch->conversation.bytes;
		finding.seq = dispatch->conversation_seq;
	}
	return ledger_tell(ledger, &finding, err);
}

static int
raise_view(struct ledger *ledger, struct table_key key, uint64_t score,
    bool due, struct err *err)
{
	struct view *view = ledger_view(ledger, key);

	if (view == NULL)
		return ledger_memory(err);
	if (view->most < score)
		view->most = score;
	if (due && view->want < score)
		view->want = score;
	return 0;
}

/* What the copy must have made of the lists. */
static int
raise_views(struct ledger *ledger, uint32_t partition, struct dispatch dispatch,
    bool due, struct err *err)
{
	struct ident user;

	if (raise_view(ledger,
		ledger_top_key(ledger, partition, dispatch.conversation.bytes),
		dispatch.conversation_seq, due, err) < 0)
		return -1;
	while (dispatch_next_recipient(&dispatch, &user) == 1)
		if (raise_view(ledger,
			ledger_user_key(
			    ledger, user.bytes, dispatch.conversation.bytes, 0),
			dispatch.created_at_ms, due, err) < 0)
			return -1;
	return 0;
}

/* The claim of the first copy that the topic holds. */
static int
check_claim(struct ledger *ledger, uint32_t partition, int64_t offset,
    const struct dispatch *dispatch, struct slot *slot, struct err *err)
{
	const struct ledger_part *part = &ledger->parts[partition];

	if (!(slot->flags & SLOT_CLAIM)) {
		slot->offset = offset;
		slot->digest = digest_start(dispatch->digest);
		if ((uint64_t)offset >= part->mark)
			return 0;
		if ((uint64_t)offset < part->old) {
			ledger->counts.trimmed++;
			return 0;
		}
		return tell(ledger, LEDGER_MISSING, partition, offset, dispatch,
		    "no claim of the dispatch", err);
	}
	if (slot->offset < part->low) { /* its copy has gone, this is another */
		ledger->counts.repeats +=
		    slot->digest == digest_start(dispatch->digest);
		return 0;
	}
	if (slot->offset != offset)
		return tell(ledger, LEDGER_SEQ, partition, offset, dispatch,
		    "the claim has another offset than the first copy", err);
	if (slot->digest == digest_start(dispatch->digest))
		return 0;
	/* What follows goes by the copy. */
	slot->digest = digest_start(dispatch->digest);
	return tell(ledger, LEDGER_DIGEST, partition, offset, dispatch,
	    "the claim has another digest than its copy", err);
}

static int
check_conflict(struct ledger *ledger, uint32_t partition, int64_t offset,
    const struct dispatch *dispatch, struct slot *slot, struct err *err)
{
	const struct ledger_part *part = &ledger->parts[partition];

	ledger->counts.conflicts++;
	if ((uint64_t)offset >= part->mark) {
		slot->flags |= SLOT_LATER;
		return 0;
	}
	if (ledger_has_quarantined(ledger, dispatch->id, dispatch->digest))
		return 0;
	if (part->overflow) {
		ledger->counts.unchecked++;
		return 0;
	}
	return tell(ledger, LEDGER_CONFLICT, partition, offset, dispatch,
	    "a copy with another digest isn't in quarantine", err);
}

static int
check_undecodable(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct slice value, struct err *err)
{
	const struct ledger_part *part = &ledger->parts[partition];
	uint8_t hash[HASH_BYTES];

	ledger->counts.undecodable++;
	hash_bytes(value, hash);
	if ((uint64_t)offset >= part->mark ||
	    ledger_has_quarantined(ledger, hash, hash))
		return 0;
	if (part->overflow) {
		ledger->counts.unchecked++;
		return 0;
	}
	return tell(ledger, LEDGER_CONFLICT, partition, offset, NULL,
	    "what can't be decoded isn't in quarantine", err);
}

static int
check_home(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct dispatch dispatch, struct err *err)
{
	struct ident user;

	while (dispatch_next_recipient(&dispatch, &user) == 1)
		if (hash_partition(user.bytes, ledger->partitions) != partition)
			return err_set(err, EX_CONFIG,
			    "partition %lu, offset %lld: a recipient belongs "
			    "to partition %lu of %lu: planned for another "
			    "count",
			    (unsigned long)partition, (long long)offset,
			    (unsigned long)hash_partition(
				user.bytes, ledger->partitions),
			    (unsigned long)ledger->partitions);
	return 0;
}

int
ledger_copy(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct slice value, struct err *err)
{
	bool due = (uint64_t)offset < ledger->parts[partition].mark;
	struct dispatch dispatch;
	struct slot *slot;
	struct err ignored;

	ledger->counts.dispatches++;
	ledger->counts.unapplied += !due;
	if (dispatch_decode(value, &dispatch, &ignored) < 0)
		return check_undecodable(ledger, partition, offset, value, err);
	if (check_home(ledger, partition, offset, dispatch, err) < 0)
		return -1;
	slot = ledger_slot(ledger, partition, dispatch.conversation.bytes,
	    dispatch.conversation_seq, dispatch.chunk, true);
	if (slot == NULL)
		return ledger_memory(err);
	if (slot->flags & SLOT_COPY)
		ledger->counts.repeats +=
		    slot->digest == digest_start(dispatch.digest);
	else if (check_claim(ledger, partition, offset, &dispatch, slot, err) <
	    0)
		return -1;
	if (slot->digest != digest_start(dispatch.digest))
		return check_conflict(
		    ledger, partition, offset, &dispatch, slot, err);
	slot->flags |= SLOT_COPY;
	if (raise_views(ledger, partition, dispatch, due, err) < 0)
		return -1;
	/* A repeat above the mark may name who wasn't named before. */
	return ledger_check_entries(ledger, partition,
	    due ? slot->offset : offset, dispatch, ENTRY_COPIED, err);
}

static struct table_key
letter_key(int32_t partition, int64_t offset)
{
	return (struct table_key){
	    (uint64_t)(uint32_t)partition + 1, (uint64_t)offset};
}

int
ledger_letter(
    struct ledger *ledger, int32_t partition, int64_t offset, struct err *err)
{
	bool added;

	if (table_take(&ledger->letters, letter_key(partition, offset),
		&added) == NULL)
		return ledger_memory(err);
	return 0;
}

static bool
is_dead(const struct ledger *ledger, const struct ledger_source *source)
{
	return table_find(&ledger->letters,
		   letter_key(source->partition, source->offset)) != NULL;
}

int
ledger_unplanned(struct ledger *ledger, const struct ledger_source *source,
    const char *why, struct err *err)
{
	if (is_dead(ledger, source)) {
		ledger->counts.dead++;
		return 0;
	}
	if (!source->due) {
		ledger->counts.pending++;
		return 0;
	}
	return tell(ledger, LEDGER_LOST, (uint32_t)source->partition,
	    source->offset, NULL, why, err);
}

/* A plan of which the topic holds no copy. */
static int
check_undispatched(struct ledger *ledger, uint32_t partition,
    const struct dispatch *dispatch, const struct ledger_source *source,
    struct err *err)
{
	if (is_dead(ledger, source))
		ledger->counts.dead++;
	else if (ledger->parts[partition].low > 0)
		ledger->counts.unchecked++;
	else if (!source->due)
		ledger->counts.pending++;
	else
		return tell(ledger, LEDGER_UNDISPATCHED, partition, -1,
		    dispatch, "planned, and not in the topic", err);
	return 0;
}

/* A plan with another digest than the claim. */
static int
check_other_digest(struct ledger *ledger, uint32_t partition,
    const struct dispatch *dispatch, const struct slot *slot, struct err *err)
{
	if (ledger_has_quarantined(ledger, dispatch->id, dispatch->digest) ||
	    slot->flags & SLOT_LATER)
		return 0;
	if (ledger->parts[partition].overflow) {
		ledger->counts.unchecked++;
		return 0;
	}
	return tell(ledger, LEDGER_DIGEST, partition, slot->offset, dispatch,
	    "the plan has another digest", err);
}

int
ledger_planned(struct ledger *ledger, uint32_t partition,
    const struct dispatch *dispatch, const struct ledger_source *source,
    struct err *err)
{
	struct slot *slot =
	    ledger_slot(ledger, partition, dispatch->conversation.bytes,
		dispatch->conversation_seq, dispatch->chunk, false);
	bool gone = slot != NULL && slot->flags & SLOT_CLAIM &&
	    slot->offset < ledger->parts[partition].low;

	if (slot == NULL || !(slot->flags & SLOT_COPY || gone))
		return check_undispatched(
		    ledger, partition, dispatch, source, err);
	if (slot->digest != digest_start(dispatch->digest))
		return check_other_digest(
		    ledger, partition, dispatch, slot, err);
	slot->flags |= SLOT_PLANNED;
	return ledger_check_entries(
	    ledger, partition, slot->offset, *dispatch, ENTRY_PLANNED, err);
}
