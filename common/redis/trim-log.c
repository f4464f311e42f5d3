#include "redis/trim.h"

#include <stdlib.h>

/* Claims that one call passes, with their bodies. */
#define STEP_COUNT 100

/* The conversation_seqs of a page of claims; chunks have that of their
 * first.  Bodies stay where they are, which a bare HSCAN would send.
 *
 * KEYS: log.  ARGV: scan's cursor, count.  {cursor, seq, ...} */
static struct script list = {
    "local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])\n"
    "local seqs = {page[1]}\n"
    "for i = 1, #page[2], 2 do\n"
    "  if not page[2][i]:find('/', 1, true) then\n"
    "    seqs[#seqs + 1] = page[2][i]\n"
    "  end\n"
    "end\n"
    "return seqs\n",
    ""};

/* Of a page of claims those whose seq is below `least`: where the mark had
 * passed the offset long ago the claim goes, else its body.  A claim is
 * [offset, digest, ...]: an array of 2 to 15, an offset of 1 to 9 bytes, and
 * c4 10 before the digest.  A body goes by writing the rest over it, so that a
 * call that is refused half-way has lost no claim.  What comes first removes
 * nothing, see script.h.
 *
 * KEYS: log.  ARGV: scan's cursor, count, least, older; 1: write nothing.
 * {cursor, bodies, claims} */
static struct script cut = {
    "local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])\n"
    "local least, older = tonumber(ARGV[3]), tonumber(ARGV[4])\n"
    "local write = ARGV[5] ~= '1'\n"
    "local sizes = {[204] = 1, [205] = 2, [206] = 4, [207] = 8}\n"
    "local bodies, claims = 0, 0\n"
    "if write then redis.call('HDEL', KEYS[1], '') end\n"
    "for i = 1, #page[2], 2 do\n"
    "  local field, value = page[2][i], page[2][i + 1]\n"
    "  local seq = tonumber(field:match('^%d+'))\n"
    "  local head, offset = value:byte(1, 2)\n"
    "  local size = offset and (offset < 128 and 0 or sizes[offset])\n"
    "  if not seq or not size or head < 146 or head > 159 or\n"
    "      value:sub(3 + size, 4 + size) ~= '\\196\\16' then\n"
    "    return redis.error_reply('ERR not a claim: ' .. field)\n"
    "  end\n"
    "  if size > 0 then offset = 0 end\n"
    "  for k = 3, 2 + size do offset = offset * 256 + value:byte(k) end\n"
    "  local is_old, has_body = offset < older, head > 149\n"
    "  if seq < least and (is_old or has_body) then\n"
    "    if is_old then\n"
    "      claims = claims + 1\n"
    "      if write then redis.call('HDEL', KEYS[1], field) end\n"
    "    else\n"
    "      bodies = bodies + 1\n"
    "      if write then\n"
    "        redis.call('HSET', KEYS[1], field,\n"
    "          '\\146' .. value:sub(2, 20 + size))\n"
    "      end\n"
    "    end\n"
    "  end\n"
    "end\n"
    "return {page[1], bodies, claims}\n",
    ""};

/* The newest seqs of a conversation, as many as keep their bodies. */
struct newest {
	uint64_t *all;
	size_t count, room;
	size_t most;
};

int
trim_load_logs(struct trim *trim, struct err *err)
{
	if (trim->rules->bodies == TRIM_NONE)
		return 0;
	if (script_load(&list, trim->client, err) < 0)
		return -1;
	return script_load(&cut, trim->client, err);
}

static int
compare_down(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left < right) - (left > right);
}

/* The newest first, each once (a scan may give a field twice), `most` of
 * them. */
static void
settle(struct newest *newest)
{
	size_t count = 0;

	if (newest->count > 0)
		qsort(newest->all, newest->count, sizeof(*newest->all),
		    compare_down);
	for (size_t i = 0; i < newest->count && count < newest->most; i++)
		if (count == 0 || newest->all[count - 1] != newest->all[i])
			newest->all[count++] = newest->all[i];
	newest->count = count;
}

