#include "redis/reader.h"

#include <stdlib.h>

/* Seqs that one command asks about. */
#define CHUNK_COUNT 500

/* Seqs that are looked up before the box is read instead: an application may
 * number by time, and a user have many conversations. */
#define LOOKUPS_MOST 100000

/* References that one command reads. */
#define REFS_COUNT 5000

int
reader_init(struct reader *reader, const struct nodes *nodes,
    const struct login *login, uint64_t timeout_ms,
    const struct mailbox *mailbox, struct slice user, struct err *err)
{
	uint32_t partition = mailbox_partition(user, mailbox->partitions);
	uint32_t place = partition % nodes->count;
	struct stem first; /* the node's first partition, whatever the count */
	uint64_t ignored;

	*reader = (struct reader){.user = user};
	stem_init(&reader->stem, mailbox->prefix, partition);
	stem_init(&first, mailbox->prefix, place);
	if (client_init(&reader->client, &nodes->all[place], login, timeout_ms,
		err) < 0)
		return -1;
	mark_ask(&reader->client.commands, &reader->stem);
	mark_ask(&reader->client.commands, &first);
	if (client_call(&reader->client, err) < 0)
		return -1;
	/* With another count than the applier's the user's partition is one
	 * that nobody has written, so another mark has to tell. */
	if (mark_take(&reader->client.replies[1], &first, mailbox, place,
		&ignored, err) < 0)
		return -1;
	return mark_take(&reader->client.replies[0], &reader->stem, mailbox,
	    place, &reader->mark, err);
}

void
reader_release(struct reader *reader)
{
	client_release(&reader->client);
	refs_release(&reader->refs);
}

/* Takes a reply out of the client, for the caller to release. */
static struct reply
keep_reply(struct reader *reader, size_t index)
{
	struct reply reply = reader->client.replies[index];

	reader->client.replies[index] = (struct reply){0};
	return reply;
}

static struct commands *
begin(struct reader *reader, uint32_t argc, const char *name, const char *kind,
    struct slice id)
{
	struct commands *commands = &reader->client.commands;

	commands_begin(commands, argc, name);
	mailbox_key(commands, &reader->stem, kind, id);
	return commands;
}

/* The scores in the box of [conversation, seq] for the seqs of a chunk. */
static void
add_scores(struct reader *reader, struct slice conversation, uint64_t first,
    uint32_t count, bool own)
{
	struct commands *commands =
	    begin(reader, 2 + count, "ZMSCORE", "box:", reader->user);
	struct buf member;

	reader->lookups += count;
	buf_init(&member);
	for (uint64_t seq = first; seq < first + count; seq++) {
		buf_reset(&member);
		reference_pack(&member, conversation, seq, own);
		commands_slice(commands, slice_of_buf(&member));
	}
	commands->bytes.failed |= member.failed;
	buf_release(&member);
}

/* A score as a number; 0: none, or above the mark. */
static uint64_t
score(const struct reader *reader, const struct reply *reply)
{
	uint64_t number;

	if (!reply_number(reply, &number) || number > reader->mark)
		return 0;
	return number;
}

static void
ask_box(struct reader *reader, uint64_t from, uint64_t most)
{
	struct commands *commands =
	    begin(reader, 9, "ZRANGE", "box:", reader->user);

	commands_u64(commands, from);
	commands_u64(commands, reader->mark);
	commands_text(commands, "BYSCORE");
	commands_text(commands, "LIMIT");
	commands_u64(commands, 0);
	commands_u64(commands, most);
	commands_text(commands, "WITHSCORES");
}

/* Members and scores of a box; *from becomes where the next ones begin. */
static int
take_refs(const struct reply *members, struct slice conversation,
    struct refs *refs, uint64_t *from, struct err *err)
{
	struct reference reference;

