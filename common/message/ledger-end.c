#include "message/hash.h"
#include "message/ledger-parts.h"

/* Whether what wasn't planned should have been. */
static bool
knows_plans(const struct ledger *ledger)
{
	return ledger->has_outbox && ledger->is_whole;
}

/* Why an entry is one too many; NULL: it isn't. */
static const char *
find_extra(struct ledger *ledger, const struct entry *entry,
    const struct ledger_part *part)
{
	bool copied = entry->word & ENTRY_COPIED;
	bool gone =
	    part->low > 0 && (int64_t)(entry->word & ENTRY_SEQ) <= part->low;

	if (!copied && !gone)
		return "no dispatch in the topic has it";
	if (entry->word & ENTRY_PLANNED)
		return NULL;
	if (knows_plans(ledger))
		return "no message of the Outbox has it";
	if (gone && !copied)
		ledger->counts.unchecked++;
	return NULL;
}

static int
end_entry(struct ledger *ledger, const struct entry *entry, struct err *err)
{
	struct slice user = key_user(ledger, entry->key);
	uint32_t partition = hash_partition(user, ledger->partitions);
	const struct ledger_part *part = &ledger->parts[partition];
	const char *why;

	if (!(entry->word & ENTRY_STANDS))
		return 0;
	if ((entry->word & ENTRY_SEQ) > part->mark) {
		ledger->counts.above++;
		return 0;
	}
	why = find_extra(ledger, entry, part);
	if (why == NULL)
		return 0;
	return ledger_tell(ledger,
	    &(struct finding){LEDGER_EXTRA, partition,
		(int64_t)(entry->word & ENTRY_SEQ) - 1, user,
		key_conversation(ledger, entry->key), entry->key.low, why},
	    err);
}

static int
end_slot(struct ledger *ledger, const struct slot *slot, struct err *err)
{
	uint32_t partition = slot_partition(slot);
	const struct ledger_part *part = &ledger->parts[partition];
	struct finding finding = {.kind = LEDGER_EXTRA,
	    .partition = partition,
	    .offset = slot->offset,
	    .conversation = names_get(
		&ledger->conversations, (uint32_t)(slot->key.high >> 32)),
	    .seq = slot_seq(slot)};

	if ((uint64_t)slot->offset >= part->mark)
		return 0;
	if (!(slot->flags & SLOT_COPY) && slot->offset >= part->low)
		finding.why = "a claim of no dispatch in the topic";
	else if (!(slot->flags & SLOT_PLANNED) && knows_plans(ledger))
		finding.why = "a dispatch of no message in the Outbox";
	else
		return 0;
	return ledger_tell(ledger, &finding, err);
}

/* What a read mark is compared with. */
static uint64_t
top_of(const struct ledger *ledger, struct table_key key)
{
	const struct view *top;

	key.low = 1;
	top = table_find(&ledger->views, key);
	if (top == NULL)
		return 0;
	return top->got > top->most ? top->got : top->most;
}

static int
end_view(struct ledger *ledger, const struct view *view, struct err *err)
{
	struct finding finding = {.kind = LEDGER_ORDER, .offset = -1};
	bool is_conv = view->key.low == 0;

	if (is_conv) {
		finding.user = key_user(ledger, view->key);
		finding.conversation = key_conversation(ledger, view->key);
		finding.partition =
		    hash_partition(finding.user, ledger->partitions);
	} else {
		finding.conversation = names_get(
		    &ledger->conversations, (uint32_t)(view->key.high >> 32));
		finding.partition = (uint32_t)view->key.high;
		finding.seq = view->got;
	}
	if (view->key.low == 2) {
		if (view->got <= top_of(ledger, view->key))
			return 0;
		finding.why = "read is ahead of top";
	} else if (view->got < view->want) {
		finding.why = is_conv ? "conv is behind the newest message"
				      : "top is behind the newest message";
	} else if (view->got > view->most &&
	    ledger->parts[finding.partition].low == 0) {
		finding.why = is_conv ? "conv is ahead of the newest message"
				      : "top is ahead of the newest message";
	} else {
		return 0;
	}
	return ledger_tell(ledger, &finding, err);
}

int
ledger_end(struct ledger *ledger, struct err *err)
{
	const void *at;
	size_t i;

	for (i = 0; (at = table_next(&ledger->dispatches, &i)) != NULL;)
		if (end_slot(ledger, at, err) < 0)
			return -1;
	for (i = 0; (at = table_next(&ledger->entries, &i)) != NULL;)
		if (end_entry(ledger, at, err) < 0)
			return -1;
	for (i = 0; (at = table_next(&ledger->views, &i)) != NULL;)
		if (end_view(ledger, at, err) < 0)
			return -1;
	return 0;
}
