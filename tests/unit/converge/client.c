/*
 * What redis/client.c is to the devices and the trim, with the model in place
 * of a connection: this file takes that one's place in the link.
 */
#include "redis/client.h"

#include <stdlib.h>

#include "dice.h"
#include "world.h"

/* In 1000 commands of a client: its end before, and its end after one. */
#define KILLED 15

#define REPLIES_MAX 512

static struct link *
link_of(struct client *client)
{
	return (struct link *)(void *)client->conn.context;
}

int
client_init(struct client *client, const struct node *node,
    const struct login *login, uint64_t timeout_ms, struct err *err)
{
	struct link *link = malloc(sizeof(*link));

	(void)err;
	link_open(link, &world.model);
	*client = (struct client){
	    .node = node, .login = login, .timeout_ms = timeout_ms};
	client->conn.context = (struct redisContext *)(void *)link;
	return 0;
}

void
client_drop_replies(struct client *client)
{
	for (size_t i = 0; i < client->reply_count; i++)
		reply_release(&client->replies[i]);
	free(client->replies);
	client->replies = NULL;
	client->reply_count = 0;
}

void
client_release(struct client *client)
{
	client_drop_replies(client);
	commands_release(&client->commands);
	if (link_of(client) != NULL)
		link_close(link_of(client));
	free(link_of(client));
	client->conn.context = NULL;
}

/* One command; false: the client is gone. */
static bool
run(struct client *client, struct slice bytes)
{
	struct link *link = link_of(client);
	uint32_t dice;

	world_between();
	dice = world.faults ? random_below(1000) : 1000;
	if (dice < KILLED / 2 ||
	    !link_run(link, bytes, 1, &client->replies[client->reply_count]))
		return false;
	client->reply_count++;
	return dice >= KILLED;
}

int
client_send(struct client *client, struct err *err)
{
	const uint8_t *at = client->commands.bytes.data;
	size_t replies;

	client_drop_replies(client);
	if (client->commands.count > REPLIES_MAX)
		abort();
	client->replies = calloc(REPLIES_MAX, sizeof(*client->replies));
	for (size_t i = 0; i < client->commands.count; i++) {
		struct slice bytes = link_next(at, &replies);

		if (!run(client, bytes)) {
			link_of(client)->restarts = UINT64_MAX;
			return err_set(err, EX_UNAVAILABLE, "gone");
		}
		at += bytes.bytes;
	}
	return 0;
}

int
client_refuse(const struct client *client, const struct reply *reply,
    struct slice key, struct err *err)
{
	(void)client;
	reply_error(reply, key, err);
	return -1;
}

int
client_call(struct client *client, struct err *err)
{
	int result = client_send(client, err);

	for (size_t i = 0; result == 0 && i < client->reply_count; i++)
		if (client->replies[i].type == REPLY_ERROR)
			result = client_refuse(client, &client->replies[i],
			    commands_argument(&client->commands, i, 1), err);
	commands_reset(&client->commands);
	return result;
}
