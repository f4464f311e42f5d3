#include "redis/device.h"

#include <stdio.h>

#include "redis/script.h"

/* Numbers are written by %.0f: Lua's own text of one beyond 1e14 isn't
 * exact. */

/* KEYS: device, box, mark, floor.  ARGV: device, user, most.
 * {cursor, to, floor, mark, {member, mailbox_seq, ...}} */
static const struct script give = {DEVICE_LUA
    "local time = redis.call('TIME')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "local mark = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')\n"
    "mark = tonumber(mark[2] or 0)\n"
    "local floor, wrong = floor_of(KEYS[4], ARGV[2])\n"
    "if not floor then return wrong end\n"
    "local cursor, to = floor, floor\n"
    "local text = redis.call('HGET', KEYS[1], ARGV[1])\n"
    "if text then\n"
    "  cursor, to = device(text)\n"
    "  if not to then\n"
    "    return redis.error_reply('ERR not the cursor of a device')\n"
    "  end\n"
    "end\n"
    "local entries = {}\n"
    "if cursor >= floor and to <= mark then\n"
    "  local out = to > cursor\n"
    "  entries = redis.call('ZRANGE', KEYS[2],\n"
    "    string.format('(%.0f', cursor),\n"
    "    string.format('%.0f', out and to or mark),\n"
    "    'BYSCORE', 'LIMIT', 0, out and -1 or ARGV[3], 'WITHSCORES')\n"
    "  if not out and #entries > 0 then\n"
    "    to = tonumber(entries[#entries])\n"
    "  end\n"
    "end\n"
    "redis.call('HSET', KEYS[1], ARGV[1],\n"
    "  string.format('%.0f %.0f %.0f', cursor, to, now))\n"
    "return {cursor, to, floor, mark, entries}\n",
    ""};

/* KEYS: device, floor.  ARGV: device, user, from, to.
 * {moved, cursor, to, floor}; nil: no such device. */
static const struct script take = {DEVICE_LUA
    "local time = redis.call('TIME')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "local floor, wrong = floor_of(KEYS[2], ARGV[2])\n"
    "if not floor then return wrong end\n"
    "local text = redis.call('HGET', KEYS[1], ARGV[1])\n"
    "if not text then return false end\n"
    "local cursor, out = device(text)\n"
    "if not out then\n"
    "  return redis.error_reply('ERR not the cursor of a device')\n"
    "end\n"
    "local from, to = tonumber(ARGV[3]), tonumber(ARGV[4])\n"
    "local fits = to == out or (cursor < floor and to == floor)\n"
    "if from ~= cursor or not fits then\n"
    "  return {0, cursor, out, floor}\n"
    "end\n"
    "redis.call('HSET', KEYS[1], ARGV[1],\n"
    "  string.format('%.0f %.0f %.0f', to, to, now))\n"
    "return {1, to, to, floor}\n",
    ""};

/* KEYS: top, read.  ARGV: conversation, seq.  {marked, top} */
static const struct script read_up_to = {
    "local top = redis.call('ZSCORE', KEYS[1], ARGV[1])\n"
    "top = tonumber(top or 0)\n"
    "if tonumber(ARGV[2]) > top then return {0, top} end\n"
    "redis.call('ZADD', KEYS[2], 'GT', ARGV[2], ARGV[1])\n"
    "return {1, top}\n",
    ""};

static uint64_t
number(const struct reply *items, size_t index)
{
	return (uint64_t)items[index].integer;
}

static int
refuse_form(const struct reader *reader, struct err *err)
{
	return err_set(err, EX_DATAERR,
	    "redis %s: EVAL: not the reply of a Redis",
	    reader->client.node->text);
}

static struct commands *
begin(struct reader *reader, const struct script *script, uint32_t keys,
    uint32_t arguments)
{
	script_begin(&reader->client.commands, script, keys, arguments);
	return &reader->client.commands;
}

static int
run(struct reader *reader, const struct script *script, size_t items,
    struct err *err)
{
	const struct reply *reply;

	if (script_run(script, &reader->client, err) < 0)
		return -1;
	reply = &reader->client.replies[0];
	if (reply->type != REPLY_NIL &&
	    (reply->type != REPLY_ARRAY || reply->count != items))
		return refuse_form(reader, err);
	return 0;
}

/* Below the floor: what it may acknowledge. */
static int
tell_loss(struct slice device, uint64_t cursor, uint64_t out, uint64_t floor,
    struct err *err)
{
	char batch[64] = "";

	if (out > cursor)
		snprintf(batch, sizeof(batch), "; a batch to %llu is out",
		    (unsigned long long)out);
	return err_set(err, EX_DATAERR,
	    "-d: '%.*s': its cursor %llu is below the floor %llu: what was "
	    "between is trimmed; --from %llu --to %llu acknowledges the loss%s",
	    (int)device.bytes, (const char *)device.data,
	    (unsigned long long)cursor, (unsigned long long)floor,
	    (unsigned long long)cursor, (unsigned long long)floor, batch);
}

