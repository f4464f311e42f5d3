#include "redis/survey.h"

#include "message/hash.h"
#include "redis/keys.h"
#include "redis/marks.h"

/* Keys that are read at once, a page of each. */
#define WALKS_MOST 64

/* Members of a page; quarantine has 4 KiB in each. */
#define MEMBERS_COUNT 250
#define QUARANTINE_COUNT 50

/* Claims come with their bodies, and a node has in memory what it is asked for
 * until it is read.  So many of all logs together are asked for as were these
 * bytes, were each as large as the largest of late. */
#define CLAIMS_BYTES ((size_t)8 << 20)
#define CLAIMS_LEAST 8
#define CLAIMS_MOST 512

struct walk;

typedef int take_pair(struct survey *survey, const struct walk *walk,
    struct slice name, const struct reply *value, struct err *err);

/* A kind of key. */
struct kind {
	const char *name; /* with its colon, where an id follows */
	const char *command;
	unsigned count; /* of a page; 0: by the size of claims */
	take_pair *take;
};

/* A key on its way through its pages. */
struct walk {
	const struct kind *kind;
	struct stem stem;
	uint32_t partition;
	struct slice id; /* nil: the kind has none */
	char cursor[REPLY_CURSOR_BYTES];
	bool is_asked, is_done;
};

static int
stray(struct survey *survey, const struct walk *walk, bool is_log,
    const char *why, struct err *err)
{
	struct slice none = {0};

	return ledger_stray(survey->ledger, walk->partition,
	    is_log ? none : walk->id, is_log ? walk->id : none, why, err);
}

/* Only the form in which it is written: any other would be a second member for
 * the same entry. */
static bool
take_reference(
    struct survey *survey, struct slice member, struct reference *reference)
{
	struct err ignored;

	if (reference_decode(member, reference, &ignored) < 0)
		return false;
	buf_reset(&survey->scratch);
	reference_pack(&survey->scratch, reference->conversation,
	    reference->seq, reference->own);
	return slice_equal(slice_of_buf(&survey->scratch), member);
}

static int
take_box(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	struct reference reference;
	uint64_t mailbox_seq;
	bool fits = take_reference(survey, name, &reference) &&
	    reply_number(value, &mailbox_seq);

	if (survey->scratch.failed)
		return err_memory(err, "entry");
	if (!fits)
		return stray(survey, walk, false,
		    "a member of the box that is no reference", err);
	return ledger_entry(survey->ledger, walk->partition, walk->id,
	    reference.conversation, reference.seq, reference.own, mailbox_seq,
	    err);
}

/* Digits without a leading zero; moves over them. */
static bool
pass_number(struct slice *text, uint64_t most, uint64_t *number)
{
	size_t i = 0;

	*number = 0;
	for (; i < text->bytes && *number <= most; i++) {
		if (text->data[i] < '0' || text->data[i] > '9')
			break;
		*number = 10 * *number + (uint64_t)(text->data[i] - '0');
	}
	if (i == 0 || text->data[0] == '0' || *number > most)
		return false;
	text->data += i;
	text->bytes -= i;
	return true;
}

/* The log's field: "SEQ", or "SEQ/CHUNK" from chunk 2 on. */
static bool
take_field(struct slice field, uint64_t *seq, uint64_t *chunk)
{
	*chunk = 1;
	if (!pass_number(&field, SEQ_MAX, seq))
		return false;
	if (field.bytes == 0)
		return true;
	return key_pass(&field, "/") &&
	    pass_number(&field, UINT32_MAX, chunk) && *chunk > 1 &&
	    field.bytes == 0;
}

/* What follows the digest in a claim is what the digest is of, but for the
 * array's head. */
