/*
 * Scripts of the model.  Lua numbers are doubles, replies are cut to whole
 * numbers, nil is false, a reply ends at its first nil: as Redis has it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lua5.1/lauxlib.h>
#include <lua5.1/lualib.h>
#include <xxhash.h>

#include "model.h"

#define SHA1_BYTES 40

static lua_State *lua;
static struct link *running; /* whose script it is */

static void
push_reply(const struct reply *reply)
{
	switch (reply->type) {
	case REPLY_INTEGER:
		lua_pushnumber(lua, (lua_Number)reply->integer);
		return;
	case REPLY_TEXT:
		lua_pushlstring(
		    lua, (const char *)reply->text.data, reply->text.bytes);
		return;
	case REPLY_ARRAY:
		lua_newtable(lua);
		for (size_t i = 0; i < reply->count; i++) {
			push_reply(&reply->items[i]);
			lua_rawseti(lua, -2, (int)i + 1);
		}
		return;
	default:
		lua_pushboolean(lua, 0);
	}
}

/* redis.call(): the arguments stay on Lua's stack. */
static int
call(lua_State *state)
{
	struct model_command command = {.count = (size_t)lua_gettop(state)};
	char numbers[16][32];
	struct reply reply;

	for (size_t i = 0; i < command.count; i++) {
		struct slice *argument = &command.argument[i];

		if (lua_type(state, (int)i + 1) == LUA_TNUMBER) {
			if (i >= 16)
				return luaL_error(state, "a number too many");
			snprintf(numbers[i], sizeof(numbers[i]), "%.17g",
			    lua_tonumber(state, (int)i + 1));
			*argument = slice_of(numbers[i]);
		} else {
			argument->data = (const uint8_t *)luaL_checklstring(
			    state, (int)i + 1, &argument->bytes);
		}
	}
	reply = model_run(running, &command);
	push_reply(&reply);
	reply_release(&reply);
	return 1;
}

static int
error_reply(lua_State *state)
{
	lua_newtable(state);
	lua_pushvalue(state, 1);
	lua_setfield(state, -2, "err");
	return 1;
}

static void
close_lua(void)
{
	lua_close(lua);
}

static void
open_lua(void)
{
	static const luaL_Reg functions[] = {
	    {"call", call}, {"error_reply", error_reply}, {NULL, NULL}};

	lua = luaL_newstate();
	if (lua == NULL)
		abort();
	luaL_openlibs(lua);
	luaL_register(lua, "redis", functions);
	lua_settop(lua, 0);
	atexit(close_lua);
}

static uint32_t
hash_of(struct slice text)
{
	return XXH32(text.data, text.bytes, 0);
}

/* Leaves the script's function on the stack, which is kept by its hash. */
static void
push_script(struct slice text)
{
	uint32_t hash = hash_of(text);

	lua_rawgeti(lua, LUA_REGISTRYINDEX, (int)(hash >> 2) + 100);
	if (lua_isfunction(lua, -1))
		return;
	lua_pop(lua, 1);
	if (luaL_loadbuffer(
		lua, (const char *)text.data, text.bytes, "script") != 0) {
		fprintf(stderr, "%s\n", lua_tostring(lua, -1));
		abort();
	}
	lua_pushvalue(lua, -1);
	lua_rawseti(lua, LUA_REGISTRYINDEX, (int)(hash >> 2) + 100);
}

static struct reply take_table(int index);

/* What a script returned, at `index` of the stack. */
static struct reply
take_value(int index)
{
	struct slice text;

	switch (lua_type(lua, index)) {
	case LUA_TNUMBER:
		return reply_integer(
		    (uint64_t)(int64_t)lua_tonumber(lua, index));
	case LUA_TSTRING:
		text.data =
		    (const uint8_t *)lua_tolstring(lua, index, &text.bytes);
		return reply_copy(REPLY_TEXT, text);
	case LUA_TTABLE:
		return take_table(index);
	default:
		return (struct reply){0};
	}
}

static struct reply
take_table(int index)
{
	struct reply reply;
	size_t count = lua_objlen(lua, index);

	lua_getfield(lua, index, "err");
	if (lua_isstring(lua, -1)) {
		reply = take_value(lua_gettop(lua));
		reply.type = REPLY_ERROR;
		lua_pop(lua, 1);
		return reply;
	}
	lua_pop(lua, 1);
	reply = reply_array(count);
	for (size_t i = 0; i < count; i++) {
		lua_rawgeti(lua, index, (int)i + 1);
		reply.items[reply.count++] = take_value(lua_gettop(lua));
		lua_pop(lua, 1);
	}
	return reply;
}

static void
set_arguments(
    const char *name, const struct model_command *command, size_t at, size_t to)
{
	lua_newtable(lua);
	for (size_t i = at; i < to; i++) {
		lua_pushlstring(lua, (const char *)command->argument[i].data,
		    command->argument[i].bytes);
		lua_rawseti(lua, -2, (int)(i - at) + 1);
	}
	lua_setglobal(lua, name);
}

static struct reply
run(struct link *link, const struct model_command *command, struct slice text)
{
	size_t keys = read_number(command->argument[2]);
	struct reply reply;

	push_script(text);
	set_arguments("KEYS", command, 3, 3 + keys);
	set_arguments("ARGV", command, 3 + keys, command->count);
	running = link;
	if (lua_pcall(lua, 0, 1, 0) != 0) {
		fprintf(stderr, "a script: %s\n", lua_tostring(lua, -1));
		abort();
	}
	reply = take_value(1);
	lua_settop(lua, 0);
	return reply;
}

/* All scripts that there ever were, by their made-up SHA-1. */
static struct {
	char sha1[SHA1_BYTES + 1];
	char *text;
} known[MODEL_SCRIPTS];
static size_t known_count;

static size_t
know(struct slice text)
{
	size_t i = 0;

	while (i < known_count && !slice_is(text, known[i].text))
		i++;
	if (i < known_count)
		return i;
	if (i == MODEL_SCRIPTS)
		abort();
	snprintf(known[i].sha1, sizeof(known[i].sha1), "%040lx",
	    (unsigned long)hash_of(text));
	known[i].text = slice_dup(text);
	known_count++;
	return i;
}

static struct reply
load(struct model *model, struct slice text)
{
	size_t i = know(text);

	if (model->script_count == MODEL_SCRIPTS)
		model->script_count = 0;
	model->scripts[model->script_count++] = (uint32_t)i;
	return reply_copy(REPLY_TEXT, slice_of(known[i].sha1));
}

struct reply
model_run_script(struct link *link, const struct model_command *command)
{
	struct model *model = link->model;
	struct slice name = command->argument[0], text = command->argument[1];

	if (lua == NULL)
		open_lua();
	if (slice_is(name, "SCRIPT"))
		return load(model, command->argument[2]);
	if (slice_is(name, "EVAL"))
		return run(link, command, text);
	for (size_t i = 0; i < model->script_count; i++) {
		size_t at = model->scripts[i];

		if (slice_is(text, known[at].sha1))
			return run(link, command, slice_of(known[at].text));
	}
	return reply_copy(REPLY_ERROR, slice_of("NOSCRIPT no such script"));
}