	for (size_t i = 0; i + 1 < members->count; i += 2) {
		uint64_t mailbox_seq = 0;

		if (reference_decode(members->items[i].text, &reference, err) <
		    0)
			return -1;
		reply_number(&members->items[i + 1], &mailbox_seq);
		*from = mailbox_seq + 1;
		if (conversation.data != NULL &&
		    !slice_equal(reference.conversation, conversation))
			continue;
		if (refs_add(refs, &reference, mailbox_seq, err) < 0)
			return -1;
	}
	return 0;
}

/* The whole box, or what of it is of a conversation (nil: of any).  A box
 * never has two entries of one mailbox_seq. */
static int
read_refs(struct reader *reader, struct slice conversation, struct refs *refs,
    struct err *err)
{
	const struct reply *members;
	uint64_t from = 0;

	do {
		ask_box(reader, from, REFS_COUNT);
		if (client_call(&reader->client, err) < 0)
			return -1;
		members = &reader->client.replies[0];
		if (take_refs(members, conversation, refs, &from, err) < 0)
			return -1;
	} while (members->count == 2 * REFS_COUNT);
	refs_sort(refs);
	return 0;
}

/* Goes on counting at `next` in the box. */
static int
count_refs(struct reader *reader, struct conversation *conversation,
    uint64_t next, struct err *err)
{
	const struct refs *refs = &reader->refs;
	struct slice none = {0};

	if (!reader->has_refs &&
	    read_refs(reader, none, &reader->refs, err) < 0)
		return -1;
	reader->has_refs = true;
	for (size_t i = refs_find(refs, conversation->id, next);
	     i < refs->count && conversation->unread <= READER_UNREAD_MOST;
	     i++) {
		const struct reference *reference = &refs->all[i].reference;

		if (!slice_equal(reference->conversation, conversation->id) ||
		    reference->seq > conversation->last_seq)
			break;
		conversation->unread += !reference->own;
	}
	return 0;
}

static int
count_unread(
    struct reader *reader, struct conversation *conversation, struct err *err)
{
	uint64_t next = conversation->read_seq + 1;
	uint64_t last = conversation->last_seq;

	conversation->unread = 0;
	for (; next <= last; next += CHUNK_COUNT) {
		uint64_t left = last - next + 1;
		const struct reply *scores;

		if (reader->has_refs || reader->lookups >= LOOKUPS_MOST)
			return count_refs(reader, conversation, next, err);
		add_scores(reader, conversation->id, next,
		    left < CHUNK_COUNT ? (uint32_t)left : CHUNK_COUNT, false);
		if (client_call(&reader->client, err) < 0)
			return -1;
		scores = &reader->client.replies[0];
		for (size_t i = 0; i < scores->count; i++)
			conversation->unread +=
			    score(reader, &scores->items[i]) > 0;
		if (conversation->unread > READER_UNREAD_MOST) {
			conversation->unread = READER_UNREAD_MOST + 1;
			return 0;
		}
	}
	return 0;
}

static int
show_conversation(struct reader *reader, const struct reply *id,
    const struct reply *created_at, reader_conversation *show, struct err *err)
{
	struct conversation conversation = {.id = id->text};
	struct client *client = &reader->client;

	reply_number(created_at, &conversation.created_at_ms);
	commands_slice(
	    begin(reader, 3, "ZSCORE", "top", (struct slice){0}), id->text);
	commands_slice(
	    begin(reader, 3, "ZSCORE", "read:", reader->user), id->text);
	if (client_call(client, err) < 0)
		return -1;
	reply_number(&client->replies[0], &conversation.last_seq);
	reply_number(&client->replies[1], &conversation.read_seq);
	if (count_unread(reader, &conversation, err) < 0)
		return -1;
	return show(&conversation, err);
}

int
reader_conversations(struct reader *reader, uint64_t most,
    reader_conversation *show, struct err *err)
{
	struct commands *commands =
	    begin(reader, 6, "ZRANGE", "conv:", reader->user);
	struct reply list;
	int result = 0;

	commands_u64(commands, 0);
	commands_u64(commands, most - 1);
	commands_text(commands, "REV");
	commands_text(commands, "WITHSCORES");
	if (client_call(&reader->client, err) < 0)
		return -1;
	list = keep_reply(reader, 0);
	for (size_t i = 0; i + 1 < list.count && result == 0; i += 2)
		result = show_conversation(
		    reader, &list.items[i], &list.items[i + 1], show, err);
	reply_release(&list);
	return result;
}