static bool
body_fits(struct survey *survey, struct slice value, const struct claim *claim)
{
	const uint8_t *body = claim->digest.data + HASH_BYTES;
	uint8_t digest[HASH_BYTES];

	if (value.data[0] != 0x97)
		return true; /* trimmed, or a chunk's */
	buf_reset(&survey->scratch);
	buf_append(&survey->scratch, "\x95", 1);
	buf_append(
	    &survey->scratch, body, (size_t)(value.data + value.bytes - body));
	hash_bytes(slice_of_buf(&survey->scratch), digest);
	return memcmp(digest, claim->digest.data, HASH_BYTES) == 0;
}

static int
take_claim(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	struct claim claim;
	struct err ignored;
	uint64_t seq, chunk;
	bool fits;

	if (value->text.bytes > survey->claim_bytes)
		survey->claim_bytes = value->text.bytes;
	if (!take_field(name, &seq, &chunk) || value->type != REPLY_TEXT ||
	    claim_decode(value->text, &claim, &ignored) < 0)
		return stray(survey, walk, true,
		    "a field of the log that is no claim", err);
	fits = body_fits(survey, value->text, &claim);
	if (survey->scratch.failed)
		return err_memory(err, "claim");
	return ledger_claim(survey->ledger, walk->partition, walk->id, seq,
	    (uint32_t)chunk, claim.offset, claim.digest.data, fits, err);
}

static int
take_conv(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t score;

	if (!reply_number(value, &score))
		return stray(survey, walk, false,
		    "a score of conv that is no time", err);
	return ledger_conv(survey->ledger, walk->id, name, score, err);
}

static int
take_read(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t score;

	if (!reply_number(value, &score))
		return stray(
		    survey, walk, false, "a score of read that is no seq", err);
	return ledger_read(survey->ledger, walk->partition, name, score, err);
}

static int
take_top(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t score;

	if (!reply_number(value, &score))
		return stray(
		    survey, walk, true, "a score of top that is no seq", err);
	return ledger_top(survey->ledger, walk->partition, name, score, err);
}

static int
take_quarantined(struct survey *survey, const struct walk *walk,
    struct slice name, const struct reply *value, struct err *err)
{
	(void)value;
	if (slice_is(name, "dropped"))
		survey->ledger->parts[walk->partition].overflow = true;
	if (name.bytes != 2 * HASH_BYTES)
		return 0;
	return ledger_quarantined(survey->ledger, name.data, err);
}

static int
take_floor(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t floor;

	(void)walk;
	return reply_number(value, &floor)
	    ? ledger_floor(survey->ledger, name, floor, err)
	    : 0;
}

/* Found by a scan. */
static const struct kind kinds[] = {
    {"box:", "ZSCAN", MEMBERS_COUNT, take_box},
    {"log:", "HSCAN", 0, take_claim},
    {"conv:", "ZSCAN", MEMBERS_COUNT, take_conv},
    {"read:", "ZSCAN", MEMBERS_COUNT, take_read},
};
static const size_t kind_count = sizeof(kinds) / sizeof(kinds[0]);

/* One of each partition, read afterwards. */
static const struct kind singles[] = {
    {"top", "ZSCAN", MEMBERS_COUNT, take_top},
    {"quarantine", "HSCAN", QUARANTINE_COUNT, take_quarantined},
    {"floor", "ZSCAN", MEMBERS_COUNT, take_floor},
};
static const size_t single_count = sizeof(singles) / sizeof(singles[0]);

static int
refuse(const struct survey *survey, struct err *err)
{
	return err_set(err, EX_DATAERR, "redis %s: not the reply of a Redis",
	    survey->client->node->text);
}

static int
take_page(struct survey *survey, struct walk *walk, const struct reply *page,
    struct err *err)
{
	const struct reply *pairs;

	if (!reply_cursor(page, walk->cursor) || page->count != 2)
		return refuse(survey, err);
	walk->is_done = strcmp(walk->cursor, "0") == 0;
	pairs = &page->items[1];
	for (size_t i = 0; i + 1 < pairs->count; i += 2)
		if (walk->kind->take(survey, walk, pairs->items[i].text,
			&pairs->items[i + 1], err) < 0)
			return -1;
	return 0;
}

