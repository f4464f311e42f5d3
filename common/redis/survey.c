#include "redis/keys.h"
#include "redis/marks.h"
#include "redis/survey-parts.h"

/* Keys that are read at once, a page of each. */
#define WALKS_MOST 64

/* Claims come with their bodies, and a node has in memory what it is asked for
 * until it is read.  So many of all logs together are asked for as were these
 * bytes, were each as large as the largest of late. */
#define CLAIMS_BYTES ((size_t)8 << 20)
#define CLAIMS_LEAST 8
#define CLAIMS_MOST 512

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
		logs += !walks[i].is_done && walk_is_log(&walks[i]);
	each = logs > 0 ? left / logs : 0;
	if (each < CLAIMS_LEAST)
		each = CLAIMS_LEAST;
	for (size_t i = 0; i < count; i++) {
		bool is_log = walk_is_log(&walks[i]);

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
	for (size_t i = 0; i < SURVEY_KINDS; i++) {
		struct slice id = key->rest;

		if (!key_pass(&id, survey_kinds[i].name))
			continue;
		*walk = (struct walk){.kind = &survey_kinds[i],
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
	if (!walk_is_log(walk) &&
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
			if (survey_stray(survey, walk, why, err) < 0)
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
	struct walk walks[SURVEY_SINGLES];

	for (uint32_t p = survey->place; p < mailbox->partitions;
	     p += mailbox->nodes) {
		if (survey->ledger->parts[p].skip)
			continue;
		for (size_t i = 0; i < SURVEY_SINGLES; i++) {
			walks[i] = (struct walk){.kind = &survey_singles[i],
			    .partition = p,
			    .cursor = "0"};
			stem_init(&walks[i].stem, mailbox->prefix, p);
		}
		if (walk_all(survey, walks, SURVEY_SINGLES, err) < 0)
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
