#include "redis/work.h"

#include <stdlib.h>

static int
check_range(
    const struct range *range, const struct mailbox *mailbox, struct err *err)
{
	if (!slice_is(range->topic, mailbox->topic))
		return err_set(err, EX_DATAERR,
		    "input: topic %.*s, wants %s alone",
		    (int)range->topic.bytes, (const char *)range->topic.data,
		    mailbox->topic);
	if ((uint32_t)range->partition >= mailbox->partitions)
		return err_set(err, EX_CONFIG,
		    "input: %s[%d]: the topic has more partitions than the %lu "
		    "of -n",
		    mailbox->topic, (int)range->partition,
		    (unsigned long)mailbox->partitions);
	if (range->next > MAILBOX_OFFSET_MAX + 1)
		return err_set(err, EX_DATAERR,
		    "input: %s[%d]: offset %lld, takes at most %lld",
		    mailbox->topic, (int)range->partition,
		    (long long)range->next, (long long)MAILBOX_OFFSET_MAX);
	return 0;
}

/* Mailboxes that no reader would look for: -n isn't that of the chain which
 * made the dispatch, or another program made it. */
static int
check_recipients(
    const struct entry *entry, const struct mailbox *mailbox, struct err *err)
{
	struct dispatch dispatch = entry->dispatch;
	struct ident user;

	while (dispatch_next_recipient(&dispatch, &user) == 1) {
		uint32_t partition =
		    mailbox_partition(user.bytes, mailbox->partitions);

		if (partition == entry->partition)
			continue;
		return err_set(err, EX_CONFIG,
		    "input: %s[%lu] offset %lld: its recipient belongs to "
		    "partition %lu of %lu: was it planned for another count "
		    "than -n?",
		    mailbox->topic, (unsigned long)entry->partition,
		    (long long)entry->offset, (unsigned long)partition,
		    (unsigned long)mailbox->partitions);
	}
	return 0;
}

static struct share *
share_of(struct work *work, const struct range *range)
{
	return &work->shares[(uint32_t)range->partition % work->share_count];
}

/* Makes the record the next entry of its share. */
static int
take_record(struct work *work, const struct batch *batch,
    const struct record *record, const struct mailbox *mailbox, struct err *err)
{
	const struct range *range = &batch->head.src[record->src];
	struct share *share = share_of(work, range);
	struct entry *entry = &share->entries[share->count++];
	struct err ignored;

	entry->partition = (uint32_t)range->partition;
	entry->offset = record->offset;
	entry->value = record->value;
	work->value_bytes += record->value.bytes;
	if (dispatch_decode(record->value, &entry->dispatch, &ignored) < 0) {
		entry->state = ENTRY_BAD;
		return 0;
	}
	entry->reference_at = work->references.bytes;
	reference_pack(&work->references, entry->dispatch.conversation.bytes,
	    entry->dispatch.conversation_seq, false);
	entry->reference.bytes = work->references.bytes - entry->reference_at;
	return check_recipients(entry, mailbox, err);
}

/* Gives each share its place in the one array of entries. */
static void
place_entries(struct work *work)
{
	struct entry *entries = work->entries;

	for (uint32_t i = 0; i < work->share_count; i++) {
		work->shares[i].entries = entries;
		entries += work->shares[i].count;
		work->shares[i].count = 0;
	}
}

static int
take_records(struct work *work, struct batch batch,
    const struct mailbox *mailbox, struct err *err)
{
	struct record record;

	place_entries(work);
	while (record_next(&batch, &record, err) == 1)
		if (take_record(work, &batch, &record, mailbox, err) < 0)
			return -1;
	if (work->references.failed)
		return err_memory(err, "batch");
	/* The buffer no longer moves. */
	for (size_t i = 0; i < work->count; i++)
		work->entries[i].reference.data =
		    work->references.data + work->entries[i].reference_at;
	return 0;
}