static void
ask(struct survey *survey, const struct walk *walk, size_t count)
{
	struct commands *commands = &survey->client->commands;

	commands_begin(commands, 5, walk->kind->command);
	mailbox_key(commands, &walk->stem, walk->kind->name, walk->id);
	commands_text(commands, walk->cursor);
	commands_text(commands, "COUNT");
	commands_u64(commands, count);
}

/* How many claims all logs together are asked for. */
static size_t
count_claims(const struct survey *survey)
{
	size_t bytes = survey->claim_bytes;

	if (bytes <= CLAIMS_BYTES / CLAIMS_MOST)
		return CLAIMS_MOST;
	if (bytes >= CLAIMS_BYTES / CLAIMS_LEAST)
		return CLAIMS_LEAST;
	return CLAIMS_BYTES / bytes;
}

/* Asks each for its next page, but of the logs perhaps the first ones only. */
static void
ask_all(struct survey *survey, struct walk *walks, size_t count)
{
	size_t logs = 0, left = count_claims(survey), each;

	for (size_t i = 0; i < count; i++)
		logs += !walks[i].is_done && walks[i].kind->count == 0;
	each = logs > 0 ? left / logs : 0;
	if (each < CLAIMS_LEAST)
		each = CLAIMS_LEAST;
	for (size_t i = 0; i < count; i++) {
		bool is_log = walks[i].kind->count == 0;

		walks[i].is_asked =
		    !walks[i].is_done && (!is_log || left >= each);
		if (!walks[i].is_asked)
			continue;
		ask(survey, &walks[i], is_log ? each : walks[i].kind->count);
		left -= is_log ? each : 0;
	}
	if (logs > 0)
		survey->claim_bytes /= 2;
}

/* All pages of some keys. */
static int
walk_all(
    struct survey *survey, struct walk *walks, size_t count, struct err *err)
{
	size_t reply;

	for (;;) {
		if (survey->stopping())
			return err_set(err, EX_TEMPFAIL, "stopped by a signal");
		ask_all(survey, walks, count);
		if (survey->client->commands.count == 0)
			return 0;
		if (client_call(survey->client, err) < 0)
			return -1;
		reply = 0;
		for (size_t i = 0; i < count; i++)
			if (walks[i].is_asked &&
			    take_page(survey, &walks[i],
				&survey->client->replies[reply++], err) < 0)
				return -1;
	}
}

/* The walk through a key; false: it has none of these kinds. */
static bool
begin_walk(const struct key *key, struct walk *walk)
{
	for (size_t i = 0; i < kind_count; i++) {
		struct slice id = key->rest;

		if (!key_pass(&id, kinds[i].name))
			continue;
		*walk = (struct walk){.kind = &kinds[i],
		    .stem = key->stem,
		    .partition = key->partition,
		    .id = id,
		    .cursor = "0"};
		return true;
	}
	return false;
}

/* Why a key isn't looked for here; NULL: it is. */
static const char *
find_stray(const struct survey *survey, const struct walk *walk)
{
	const struct mailbox *mailbox = survey->mailbox;

	if (walk->partition % mailbox->nodes != survey->place)
		return "a key on another node than its partition's";
	if (walk->kind->take != take_claim &&
	    mailbox_partition(walk->id, mailbox->partitions) != walk->partition)
		return "a key in another partition than the user's";
	return NULL;
}

static int
walk_names(struct survey *survey, const struct reply *names, struct err *err)
{
	struct walk walks[WALKS_MOST];
	struct key key;
	size_t count = 0;
	const char *why;

	for (size_t i = 0; i < names->count; i++) {
		struct walk *walk = &walks[count];

		if (!key_take(survey->mailbox, names->items[i].text, &key) ||
		    survey->ledger->parts[key.partition].skip ||
		    !begin_walk(&key, walk))
			continue;
		why = find_stray(survey, walk);
		if (why != NULL) {
			if (stray(survey, walk, walk->kind->take == take_claim,
				why, err) < 0)
				return -1;
			continue;
		}
		if (++count < WALKS_MOST)
			continue;
		if (walk_all(survey, walks, count, err) < 0)
			return -1;
		count = 0;
	}
	return walk_all(survey, walks, count, err);
}

