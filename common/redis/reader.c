#include "redis/reader.h"

/* References that one command reads. */
#define REFS_COUNT 5000

/* Entries of a box whose bodies are in memory together. */
#define PAGE_COUNT 100

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
	commands_slice(
	    reader_begin(reader, 3, "ZSCORE", "floor", (struct slice){0}),
	    user);
	if (client_call(&reader->client, err) < 0)
		return -1;
	/* With another count than the applier's the user's partition is one
	 * that nobody has written, so another mark has to tell. */
	if (mark_take(&reader->client.replies[1], &first, mailbox, place,
		&ignored, err) < 0)
		return -1;
	reply_number(&reader->client.replies[2], &reader->floor);
	return mark_take(&reader->client.replies[0], &reader->stem, mailbox,
	    place, &reader->mark, err);
}

void
reader_release(struct reader *reader)
{
	client_release(&reader->client);
	refs_release(&reader->refs);
}

struct reply
reader_keep(struct reader *reader, size_t index)
{
	struct reply reply = reader->client.replies[index];

	reader->client.replies[index] = (struct reply){0};
	return reply;
}

struct commands *
reader_begin(struct reader *reader, uint32_t argc, const char *name,
    const char *kind, struct slice id)
{
	struct commands *commands = &reader->client.commands;

	commands_begin(commands, argc, name);
	mailbox_key(commands, &reader->stem, kind, id);
	return commands;
}

void
reader_ask_scores(struct reader *reader, struct slice conversation,
    uint64_t first, uint32_t count, bool own)
{
	struct commands *commands =
	    reader_begin(reader, 2 + count, "ZMSCORE", "box:", reader->user);
	struct buf member;

	reader->lookups += count;
	buf_init(&member);
	for (uint64_t seq = first; seq < first + count; seq++) {
		buf_reset(&member);
		reference_pack(&member, conversation, seq, own);
		commands_slice(commands, slice_of_buf(&member));
		commands->bytes.failed |= member.failed;
	}
	buf_release(&member);
}

uint64_t
reader_score(const struct reader *reader, const struct reply *reply)
{
	uint64_t number;

	if (!reply_number(reply, &number) || number > reader->mark ||
	    number <= reader->floor)
		return 0;
	return number;
}

void
reader_ask_box(struct reader *reader, uint64_t from, uint64_t most)
{
	struct commands *commands =
	    reader_begin(reader, 9, "ZRANGE", "box:", reader->user);

	commands_u64(commands, from > reader->floor ? from : reader->floor + 1);
	commands_u64(commands, reader->mark);
	commands_text(commands, "BYSCORE");
	commands_text(commands, "LIMIT");
	commands_u64(commands, 0);
	commands_u64(commands, most);
	commands_text(commands, "WITHSCORES");
}

/* An entry of the user's box: a member and, behind it, its score. */
static int
take_entry(const struct reader *reader, const struct reply *member,
    struct reference *reference, uint64_t *mailbox_seq, struct err *err)
{
	struct slice score = member[1].text;

	if (reference_decode(member->text, reference, err) == 0) {
		if (reply_number(&member[1], mailbox_seq))
			return 0;
		err_set(err, EX_DATAERR, "score '%.*s': not a mailbox_seq",
		    (int)score.bytes, (const char *)score.data);
	}
	return err_prefix(err, "%.*sbox:%.*s", (int)reader->stem.bytes,
	    reader->stem.text, (int)reader->user.bytes,
	    (const char *)reader->user.data);
}

/* Members and scores of a box; *from becomes where the next ones begin. */
static int
take_refs(const struct reader *reader, const struct reply *members,
    struct slice conversation, struct refs *refs, uint64_t *from,
    struct err *err)
{
	struct reference reference;
	uint64_t mailbox_seq;

	for (size_t i = 0; i + 1 < members->count; i += 2) {
		if (take_entry(reader, &members->items[i], &reference,
			&mailbox_seq, err) < 0)
			return -1;
		*from = mailbox_seq + 1;
		if (conversation.data != NULL &&
		    !slice_equal(reference.conversation, conversation))
			continue;
		if (refs_add(refs, &reference, mailbox_seq, err) < 0)
			return -1;
	}
	return 0;
}

/* A box never has two entries of one mailbox_seq. */
int
reader_refs(struct reader *reader, struct slice conversation, struct refs *refs,
    struct err *err)
{
	const struct reply *members;
	uint64_t from = 0, last_from;