/* Room for twice as many as stay, so that each settling drops half. */
static int
add_seq(struct newest *newest, uint64_t seq, struct err *err)
{
	if (newest->count == newest->room && newest->room >= 2 * newest->most)
		settle(newest);
	if (newest->count == newest->room) {
		size_t room = newest->room == 0 ? STEP_COUNT : 2 * newest->room;
		uint64_t *all =
		    realloc(newest->all, checked_multiply(room, sizeof(*all)));

		if (all == NULL)
			return err_memory(err, "conversation");
		newest->all = all;
		newest->room = room;
	}
	newest->all[newest->count++] = seq;
	return 0;
}

static void
begin(struct trim *trim, const struct script *script,
    const struct trim_key *key, uint32_t arguments, const char *cursor)
{
	struct commands *commands = &trim->client->commands;

	script_begin(commands, script, 1, arguments);
	mailbox_key(commands, &key->stem, "log:", key->id);
	commands_text(commands, cursor);
	commands_u64(commands, STEP_COUNT);
}

/* Sends it; NULL: -1. */
static const struct reply *
run_page(struct trim *trim, const struct script *script, size_t items,
    char cursor[REPLY_CURSOR_BYTES], struct err *err)
{
	if (script_run(script, trim->client, err) < 0 ||
	    trim_page(trim, items, cursor, err) < 0)
		return NULL;
	return &trim->client->replies[0];
}

static int
read_newest(struct trim *trim, const struct trim_key *key,
    struct newest *newest, struct err *err)
{
	char cursor[REPLY_CURSOR_BYTES] = "0";
	const struct reply *page;
	uint64_t seq;

	do {
		begin(trim, &list, key, 2, cursor);
		page = run_page(trim, &list, 1, cursor, err);
		if (page == NULL)
			return -1;
		for (size_t i = 1; i < page->count; i++) {
			if (!reply_number(&page->items[i], &seq))
				return err_set(err, EX_DATAERR,
				    "%.*slog:%.*s: not a conversation_seq",
				    (int)key->stem.bytes, key->stem.text,
				    (int)key->id.bytes,
				    (const char *)key->id.data);
			if (add_seq(newest, seq, err) < 0)
				return -1;
		}
	} while (strcmp(cursor, "0") != 0 && !trim->stopping());
	settle(newest);
	return 0;
}

static int
cut_log(struct trim *trim, const struct trim_key *key, uint64_t least,
    struct err *err)
{
	struct commands *commands = &trim->client->commands;
	char cursor[REPLY_CURSOR_BYTES] = "0";
	const struct reply *page;

	do {
		begin(trim, &cut, key, 5, cursor);
		commands_u64(commands, least);
		commands_u64(commands, key->ages->claim);
		commands_u64(commands, trim->rules->dry_run);
		page = run_page(trim, &cut, 3, cursor, err);
		if (page == NULL)
			return -1;
		trim->done->bodies += (uint64_t)page->items[1].integer;
		trim->done->claims += (uint64_t)page->items[2].integer;
	} while (strcmp(cursor, "0") != 0 && !trim->stopping());
	return 0;
}

static int
trim_log(struct trim *trim, const struct trim_key *key, struct err *err)
{
	struct newest newest = {.most = trim->rules->bodies};
	int result = read_newest(trim, key, &newest, err);

	/* What a stopped reading takes for the newest is rather too old, so
	 * that rather too little goes. */
	if (result == 0 && newest.count == newest.most)
		result = cut_log(trim, key, newest.all[newest.most - 1], err);
	free(newest.all);
	return result;
}

/* Most conversations have no more claims than stay. */
int
trim_logs(
    struct trim *trim, struct trim_key *keys, size_t count, struct err *err)
{
	struct commands *commands = &trim->client->commands;
	bool is_long[TRIM_GROUP];

	for (size_t i = 0; i < count; i++) {
		commands_begin(commands, 2, "HLEN");
		mailbox_key(commands, &keys[i].stem, "log:", keys[i].id);
	}
	if (client_call(trim->client, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		is_long[i] = (uint64_t)trim->client->replies[i].integer >
		    trim->rules->bodies;
	for (size_t i = 0; i < count && !trim->stopping(); i++)
		if (is_long[i] && trim_log(trim, &keys[i], err) < 0)
			return -1;
	return 0;
}
