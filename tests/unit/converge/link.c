#include <stdlib.h>
#include <string.h>

#include "dice.h"
#include "model.h"
#include "server.h"

/* Of 100 commands to a server: it remembers what it has then. */
#define REMEMBERED 4

void
link_open(struct link *link, struct model *model)
{
	*link = (struct link){.model = model, .restarts = model->restarts};
}

void
link_close(struct link *link)
{
	for (size_t i = 0; i < LATE_COUNT; i++)
		buf_release(&link->late[i]);
	conn_close(&link->conn);
}

/* Parses the command at *at and moves on. */
static void
parse(const uint8_t **at, struct model_command *command)
{
	char *end;

	command->count = strtoul((const char *)*at + 1, &end, 10);
	if (command->count > MODEL_ARGUMENTS)
		abort();
	for (size_t i = 0; i < command->count; i++) {
		size_t bytes = strtoul(end + 3, &end, 10);

		command->argument[i] =
		    (struct slice){(const uint8_t *)end + 2, bytes};
		end += 2 + bytes;
	}
	*at = (const uint8_t *)end + 2;
}

struct slice
link_next(const uint8_t *at, size_t *replies)
{
	struct model_command command;
	struct slice bytes = {at, 0};

	*replies = 1;
	parse(&at, &command);
	if (slice_is(command.argument[0], "MULTI"))
		do {
			parse(&at, &command);
			++*replies;
		} while (!slice_is(command.argument[0], "EXEC"));
	bytes.bytes = (size_t)(at - bytes.data);
	return bytes;
}

static bool
is_join(const struct model_command *command)
{
	struct slice key = command->argument[1];

	return slice_is(command->argument[0], "ZADD") &&
	    (key_is(key, "box:") || key_is(key, "conv:") || key_is(key, "top"));
}

static void
run_late(struct link *link, struct buf *late)
{
	const uint8_t *at = late->data, *end = at + late->bytes;
	struct model_command command;
	struct reply reply;

	while (at < end) {
		parse(&at, &command);
		reply = model_run(link, &command);
		reply_release(&reply);
	}
	buf_reset(late);
}

/* Joins wait for the transaction after the one in which their mark is. */
static void
delay_joins(struct link *link)
{
	struct buf *late = link->late, last = late[LATE_COUNT - 1];

	run_late(link, &last);
	memmove(late + 1, late, (LATE_COUNT - 1) * sizeof(*late));
	late[0] = last;
}

void
link_flush(struct link *link)
{
	for (size_t i = LATE_COUNT; i-- > 0;)
		run_late(link, &link->late[i]);
}

static struct reply
run_inner(struct link *link, const uint8_t **at)
{
	const uint8_t *start = *at;
	struct model_command command;

	parse(at, &command);
	if (link->model->flaw != FLAW_LATE_JOINS || !is_join(&command))
		return model_run(link, &command);
	buf_append(&link->late[0], start, (size_t)(*at - start));
	return reply_integer(0);
}

/* `count` commands between MULTI and EXEC. */
static struct reply
run_exec(struct link *link, const uint8_t *at, size_t count)
{
	struct model *model = link->model;
	struct reply exec = reply_array(count);

	for (; exec.count < count; exec.count++)
		exec.items[exec.count] = run_inner(link, &at);
	if (model->flaw == FLAW_LATE_JOINS)
		delay_joins(link);
	return exec;
}

static void
run_transaction(struct link *link, const uint8_t *at, struct reply *replies)
{
	struct model *model = link->model;
	struct model_command command;
	const uint8_t *inner;
	size_t count = 0;

	parse(&at, &command);
	replies[0] = reply_status("OK");
	inner = at;
	for (parse(&at, &command); !slice_is(command.argument[0], "EXEC");
	     parse(&at, &command))
		replies[++count] = reply_status("QUEUED");
	replies[count + 1] = (struct reply){0};
	if (link->watched == model->generation || model->flaw == FLAW_NO_WATCH)
		replies[count + 1] = run_exec(link, inner, count);
}

static bool
run_on_server(
    struct link *link, struct slice bytes, size_t count, struct reply *replies)
{
	struct server *server = link->model->server;

	if (link->restarts != link->model->restarts ||
	    !server_run(link, bytes, count, replies))
		return false;
	if (chance(REMEMBERED))
		server_remember(server);
	return true;
}

bool
link_run(
    struct link *link, struct slice bytes, size_t count, struct reply *replies)
{
	const uint8_t *at = bytes.data;
	struct model_command command;

	if (link->model->server != NULL)
		return run_on_server(link, bytes, count, replies);
	if (link->restarts != link->model->restarts)
		return false;
	parse(&at, &command);
	if (slice_is(command.argument[0], "MULTI"))
		run_transaction(link, bytes.data, replies);
	else
		replies[0] = model_run(link, &command);
	model_remember(link->model);
	return true;
}
