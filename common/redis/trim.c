#include "redis/trim.h"

#include <stdlib.h>

#include "redis/keys.h"
#include "redis/marks.h"

/* Looks up the ages, and writes down the mark of now where the last one is a
 * day old.  What is told of the future was written by a clock that went
 * wrong.  Of what is older than any rule the newest stays.  What is above the
 * mark, or no mark at all, makes nothing old.
 *
 * KEYS: times, mark.  ARGV: ms of the box, of the claims, a day's, the most
 * that is kept; 1: write nothing.  {mark, box, claim} */
static struct script look = {
    "local time = redis.call('TIME')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "local function ago(ms)\n"
    "  return string.format('%.0f', now - tonumber(ms))\n"
    "end\n"
    "local function last(ms)\n"
    "  return redis.call('ZRANGE', KEYS[1], ago(ms), '-inf', 'BYSCORE',\n"
    "    'REV', 'LIMIT', 0, 1, 'WITHSCORES')\n"
    "end\n"
    "local mark = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]\n"
    "if mark and ARGV[5] ~= '1' then\n"
    "  redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. ago(0), '+inf')\n"
    "  local newest = last(0)[2]\n"
    "  if not newest or tonumber(newest) <= tonumber(ago(ARGV[3])) then\n"
    "    redis.call('ZADD', KEYS[1], 'NX', ago(0), mark)\n"
    "  end\n"
    "  local oldest = last(ARGV[4])[2]\n"
    "  if oldest then\n"
    "    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. oldest)\n"
    "  end\n"
    "end\n"
    "local function age(ms)\n"
    "  local text = ms ~= '' and last(ms)[1] or ''\n"
    "  local seen = text:find('^%d+$') and tonumber(text) or 0\n"
    "  return seen <= tonumber(mark or 0) and seen or 0\n"
    "end\n"
    "return {tonumber(mark or 0), age(ARGV[1]), age(ARGV[2])}\n",
    ""};

int
trim_check(const struct trim *trim, const struct reply *reply, size_t items,
    struct err *err)
{
	if (reply->type == REPLY_ARRAY && reply->count >= items)
		return 0;
	return err_set(err, EX_DATAERR, "redis %s: not the reply of a Redis",
	    trim->client->node->text);
}

int
trim_page(const struct trim *trim, size_t items,
    char cursor[REPLY_CURSOR_BYTES], struct err *err)
{
	const struct reply *page = &trim->client->replies[0];
	static const struct reply none;

	return trim_check(
	    trim, reply_cursor(page, cursor) ? page : &none, items, err);
}

static void
add_days(struct commands *commands, uint64_t days)
{
	if (days == TRIM_NONE)
		commands_text(commands, "");
	else
		commands_u64(commands, days * TRIM_DAY_MS);
}

static void
ask_ages(struct trim *trim, const struct stem *stem)
{
	struct commands *commands = &trim->client->commands;
	struct slice none = {0};

	script_begin(commands, &look, 2, 5);
	mailbox_key(commands, stem, "times", none);
	mailbox_key(commands, stem, "mark", none);
	add_days(commands, trim->rules->box_days);
	add_days(commands, trim->rules->retention_days);
	add_days(commands, 1);
	add_days(commands, TRIM_DAYS_MAX + 1);
	commands_u64(commands, trim->rules->dry_run);
}

/* A Redis that answers anything else has nothing that is old. */
static uint64_t
take_age(const struct reply *reply)
{
	return reply->type == REPLY_INTEGER && reply->integer > 0
	    ? (uint64_t)reply->integer
	    : 0;
}

