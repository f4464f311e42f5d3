#include "redis/reader.h"

/* Messages of a conversation that are found, to be shown together. */
struct page {
	struct message messages[READER_CHUNK_COUNT];
	size_t count;
};

static void
add_message(struct reader *reader, struct page *page, struct slice conversation,
    uint64_t seq, uint64_t mailbox_seq)
{
	page->messages[page->count++] =
	    (struct message){.mailbox_seq = mailbox_seq,
		.conversation = conversation,
		.seq = seq};
	reader_ask_claim(reader, conversation, seq);
}

static int
show_page(struct reader *reader, struct page *page, reader_message *show,
    struct err *err)
{
	struct client *client = &reader->client;
	int result = page->count > 0 ? client_call(client, err) : 0;

	for (size_t i = 0; i < page->count && result == 0; i++)
		result = reader_show(
		    &page->messages[i], &client->replies[i], show, err);
	return result;
}

/* What of a chunk of seqs is in the box, at most *left, and counts it off. */
static int
show_chunk(struct reader *reader, struct slice conversation, uint64_t first,
    uint32_t count, bool reverse, uint64_t *left, reader_message *show,
    struct err *err)
{
	struct client *client = &reader->client;
	struct page page = {0};

	reader_ask_scores(reader, conversation, first, count, false);
	reader_ask_scores(reader, conversation, first, count, true);
	if (client_call(client, err) < 0)
		return -1;
	for (uint32_t n = 0; n < count && page.count < *left; n++) {
		uint32_t i = reverse ? count - 1 - n : n;
		uint64_t seq =
		    reader_score(reader, &client->replies[0].items[i]);

		if (seq == 0)
			seq =
			    reader_score(reader, &client->replies[1].items[i]);
		if (seq > 0)
			add_message(
			    reader, &page, conversation, first + i, seq);
	}
	*left -= page.count;
	return show_page(reader, &page, show, err);
}

/* Takes references, all of the conversation, from index *i on, up to a page
 * and as many as are wanted. */
static void
take_page(struct reader *reader, const struct refs *refs, bool reverse,
    uint64_t most, size_t *i, struct page *page)
{
	page->count = 0;
	while (page->count < most && page->count < READER_CHUNK_COUNT &&
	    (reverse ? *i > 0 : *i < refs->count)) {
		const struct ref *ref = &refs->all[reverse ? *i - 1 : *i];

		add_message(reader, page, ref->reference.conversation,
		    ref->reference.seq, ref->mailbox_seq);
		*i = reverse ? *i - 1 : *i + 1;
	}
}

/* Goes on showing a conversation at seq `from` out of the box. */
static int
show_refs(struct reader *reader, struct slice conversation, uint64_t from,
    bool reverse, uint64_t most, reader_message *show, struct err *err)
{
	struct refs refs = {0};
	struct page page = {0};
	int result = reader_refs(reader, conversation, &refs, err);
	size_t i = refs_find(&refs, conversation, reverse ? from + 1 : from);

	while (result == 0) {
		take_page(reader, &refs, reverse, most, &i, &page);
		if (page.count == 0)
			break;
		most -= page.count;
		result = show_page(reader, &page, show, err);
	}
	refs_release(&refs);
	return result;
}

int
reader_history(struct reader *reader, struct slice conversation, uint64_t from,
    bool reverse, uint64_t most, reader_message *show, struct err *err)
{
	uint64_t top = 0, first = from, last;

	commands_slice(
	    reader_begin(reader, 3, "ZSCORE", "top", (struct slice){0}),
	    conversation);
	if (client_call(&reader->client, err) < 0)
		return -1;
	reply_number(&reader->client.replies[0], &top);
	if (from == 0)
		first = reverse ? top : 1;
	if (reverse && first > top)
		first = top;
	while (most > 0 && first >= 1 && first <= top) {
		uint64_t count = reverse ? first : top - first + 1;

		if (reader->lookups >= READER_LOOKUPS_MOST)
			return show_refs(reader, conversation, first, reverse,
			    most, show, err);
		if (count > READER_CHUNK_COUNT)
			count = READER_CHUNK_COUNT;
		last = reverse ? first - count + 1 : first;
		if (show_chunk(reader, conversation, last, (uint32_t)count,
			reverse, &most, show, err) < 0)
			return -1;
		first = reverse ? first - count : first + count;
	}
	return 0;
}
