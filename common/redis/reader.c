#include "redis/reader.h"

#include <stdlib.h>

/* Seqs that one command asks about. */
#define CHUNK_COUNT 500

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
	struct commands *commands =
	    begin(reader, 9, "ZRANGE", "box:", reader->user);
	struct reply members;
	int result;

	commands_u64(commands, from);
	commands_u64(commands, reader->mark);
	commands_text(commands, "BYSCORE");
	commands_text(commands, "LIMIT");
	commands_u64(commands, 0);
	commands_u64(commands, most);
	commands_text(commands, "WITHSCORES");
	if (client_call(&reader->client, err) < 0)
		return -1;
	members = keep_reply(reader, 0);
	result = show_box(reader, &members, show, err);
	reply_release(&members);
	return result;
}

/* What of a chunk of seqs is in the box, at most *left, and counts it off. */
static int
show_chunk(struct reader *reader, struct slice conversation, uint64_t first,
    uint32_t count, bool reverse, uint64_t *left, reader_message *show,
    struct err *err)
{
	struct message messages[CHUNK_COUNT] = {0};
	struct client *client = &reader->client;
	size_t found = 0;
	int result = 0;

	add_scores(reader, conversation, first, count, false);
	add_scores(reader, conversation, first, count, true);
	if (client_call(client, err) < 0)
		return -1;
	for (uint32_t n = 0; n < count && found < *left; n++) {
		uint32_t i = reverse ? count - 1 - n : n;
		uint64_t seq = score(reader, &client->replies[0].items[i]);

		if (seq == 0)
			seq = score(reader, &client->replies[1].items[i]);
		if (seq == 0)
			continue;
		messages[found++] = (struct message){.mailbox_seq = seq,
		    .conversation = conversation,
		    .seq = first + i};
		add_claim(reader, conversation, first + i);
	}
	*left -= found;
	if (found > 0)
		result = client_call(client, err);
	for (size_t i = 0; i < found && result == 0; i++)
		result =
		    show_message(&messages[i], &client->replies[i], show, err);
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
