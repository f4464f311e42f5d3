#include "redis/script.h"

#include <stdio.h>
#include <stdlib.h>

/* Arguments before the first key: EVALSHA, sha1, number of keys. */
#define KEY_ARGUMENT 3

void
script_begin(struct commands *commands, const struct script *script,
    uint32_t keys, uint32_t arguments)
{
	bool known = *script->sha1 != '\0';

	commands_begin(commands, KEY_ARGUMENT + keys + arguments,
	    known ? "EVALSHA" : "EVAL");
	commands_text(commands, known ? script->sha1 : script->text);
	commands_u64(commands, keys);
}

int
script_load(struct script *script, struct client *client, struct err *err)
{
	const struct reply *reply;

	commands_add(
	    &client->commands, "SCRIPT", "LOAD", script->text, (char *)NULL);
	if (client_call(client, err) < 0)
		return -1;
	reply = &client->replies[0];
	if (reply->type != REPLY_TEXT ||
	    reply->text.bytes != sizeof(script->sha1) - 1)
		return err_set(err, EX_DATAERR,
		    "redis %s: SCRIPT: not the reply of a Redis",
		    client->node->text);
	snprintf(script->sha1, sizeof(script->sha1), "%.*s",
	    (int)reply->text.bytes, (const char *)reply->text.data);
	return 0;
}

static bool
is_unknown(const struct reply *reply)
{
	static const char start[] = "NOSCRIPT";

	return reply->type == REPLY_ERROR &&
	    reply->text.bytes >= sizeof(start) - 1 &&
	    memcmp(reply->text.data, start, sizeof(start) - 1) == 0;
}

/* Appends call `index` of `calls` with the script's text. */
static void
add_whole(struct commands *commands, const struct commands *calls, size_t index,
    const char *text)
{
	struct slice argument;
	uint32_t argc = 0;

	while (commands_argument(calls, index, argc).data != NULL)
		argc++;
	commands_begin(commands, argc, "EVAL");
	commands_text(commands, text);
	for (uint32_t i = 2; i < argc; i++) {
		argument = commands_argument(calls, index, i);
		commands_slice(commands, argument);
	}
}

/* Sends again what was unknown; its replies take the place of the others. */
static int
send_whole(const struct script *script, struct client *client, struct err *err)
{
	struct commands calls = client->commands;
	struct reply *replies = client->replies;
	size_t count = client->reply_count, at = 0;
	int result;

	client->commands = (struct commands){0};
	client->replies = NULL;
	client->reply_count = 0;
	for (size_t i = 0; i < count; i++)
		if (is_unknown(&replies[i]))
			add_whole(&client->commands, &calls, i, script->text);
	result = client_send(client, err);
	for (size_t i = 0; i < count && result == 0; i++) {
		struct reply *again;

		if (!is_unknown(&replies[i]))
			continue;
		again = &client->replies[at++];
		reply_release(&replies[i]);
		replies[i] = *again;
		*again = (struct reply){0};
	}
	client_drop_replies(client);
	commands_release(&client->commands);
	client->commands = calls;
	client->replies = replies;
	client->reply_count = count;
	return result;
}

int
script_run(const struct script *script, struct client *client, struct err *err)
{
	int result = client_send(client, err);

	for (size_t i = 0; result == 0 && i < client->reply_count; i++)
		if (is_unknown(&client->replies[i])) {
			result = send_whole(script, client, err);
			break;
		}
	for (size_t i = 0; result == 0 && i < client->reply_count; i++)
		if (client->replies[i].type == REPLY_ERROR)
			result = client_refuse(client, &client->replies[i],
			    commands_argument(
				&client->commands, i, KEY_ARGUMENT),
			    err);
	commands_reset(&client->commands);
	return result;
}
