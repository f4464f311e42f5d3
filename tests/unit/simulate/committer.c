/* offset-commit: what its main loop does, over commits. */
#include "world.h"

/* R2: it counts what the records of its ranges become. */
static void
check_counts(const struct chain *chain, const struct receipt *receipt)
{
	const struct item_head *head = &receipt->head;
	uint32_t letters = chain->side.letters[head->number], expected = 0;

	for (uint32_t i = 0; i < head->src_count; i++)
		expected += outbox_expect((uint32_t)head->src[i].partition,
		    head->src[i].from, head->src[i].next, &letters);
	if (receipt->in != expected || receipt->dead != letters ||
	    receipt->in != receipt->out + receipt->dead)
		complain("receipt: in %llu, out %llu, dead %llu, wants %u "
			 "with %u dead",
		    (unsigned long long)receipt->in,
		    (unsigned long long)receipt->out,
		    (unsigned long long)receipt->dead, expected, letters);
}

static int
take_receipts(struct chain *chain, struct err *err)
{
	struct stream_in *in = &chain->in[COMMITTER];
	struct stream_item item;
	int event = stream_in_next(in, &item, err);
	const struct item_head *head = &item.receipt.head;
	int result = 0;

	for (uint32_t i = 0; event == STREAM_HELLO && i < in->hello.start_count;
	     i++)
		result |= commits_add(&chain->commits, in->hello.start[i].topic,
		    in->hello.start[i].partition, in->hello.start[i].offset,
		    slice_is(in->hello.start[i].how, "stored"), err);
	if (event == STREAM_RECEIPT) {
		check_counts(chain, &item.receipt);
		for (uint32_t i = 0; result == 0 && i < head->src_count; i++)
			result = commits_acknowledge(&chain->commits,
			    head->src[i].topic, head->src[i].partition,
			    head->src[i].from, head->src[i].next, err);
	}
	if (event >= 0)
		stream_item_release(&item);
	chain->committer_ended |= event == STREAM_END || event < 0;
	return event < 0 || result < 0 ? -1 : 0;
}

static int
read_committed(struct chain *chain, struct err *err)
{
	struct commits *commits = &chain->commits;

	for (size_t i = 0; i < commits->coverage.count; i++) {
		int32_t partition = commits->coverage.all[i].partition;
		int64_t committed = world.source[partition].committed;

		if (world.flaw == FLAW_START_ABOVE && committed >= 0 &&
		    committed < commits->all[i].start)
			committed = commits->all[i].start;
		if (commits_set_committed(commits, i, committed, err) < 0) {
			world.tally.refused++;
			return -1;
		}
		chain->read[partition] = committed;
	}
	return 0;
}

static void
send_commit(struct chain *chain)
{
	struct commits *commits = &chain->commits;

	commits_begin(commits);
	chain->landing.used = true;
	for (uint32_t s = 0; s < SOURCES; s++)
		chain->landing.offset[s] = -1;
	for (size_t i = 0; i < commits->coverage.count; i++) {
		int32_t partition = commits->coverage.all[i].partition;
		int64_t sent = commits->all[i].sent;

		chain->landing.offset[partition] = sent;
		if (sent >= 0 && sent < chain->read[partition])
			complain("commits %lld, had read %lld", (long long)sent,
			    (long long)chain->read[partition]);
	}
}

static void
end_commit(struct chain *chain)
{
	chain->landing.used = false;
	if (!fault(100)) {
		group_land(&chain->landing);
		commits_succeed(&chain->commits);
		return;
	}
	if (chance(30)) {
		group_land(&chain->landing);
	} else if (chance(50)) {
		chain->landing.used = true;
		group_keep_late(&chain->landing);
		chain->landing.used = false;
	}
	commits_fail(&chain->commits);
}

enum life
committer_turn(struct chain *chain, struct err *err)
{
	struct commits *commits = &chain->commits;

	if (fault(20))
		commits_renew(commits);
	if (!chain->committer_ended && chance(60)) {
		if (wire_ready(&chain->wire[PRODUCER]) &&
		    take_receipts(chain, err) < 0)
			chain->committer_failed = true;
		/* What was acknowledged before is still committed. */
		chain->committer_ended |= chain->committer_failed;
		return ALIVE;
	}
	if (chain->landing.used) {
		if (chance(50))
			end_commit(chain);
		return ALIVE;
	}
	if (commits_must_read(commits))
		return read_committed(chain, err) < 0 ? DEAD : ALIVE;
	if (commits_are_due(commits))
		send_commit(chain);
	else if (chain->committer_ended && commits_are_done(commits))
		return chain->committer_failed ? DEAD : DONE;
	return ALIVE;
}
