#include "redis/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/msg.h"

#define RETRY_MS 50

/* Without a node for so long a person should know what is waited for. */
#define NOTICE_MS 1000

void
client_drop_replies(struct client *client)
{
	for (size_t i = 0; i < client->reply_count; i++)
		reply_release(&client->replies[i]);
	free(client->replies);
	client->replies = NULL;
	client->reply_count = 0;
}

static int
unavailable(const struct client *client, struct err *err)
{
	if (err->code == EX_TEMPFAIL)
		err->code = EX_UNAVAILABLE;
	return err_prefix(err, "redis %s", client->node->text);
}

/* Once, while a node is waited for. */
static void
note_wait(struct client *client, const char *why)
{
	if (client->notice_us == 0 || clock_us() < client->notice_us)
		return;
	client->notice_us = 0;
	msg_write(MSG_NOTICE,
	    "redis %s: not reachable yet: %s: waiting up to %llu ms",
	    client->node->text, why, (unsigned long long)client->timeout_ms);
}

/* Waits for the connection, and moves what it can. */
static int
move(struct client *client, uint64_t deadline_us, struct err *err)
{
	struct pollfd wait = {
	    conn_fd(&client->conn), conn_events(&client->conn), 0};
	int ready = poll(&wait, 1, clock_left_ms(deadline_us, 1000));

	if (ready < 0 && errno != EINTR)
		return err_set(err, EX_OSERR, "poll: %s", strerror(errno));
	if (ready <= 0 && clock_us() >= deadline_us)
		return err_set(err, EX_TEMPFAIL, "no answer within %llu ms",
		    (unsigned long long)client->timeout_ms);
	if (ready <= 0) {
		note_wait(client, "no answer");
		return 0;
	}
	if ((wait.revents & POLLOUT) != 0 && conn_write(&client->conn, err) < 0)
		return -1;
	if ((wait.revents & ~POLLOUT) != 0 && conn_read(&client->conn, err) < 0)
		return -1;
	return 0;
}

static int
exchange(struct client *client, uint64_t deadline_us, struct err *err)
{
	size_t want = client->commands.count;

	client_drop_replies(client);
	if (client->commands.bytes.failed)
		return err_memory(err, "commands");
	client->replies = calloc(want + 1, sizeof(*client->replies));
	if (client->replies == NULL)
		return err_memory(err, "replies");
	conn_send(&client->conn, slice_of_buf(&client->commands.bytes));
	while (client->reply_count < want) {
		struct reply *reply = &client->replies[client->reply_count];
		int more = conn_reply(&client->conn, reply, err);

		if (more < 0)
			return -1;
		client->reply_count += (size_t)more;
		if (more == 0 && move(client, deadline_us, err) < 0)
			return -1;
	}
	return 0;
}

/* Connects, logs in and asks for a sign of life: 0, 1 may pass, -1. */
static int
try_to_connect(struct client *client, uint64_t deadline_us, struct err *err)
{
	enum reply_fault fault;

	commands_reset(&client->commands);
	login_commands(client->login, &client->commands);
	commands_add(&client->commands, "PING", (char *)NULL);
	if (conn_open(&client->conn, client->node, err) < 0 ||
	    exchange(client, deadline_us, err) < 0)
		return err->code == EX_TEMPFAIL ? 1 : -1;
	for (size_t i = 0; i < client->reply_count; i++) {
		const struct reply *reply = &client->replies[i];

		if (reply->type != REPLY_ERROR)
			continue;
		fault = reply_error(reply, (struct slice){0}, err);
		if (fault == FAULT_WAIT)
			return 1;
		if (i == 0 && client->reply_count == 2)
			err->code = EX_NOPERM; /* AUTH, whatever it says */
		return -1;
	}
	return 0;
}

int
client_init(struct client *client, const struct node *node,
    const struct login *login, uint64_t timeout_ms, struct err *err)
{
	uint64_t start_us = clock_us();
	uint64_t deadline_us = start_us + 1000 * timeout_ms;
	int result;

	*client = (struct client){.node = node,
	    .login = login,
	    .timeout_ms = timeout_ms,
	    .notice_us = start_us + 1000 * (uint64_t)NOTICE_MS};
	while ((result = try_to_connect(client, deadline_us, err)) == 1) {
		conn_close(&client->conn);
		if (clock_us() >= deadline_us)
			break;
		note_wait(client, err->text);
		usleep(1000 * RETRY_MS);
	}
	client->notice_us = 0;
	commands_reset(&client->commands);
	return result == 0 ? 0 : unavailable(client, err);
}

void
client_release(struct client *client)
{
	client_drop_replies(client);
	conn_close(&client->conn);
	commands_release(&client->commands);
}

int
client_check_nodes(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, struct err *err)
{
	struct client client;
	int result = 0;

	for (uint32_t i = 0; i < nodes->count && result == 0; i++) {
		result = client_init(
		    &client, &nodes->all[i], login, timeout_ms, err);
		client_release(&client);
	}
	return result;
}

int
client_send(struct client *client, struct err *err)
{
	uint64_t deadline_us = clock_us() + 1000 * client->timeout_ms;
	int result = exchange(client, deadline_us, err);

	return result < 0 ? unavailable(client, err) : 0;
}

int
client_refuse(const struct client *client, const struct reply *reply,
    struct slice key, struct err *err)
{
	reply_error(reply, key, err);
	return unavailable(client, err);
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