/* Checks the partition's mark, then takes its ages. */
static int
read_ages(struct trim *trim, uint32_t partition, struct err *err)
{
	struct trim_ages *ages = &trim->ages[partition / trim->mailbox->nodes];
	const struct reply *reply;
	struct stem stem;

	stem_init(&stem, trim->mailbox->prefix, partition);
	mark_ask(&trim->client->commands, &stem);
	if (client_call(trim->client, err) < 0 ||
	    mark_take(&trim->client->replies[0], &stem, trim->mailbox,
		trim->place, &ages->mark, err) < 0)
		return -1;
	ask_ages(trim, &stem);
	if (script_run(&look, trim->client, err) < 0)
		return -1;
	reply = &trim->client->replies[0];
	if (trim_check(trim, reply, 3, err) < 0)
		return -1;
	ages->box = take_age(&reply->items[1]);
	ages->claim = take_age(&reply->items[2]);
	return 0;
}

/* Whether it is a key KIND ID of one of the node's partitions with a mark. */
static bool
take_key(const struct trim *trim, struct slice name, const char *kind,
    struct trim_key *key)
{
	const struct mailbox *mailbox = trim->mailbox;
	struct key found;

	if (!key_take(mailbox, name, &found) ||
	    found.partition % mailbox->nodes != trim->place ||
	    !key_pass(&found.rest, kind))
		return false;
	*key = (struct trim_key){.stem = found.stem,
	    .ages = &trim->ages[found.partition / mailbox->nodes],
	    .id = found.rest};
	return key->ages->mark > 0;
}

typedef int trim_some(
    struct trim *trim, struct trim_key *keys, size_t count, struct err *err);

/* Hands the page's keys of a kind on, group by group. */
static int
pass_keys(struct trim *trim, const struct reply *names, const char *kind,
    trim_some *some, struct err *err)
{
	struct trim_key keys[TRIM_GROUP];
	size_t count = 0;

	for (size_t i = 0; i < names->count && !trim->stopping(); i++) {
		count +=
		    take_key(trim, names->items[i].text, kind, &keys[count]);
		if (count < TRIM_GROUP)
			continue;
		if (some(trim, keys, count, err) < 0)
			return -1;
		count = 0;
	}
	return count == 0 ? 0 : some(trim, keys, count, err);
}

/* One page of the node's keys, kept in *page. */
static int
scan_page(struct trim *trim, char cursor[REPLY_CURSOR_BYTES],
    struct reply *page, struct err *err)
{
	keys_ask(&trim->client->commands, trim->mailbox, cursor);
	if (client_call(trim->client, err) < 0)
		return -1;
	if (trim_page(trim, 2, cursor, err) < 0)
		return -1;
	*page = trim->client->replies[0];
	trim->client->replies[0] = (struct reply){0};
	return 0;
}

static int
trim_keys(struct trim *trim, struct err *err)
{
	char cursor[REPLY_CURSOR_BYTES] = "0";
	struct reply page;
	int result;

	do {
		if (trim->stopping())
			return 0;
		if (scan_page(trim, cursor, &page, err) < 0)
			return -1;
		result =
		    pass_keys(trim, &page.items[1], "box:", trim_boxes, err);
		if (result == 0 && trim->rules->bodies != TRIM_NONE)
			result = pass_keys(
			    trim, &page.items[1], "log:", trim_logs, err);
		reply_release(&page);
	} while (result == 0 && strcmp(cursor, "0") != 0);
	return result;
}

static int
trim_all(struct trim *trim, struct err *err)
{
	const struct mailbox *mailbox = trim->mailbox;

	if (marks_check_place(trim->client, mailbox, trim->place, err) < 0 ||
	    script_load(&look, trim->client, err) < 0 ||
	    trim_load_boxes(trim, err) < 0 || trim_load_logs(trim, err) < 0)
		return -1;
	for (uint32_t p = trim->place; p < mailbox->partitions;
	     p += mailbox->nodes)
		if (read_ages(trim, p, err) < 0)
			return -1;
	return trim_keys(trim, err);
}

int
trim_node(struct trim *trim, struct err *err)
{
	const struct mailbox *mailbox = trim->mailbox;
	int result;

	trim->ages = calloc(
	    mailbox->partitions / mailbox->nodes + 1, sizeof(*trim->ages));
	if (trim->ages == NULL)
		return err_memory(err, "partitions");
	result = trim_all(trim, err);
	free(trim->ages);
	trim->ages = NULL;
	return result;
}