static void
add_claim(struct reader *reader, struct slice conversation, uint64_t seq)
{
	commands_u64(begin(reader, 3, "HGET", "log:", conversation), seq);
}

static int
show_message(struct message *message, const struct reply *claim,
    reader_message *show, struct err *err)
{
	if (claim->type == REPLY_TEXT &&
	    claim_decode(claim->text, &message->claim, err) < 0)
		return -1;
	return show(message, err);
}

/* Members and scores of a box, with the bodies that belong to them. */
static int
show_box(struct reader *reader, const struct reply *members,
    reader_message *show, struct err *err)
{
	size_t count = members->count / 2;
	struct message *messages = calloc(count + 1, sizeof(*messages));
	struct reference reference;
	int result = 0;

	if (messages == NULL)
		return err_memory(err, "box");
	for (size_t i = 0; i < count && result == 0; i++) {
		const struct reply *member = &members->items[2 * i];

		result = reference_decode(member->text, &reference, err);
		messages[i].conversation = reference.conversation;
		messages[i].seq = reference.seq;
		reply_number(member + 1, &messages[i].mailbox_seq);
		add_claim(reader, reference.conversation, reference.seq);
	}
	if (result == 0 && count > 0)
		result = client_call(&reader->client, err);
	for (size_t i = 0; i < count && result == 0; i++)
		result = show_message(
		    &messages[i], &reader->client.replies[i], show, err);
	free(messages);
	return result;
}

int
reader_box(struct reader *reader, uint64_t from, uint64_t most,
    reader_message *show, struct err *err)
{
	struct reply members;
	int result;

	ask_box(reader, from, most);
	if (client_call(&reader->client, err) < 0)
		return -1;
	members = keep_reply(reader, 0);
	result = show_box(reader, &members, show, err);
	reply_release(&members);
	return result;
}

/* Messages of a conversation that are found, to be shown together. */
struct page {
	struct message messages[CHUNK_COUNT];
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
	add_claim(reader, conversation, seq);
}

static int
show_page(struct reader *reader, struct page *page, reader_message *show,
    struct err *err)
{
	struct client *client = &reader->client;
	int result = page->count > 0 ? client_call(client, err) : 0;

	for (size_t i = 0; i < page->count && result == 0; i++)
		result = show_message(
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

	add_scores(reader, conversation, first, count, false);
	add_scores(reader, conversation, first, count, true);
	if (client_call(client, err) < 0)
		return -1;
	for (uint32_t n = 0; n < count && page.count < *left; n++) {
		uint32_t i = reverse ? count - 1 - n : n;
		uint64_t seq = score(reader, &client->replies[0].items[i]);

		if (seq == 0)
			seq = score(reader, &client->replies[1].items[i]);
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
	while (page->count < most && page->count < CHUNK_COUNT &&
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
	int result = read_refs(reader, conversation, &refs, err);
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
	    begin(reader, 3, "ZSCORE", "top", (struct slice){0}), conversation);
	if (client_call(&reader->client, err) < 0)
		return -1;
	reply_number(&reader->client.replies[0], &top);
	if (from == 0)
		first = reverse ? top : 1;
	if (reverse && first > top)
		first = top;
	while (most > 0 && first >= 1 && first <= top) {
		uint64_t count = reverse ? first : top - first + 1;

		if (reader->lookups >= LOOKUPS_MOST)
			return show_refs(reader, conversation, first, reverse,
			    most, show, err);
		if (count > CHUNK_COUNT)
			count = CHUNK_COUNT;
		last = reverse ? first - count + 1 : first;
		if (show_chunk(reader, conversation, last, (uint32_t)count,
			reverse, &most, show, err) < 0)
			return -1;
		first = reverse ? first - count : first + count;
	}
	return 0;
}