/* Above the mark: what it was given will be there again. */
static int
tell_mark(struct slice device, uint64_t cursor, uint64_t out, uint64_t mark,
    struct err *err)
{
	return err_set(err, EX_DATAERR,
	    "-d: '%.*s': its cursor is %llu, and it was given up to %llu, but "
	    "the mark is %llu: nothing more until the mark has caught up",
	    (int)device.bytes, (const char *)device.data,
	    (unsigned long long)cursor, (unsigned long long)out,
	    (unsigned long long)mark);
}

static int
show_given(struct reader *reader, struct slice device,
    const struct reply *reply, device_given *first, reader_message *show,
    struct err *err)
{
	struct given given = {.device = device,
	    .from = number(reply->items, 0),
	    .to = number(reply->items, 1),
	    .count = reply->items[4].count / 2};
	uint64_t floor = number(reply->items, 2);
	uint64_t mark = number(reply->items, 3);

	if (given.from < floor)
		return tell_loss(device, given.from, given.to, floor, err);
	if (given.to > mark)
		return tell_mark(device, given.from, given.to, mark, err);
	if (first(&given, err) < 0)
		return -1;
	return reader_show_entries(reader, &reply->items[4], show, err);
}

int
device_batch(struct reader *reader, struct slice device, uint64_t most,
    device_given *first, reader_message *show, struct err *err)
{
	struct commands *commands = begin(reader, &give, 4, 3);
	struct slice none = {0};
	struct reply reply;
	int result;

	mailbox_key(commands, &reader->stem, "device:", reader->user);
	mailbox_key(commands, &reader->stem, "box:", reader->user);
	mailbox_key(commands, &reader->stem, "mark", none);
	mailbox_key(commands, &reader->stem, "floor", none);
	commands_slice(commands, device);
	commands_slice(commands, reader->user);
	commands_u64(commands, most);
	if (run(reader, &give, 5, err) < 0)
		return -1;
	reply = reader_keep(reader, 0);
	if (reply.type == REPLY_ARRAY)
		result = show_given(reader, device, &reply, first, show, err);
	else
		result = refuse_form(reader, err);
	reply_release(&reply);
	return result;
}

static int
refuse_ack(struct slice device, uint64_t from, uint64_t to,
    const struct reply *items, struct err *err)
{
	uint64_t cursor = number(items, 1), out = number(items, 2);
	uint64_t floor = number(items, 3);
	char batch[64] = "no batch is out";

	if (cursor < floor)
		return tell_loss(device, cursor, out, floor, err);
	if (out > cursor)
		snprintf(batch, sizeof(batch),
		    "the batch that is out ends at %llu",
		    (unsigned long long)out);
	return err_set(err, EX_DATAERR,
	    "-d: '%.*s': its cursor is %llu, %s: not --from %llu --to %llu",
	    (int)device.bytes, (const char *)device.data,
	    (unsigned long long)cursor, batch, (unsigned long long)from,
	    (unsigned long long)to);
}

int
device_ack(struct reader *reader, struct slice device, uint64_t from,
    uint64_t to, struct err *err)
{
	struct commands *commands = begin(reader, &take, 2, 4);
	const struct reply *reply;

	mailbox_key(commands, &reader->stem, "device:", reader->user);
	mailbox_key(commands, &reader->stem, "floor", (struct slice){0});
	commands_slice(commands, device);
	commands_slice(commands, reader->user);
	commands_u64(commands, from);
	commands_u64(commands, to);
	if (run(reader, &take, 4, err) < 0)
		return -1;
	reply = &reader->client.replies[0];
	if (reply->type == REPLY_NIL)
		return err_set(err, EX_DATAERR,
		    "-d: '%.*s': was never given a batch", (int)device.bytes,
		    (const char *)device.data);
	if (number(reply->items, 0) == 1)
		return 0;
	return refuse_ack(device, from, to, reply->items, err);
}

int
device_read(struct reader *reader, struct slice conversation, uint64_t seq,
    struct err *err)
{
	struct commands *commands = begin(reader, &read_up_to, 2, 2);
	const struct reply *reply;

	mailbox_key(commands, &reader->stem, "top", (struct slice){0});
	mailbox_key(commands, &reader->stem, "read:", reader->user);
	commands_slice(commands, conversation);
	commands_u64(commands, seq);
	if (run(reader, &read_up_to, 2, err) < 0)
		return -1;
	reply = &reader->client.replies[0];
	if (reply->type != REPLY_ARRAY)
		return refuse_form(reader, err);
	if (number(reply->items, 0) == 1)
		return 0;
	return err_set(err, EX_DATAERR,
	    "--seq: %llu is above %llu, the newest of conversation '%.*s' here",
	    (unsigned long long)seq,
	    (unsigned long long)number(reply->items, 1),
	    (int)conversation.bytes, (const char *)conversation.data);
}