	do {
		last_from = from;
		reader_ask_box(reader, from, REFS_COUNT);
		if (client_call(&reader->client, err) < 0)
			return -1;
		members = &reader->client.replies[0];
		if (take_refs(reader, members, conversation, refs, &from, err) <
		    0)
			return -1;
	} while (members->count == 2 * REFS_COUNT && from > last_from);
	if (members->count == 2 * REFS_COUNT)
		return err_set(err, EX_DATAERR,
		    "redis %s: a box that is out of order",
		    reader->client.node->text);
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
	    reader_refs(reader, none, &reader->refs, err) < 0)
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
	for (; next <= last; next += READER_CHUNK_COUNT) {
		uint64_t left = last - next + 1;
		const struct reply *scores;

		if (reader->has_refs || reader->lookups >= READER_LOOKUPS_MOST)
			return count_refs(reader, conversation, next, err);
		reader_ask_scores(reader, conversation->id, next,
		    left < READER_CHUNK_COUNT ? (uint32_t)left
					      : READER_CHUNK_COUNT,
		    false);
		if (client_call(&reader->client, err) < 0)
			return -1;
		scores = &reader->client.replies[0];
		for (size_t i = 0; i < scores->count; i++)
			conversation->unread +=
			    reader_score(reader, &scores->items[i]) > 0;
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
	    reader_begin(reader, 3, "ZSCORE", "top", (struct slice){0}),
	    id->text);
	commands_slice(
	    reader_begin(reader, 3, "ZSCORE", "read:", reader->user), id->text);
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
	    reader_begin(reader, 6, "ZRANGE", "conv:", reader->user);
	struct reply list;
	int result = 0;

	commands_u64(commands, 0);
	commands_u64(commands, most - 1);
	commands_text(commands, "REV");
	commands_text(commands, "WITHSCORES");
	if (client_call(&reader->client, err) < 0)
		return -1;
	list = reader_keep(reader, 0);
	for (size_t i = 0; i + 1 < list.count && result == 0; i += 2)
		result = show_conversation(
		    reader, &list.items[i], &list.items[i + 1], show, err);
	reply_release(&list);
	return result;
}

void
reader_ask_claim(struct reader *reader, struct slice conversation, uint64_t seq)
{
	commands_u64(
	    reader_begin(reader, 3, "HGET", "log:", conversation), seq);
}

int
reader_show(struct message *message, const struct reply *claim,
    reader_message *show, struct err *err)
{
	if (claim->type == REPLY_TEXT &&
	    claim_decode(claim->text, &message->claim, err) < 0)
		return -1;
	return show(message, err);
}

/* Entries whose bodies are read together. */
static int
show_page(struct reader *reader, const struct reply *members, size_t count,
    reader_message *show, struct err *err)
{
	struct message messages[PAGE_COUNT] = {0};
	struct reference reference;
	int result = 0;

	for (size_t i = 0; i < count; i++) {
		if (take_entry(reader, &members[2 * i], &reference,
			&messages[i].mailbox_seq, err) < 0)
			return -1;
		messages[i].conversation = reference.conversation;
		messages[i].seq = reference.seq;
		reader_ask_claim(reader, reference.conversation, reference.seq);
	}
	if (client_call(&reader->client, err) < 0)
		return -1;
	for (size_t i = 0; i < count && result == 0; i++)
		result = reader_show(
		    &messages[i], &reader->client.replies[i], show, err);
	return result;
}

int
reader_show_entries(struct reader *reader, const struct reply *members,
    reader_message *show, struct err *err)
{
	size_t left = members->count / 2, count;
	const struct reply *page = members->items;

	for (; left > 0; left -= count, page += 2 * count) {
		count = left < PAGE_COUNT ? left : PAGE_COUNT;
		if (show_page(reader, page, count, show, err) < 0)
			return -1;
	}
	return 0;
}

int
reader_box(struct reader *reader, uint64_t from, uint64_t most,
    reader_message *show, struct err *err)
{
	struct reply members;
	int result;

	reader_ask_box(reader, from, most);
	if (client_call(&reader->client, err) < 0)
		return -1;
	members = reader_keep(reader, 0);
	result = reader_show_entries(reader, &members, show, err);
	reply_release(&members);
	return result;
}