static int
scan(struct survey *survey, struct err *err)
{
	struct client *client = survey->client;
	char cursor[REPLY_CURSOR_BYTES] = "0";
	struct reply page;
	int result;

	do {
		keys_ask(&client->commands, survey->mailbox, cursor);
		if (client_call(client, err) < 0)
			return -1;
		/* The names stay while others are asked for. */
		page = client->replies[0];
		client->replies[0] = (struct reply){0};
		if (!reply_cursor(&page, cursor) || page.count != 2)
			result = refuse(survey, err);
		else
			result = walk_names(survey, &page.items[1], err);
		reply_release(&page);
	} while (result == 0 && strcmp(cursor, "0") != 0);
	return result;
}

static int
walk_singles(struct survey *survey, struct err *err)
{
	const struct mailbox *mailbox = survey->mailbox;
	struct walk walks[sizeof(singles) / sizeof(singles[0])];

	for (uint32_t p = survey->place; p < mailbox->partitions;
	     p += mailbox->nodes) {
		if (survey->ledger->parts[p].skip)
			continue;
		for (size_t i = 0; i < single_count; i++) {
			walks[i] = (struct walk){
			    .kind = &singles[i], .partition = p, .cursor = "0"};
			stem_init(&walks[i].stem, mailbox->prefix, p);
		}
		if (walk_all(survey, walks, single_count, err) < 0)
			return -1;
	}
	return 0;
}

/* The node's time in ms. */
static int
read_time(struct survey *survey, uint64_t *now_ms, struct err *err)
{
	const struct reply *time;

	commands_add(&survey->client->commands, "TIME", (char *)NULL);
	if (client_call(survey->client, err) < 0)
		return -1;
	time = &survey->client->replies[0];
	if (time->type != REPLY_ARRAY || time->count != 2 ||
	    !reply_number(&time->items[0], now_ms))
		return refuse(survey, err);
	*now_ms *= 1000;
	return 0;
}

/* Below which offsets claims may have been removed; see trim.h. */
static int
read_old(struct survey *survey, uint64_t now_ms, struct err *err)
{
	struct commands *commands = &survey->client->commands;
	const struct mailbox *mailbox = survey->mailbox;
	size_t reply = 0;
	struct stem stem;

	for (uint32_t p = survey->place; p < mailbox->partitions;
	     p += mailbox->nodes) {
		stem_init(&stem, mailbox->prefix, p);
		commands_begin(commands, 9, "ZRANGE");
		mailbox_key(commands, &stem, "times", (struct slice){0});
		commands_u64(commands, now_ms - SURVEY_OLD_MS);
		commands_text(commands, "-inf");
		commands_text(commands, "BYSCORE");
		commands_text(commands, "REV");
		commands_text(commands, "LIMIT");
		commands_u64(commands, 0);
		commands_u64(commands, 1);
	}
	if (commands->count > 0 && client_call(survey->client, err) < 0)
		return -1;
	for (uint32_t p = survey->place; p < mailbox->partitions;
	     p += mailbox->nodes) {
		const struct reply *marks = &survey->client->replies[reply++];

		if (marks->count == 1)
			reply_number(
			    &marks->items[0], &survey->ledger->parts[p].old);
	}
	return 0;
}

int
survey_node(struct survey *survey, struct err *err)
{
	uint64_t now_ms;
	int result = marks_check_place(
	    survey->client, survey->mailbox, survey->place, err);

	survey->claim_bytes = CLAIMS_BYTES / CLAIMS_LEAST;
	if (result == 0)
		result = read_time(survey, &now_ms, err);
	if (result == 0)
		result = read_old(survey, now_ms, err);
	if (result == 0)
		result = scan(survey, err);
	if (result == 0)
		result = walk_singles(survey, err);
	buf_release(&survey->scratch);
	return result;
}
