#include "redis/device.h"
#include "redis/trim.h"

/* Entries that one call removes. */
#define STEP_COUNT 200

/* How far the box is to be cut: by count over what is shown, by age; held by
 * the least cursor of a device that isn't silent; never below the floor, up to
 * where references can only have come back.  The floor becomes the last one
 * that went, not the cut itself: no device is told of a loss that was none.
 * The floor is raised before anything goes: a call that is refused half-way
 * has lost nothing.  What comes first removes nothing, see script.h.
 *
 * KEYS: box, device, floor, mark.  ARGV: user, count, age, ms of silence,
 * step; 1: write nothing.  {removed, held, more} */
static struct script cut = {DEVICE_LUA
    "local box = KEYS[1]\n"
    "local floor, wrong = floor_of(KEYS[3], ARGV[1])\n"
    "if not floor then return wrong end\n"
    "local mark = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2]\n"
    "if not mark then return {0, 0, 0} end\n"
    "local above = string.format('(%.0f', floor)\n"
    "local shown = redis.call('ZCOUNT', box, above, mark)\n"
    "local back = redis.call('ZCOUNT', box, '-inf',\n"
    "  string.format('%.0f', floor))\n"
    "local goal = math.min(tonumber(ARGV[3]), tonumber(mark))\n"
    "local excess = shown - tonumber(ARGV[2])\n"
    "if excess > 0 then\n"
    "  local at = back + excess - 1\n"
    "  local last = redis.call('ZRANGE', box, at, at, 'WITHSCORES')\n"
    "  goal = math.max(goal, tonumber(last[2]))\n"
    "end\n"
    "local held = 0\n"
    "if goal > floor then\n"
    "  local time = redis.call('TIME')\n"
    "  local heard = time[1] * 1000 - tonumber(ARGV[4])\n"
    "  for _, text in ipairs(redis.call('HVALS', KEYS[2])) do\n"
    "    local cursor, to, seen = device(text)\n"
    "    if not seen then\n"
    "      return redis.error_reply('ERR a device without a cursor: ' ..\n"
    "        KEYS[2])\n"
    "    end\n"
    "    if seen > heard and cursor < goal then\n"
    "      goal = cursor\n"
    "      held = 1\n"
    "    end\n"
    "  end\n"
    "end\n"
    "goal = math.max(goal, floor)\n"
    "local all = redis.call('ZCOUNT', box, '-inf',\n"
    "  string.format('%.0f', goal))\n"
    "if ARGV[6] == '1' or all == 0 then return {all, held, 0} end\n"
    "local count = math.min(all, tonumber(ARGV[5]))\n"
    "local last = redis.call('ZRANGE', box, count - 1, count - 1,\n"
    "  'WITHSCORES')[2]\n"
    "if tonumber(last) > floor then\n"
    "  redis.call('ZREMRANGEBYRANK', box, 1, 0)\n"
    "  redis.call('ZADD', KEYS[3], 'GT', last, ARGV[1])\n"
    "end\n"
    "redis.call('ZREMRANGEBYRANK', box, 0, count - 1)\n"
    "return {count, held, all > count and 1 or 0}\n",
    ""};

int
trim_load_boxes(struct trim *trim, struct err *err)
{
	return script_load(&cut, trim->client, err);
}

static void
ask(struct trim *trim, const struct trim_key *key)
{
	struct commands *commands = &trim->client->commands;
	const struct trim_rules *rules = trim->rules;
	struct slice none = {0};

	script_begin(commands, &cut, 4, 6);
	mailbox_key(commands, &key->stem, "box:", key->id);
	mailbox_key(commands, &key->stem, "device:", key->id);
	mailbox_key(commands, &key->stem, "floor", none);
	mailbox_key(commands, &key->stem, "mark", none);
	commands_slice(commands, key->id);
	/* More than any box has. */
	commands_u64(commands,
	    rules->box_count == TRIM_NONE ? SEQ_MAX : rules->box_count);
	commands_u64(commands, key->ages->box);
	commands_u64(commands, rules->device_days * TRIM_DAY_MS);
	commands_u64(commands, STEP_COUNT);
	commands_u64(commands, rules->dry_run);
}

static void
take(struct trim *trim, struct trim_key *key, const struct reply *items)
{
	uint64_t removed = (uint64_t)items[0].integer;

	trim->done->boxes += key->removed == 0 && removed > 0;
	trim->done->entries += removed;
	key->removed += removed;
	key->done = items[2].integer == 0;
	if (key->done)
		trim->done->held += (uint64_t)items[1].integer;
}

int
trim_boxes(
    struct trim *trim, struct trim_key *keys, size_t count, struct err *err)
{
	size_t at;

	while (!trim->stopping()) {
		for (size_t i = 0; i < count; i++)
			if (!keys[i].done)
				ask(trim, &keys[i]);
		if (trim->client->commands.count == 0)
			return 0;
		if (script_run(&cut, trim->client, err) < 0)
			return -1;
		at = 0;
		for (size_t i = 0; i < count; i++) {
			const struct reply *reply;

			if (keys[i].done)
				continue;
			reply = &trim->client->replies[at++];
			if (trim_check(trim, reply, 3, err) < 0)
				return -1;
			take(trim, &keys[i], reply->items);
		}
	}
	return 0;
}
