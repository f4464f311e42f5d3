/*
 * What a server has, and how it grows older.
 */
#include <stdio.h>

#include "server.h"

/* The days pass by making older what has a time. */
void
server_pass_days(struct server *server, uint32_t days)
{
	static const char age[] =
	    "local ms = ARGV[1] * 86400000\n"
	    "for _, key in ipairs(redis.call('KEYS', '*}:round:*')) do\n"
	    "  redis.call('DEL', key)\n"
	    "end\n"
	    "for _, key in ipairs(redis.call('KEYS', '*}:times')) do\n"
	    "  for _, mark in ipairs(redis.call('ZRANGE', key, 0, -1)) do\n"
	    "    redis.call('ZINCRBY', key, -ms, mark)\n"
	    "  end\n"
	    "end\n"
	    "for _, key in ipairs(redis.call('KEYS', '*}:device:*')) do\n"
	    "  local all = redis.call('HGETALL', key)\n"
	    "  for i = 1, #all, 2 do\n"
	    "    local ends, seen = all[i + 1]:match('^(.* )(%d+)$')\n"
	    "    redis.call('HSET', key, all[i],\n"
	    "      ends .. string.format('%.0f', seen - ms))\n"
	    "  end\n"
	    "end\n"
	    "return 1\n";
	char text[16], path[128];
	struct reply reply;

	snprintf(text, sizeof(text), "%u", (unsigned)days);
	reply = server_eval(server, age, text);
	reply_release(&reply);
	server_forget(server);
	if (server->append_only)
		server->least = server_append_bytes(server, path);
}

/* A key's fields, members or value, each with what belongs to it. */
static void
read_key(struct model *model, struct slice key, const struct reply *all)
{
	struct slice none = {0};

	if (all->type == REPLY_TEXT) {
		model_put(model, key, none, none, read_number(all->text));
		return;
	}
	for (size_t i = 0; i + 2 < all->count; i += 3) {
		struct slice value = all->items[i + 1].text;

		if (slice_is(all->items[i].text, "zset"))
			model_put(model, key, all->items[i + 2].text, none,
			    read_number(value));
		else
			model_put(model, key, all->items[i + 2].text, value, 0);
	}
}

void
server_read(struct server *server, struct model *model)
{
	static const char script[] =
	    "local keys = {}\n"
	    "for _, key in ipairs(redis.call('KEYS', '*')) do\n"
	    "  local kind, all = redis.call('TYPE', key).ok, {}\n"
	    "  local pairs\n"
	    "  if kind == 'hash' then pairs = redis.call('HGETALL', key)\n"
	    "  elseif kind == 'zset' then\n"
	    "    pairs = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')\n"
	    "  else all = redis.call('GET', key) end\n"
	    "  for i = 1, pairs and #pairs or 0, 2 do\n"
	    "    all[#all + 1] = kind\n"
	    "    all[#all + 1] = pairs[i + 1]\n"
	    "    all[#all + 1] = pairs[i]\n"
	    "  end\n"
	    "  keys[#keys + 1] = key\n"
	    "  keys[#keys + 1] = all\n"
	    "end\n"
	    "return keys\n";
	struct reply keys = server_eval(server, script, "");

	model->data.count = 0;
	for (size_t i = 0; i + 1 < keys.count; i += 2)
		read_key(model, keys.items[i].text, &keys.items[i + 1]);
	reply_release(&keys);
}