/* The same for the ranges. */
static void
take_ranges(struct work *work, const struct item_head *head)
{
	struct advance *advances = work->advances;

	for (uint32_t i = 0; i < head->src_count; i++)
		share_of(work, &head->src[i])->advance_count++;
	for (uint32_t i = 0; i < work->share_count; i++) {
		work->shares[i].advances = advances;
		advances += work->shares[i].advance_count;
		work->shares[i].advance_count = 0;
	}
	for (uint32_t i = 0; i < head->src_count; i++) {
		const struct range *range = &head->src[i];
		struct share *share = share_of(work, range);

		share->advances[share->advance_count++] = (struct advance){
		    (uint32_t)range->partition, range->from, range->next};
	}
}

/* Passes over all records, before anything is allocated by their count:
 * those of a partition must be in the order of their offsets.  Counts those
 * of each share. */
static int
check_records(
    struct work *work, struct batch batch, int64_t *due, struct err *err)
{
	struct record record;
	int more;

	while ((more = record_next(&batch, &record, err)) == 1) {
		const struct range *range = &batch.head.src[record.src];
		int64_t *least = &due[range->partition];

		if (record.offset < *least)
			return err_set(err, EX_DATAERR,
			    "input: batch %llu: offset %lld after %lld",
			    (unsigned long long)batch.head.number,
			    (long long)record.offset, (long long)*least - 1);
		*least = record.offset + 1;
		share_of(work, range)->count++;
	}
	return more;
}

static int
allocate_shares(struct work *work, bool is_last, struct err *err)
{
	work->shares = calloc(work->share_count, sizeof(*work->shares));
	if (work->shares == NULL)
		return err_memory(err, "batch");
	for (uint32_t i = 0; i < work->share_count; i++)
		work->shares[i].is_last = is_last;
	return 0;
}

static int
allocate_entries(struct work *work, uint32_t src_count, struct err *err)
{
	/* One more of each: calloc(0) may be NULL. */
	work->entries = calloc(work->count + 1, sizeof(*work->entries));
	work->advances = calloc((size_t)src_count + 1, sizeof(*work->advances));
	if (work->entries == NULL || work->advances == NULL)
		return err_memory(err, "batch");
	return 0;
}

int
work_init(struct work *work, const struct batch *batch,
    const struct mailbox *mailbox, int64_t *due, struct err *err)
{
	*work = (struct work){
	    .share_count = mailbox_shares(mailbox), .count = batch->rec_count};
	for (uint32_t i = 0; i < batch->head.src_count; i++)
		if (check_range(&batch->head.src[i], mailbox, err) < 0)
			return -1;
	if (allocate_shares(work, !batch->more, err) < 0 ||
	    check_records(work, *batch, due, err) < 0 ||
	    allocate_entries(work, batch->head.src_count, err) < 0 ||
	    take_records(work, *batch, mailbox, err) < 0) {
		work_release(work);
		return -1;
	}
	take_ranges(work, &batch->head);
	return 0;
}

void
work_release(struct work *work)
{
	free(work->shares);
	free(work->entries);
	free(work->advances);
	buf_release(&work->references);
	*work = (struct work){0};
}

size_t
work_bytes(const struct work *work)
{
	return work->count * sizeof(*work->entries) + work->references.room;
}

bool
work_is_done(const struct work *work)
{
	for (uint32_t i = 0; i < work->share_count; i++)
		if (!work->shares[i].done)
			return false;
	return true;
}

struct work_counts
work_count(const struct work *work)
{
	struct work_counts counts = {0};

	for (size_t i = 0; i < work->count; i++) {
		const struct entry *entry = &work->entries[i];

		if (entry->state == ENTRY_CLAIMED)
			counts.joined += entry->dispatch.to_count;
		if (entry->state == ENTRY_CLAIMED &&
		    entry->first != entry->offset)
			counts.repeats++;
		if (entry->state == ENTRY_BELOW)
			counts.below++;
		if (entry->state == ENTRY_CONFLICT || entry->state == ENTRY_BAD)
			counts.dead++;
	}
	return counts;
}
