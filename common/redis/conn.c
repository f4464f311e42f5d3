#include "redis/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/failpoint.h"

/* Longest array believed: more than any command of ours can ask for. */
#define ITEMS_MAX (1 << 20)

/* Where a parsed object goes: into its array, or into one of its own. */
static struct reply *
place(const redisReadTask *task)
{
	struct reply *array = task->parent == NULL ? NULL : task->parent->obj;

	if (array != NULL)
		return &array->items[task->idx];
	return calloc(1, sizeof(struct reply));
}

/* The statuses that are asked for; they come once for each command. */
static struct slice
find_status(const char *text, size_t bytes)
{
	static const char *const known[] = {"QUEUED", "OK", "PONG"};
	struct slice slice = {(const uint8_t *)text, bytes};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (slice_is(slice, known[i]))
			return slice_of(known[i]);
	return slice_of("?");
}

static void *
make_string(const redisReadTask *task, char *text, size_t bytes)
{
	struct reply *reply = place(task);

	if (reply == NULL)
		return NULL;
	if (task->type == REDIS_REPLY_STATUS) {
		reply->type = REPLY_STATUS;
		reply->text = find_status(text, bytes);
		return reply;
	}
	reply->type =
	    task->type == REDIS_REPLY_ERROR ? REPLY_ERROR : REPLY_TEXT;
	reply->text.bytes = bytes;
	reply->text.data =
	    (uint8_t *)slice_dup((struct slice){(uint8_t *)text, bytes});
	if (reply->text.data != NULL)
		return reply;
	if (task->parent == NULL)
		free(reply);
	return NULL;
}

static void *
make_array(const redisReadTask *task, int count)
{
	struct reply *reply = place(task);

	if (reply == NULL)
		return NULL;
	reply->type = REPLY_ARRAY;
	reply->items = count > ITEMS_MAX
	    ? NULL
	    : calloc(count == 0 ? 1 : (size_t)count, sizeof(*reply));
	if (reply->items != NULL) {
		reply->count = (size_t)count;
		return reply;
	}
	if (task->parent == NULL)
		free(reply);
	return NULL;
}

static void *
make_integer(const redisReadTask *task, long long value)
{
	struct reply *reply = place(task);

	if (reply != NULL) {
		reply->type = REPLY_INTEGER;
		reply->integer = value;
	}
	return reply;
}

static void *
make_nil(const redisReadTask *task)
{
	struct reply *reply = place(task);

	if (reply != NULL)
		reply->type = REPLY_NIL;
	return reply;
}

static void
free_object(void *object)
{
	if (object != NULL)
		reply_release(object);
	free(object);
}

static redisReplyObjectFunctions functions = {
    make_string, make_array, make_integer, make_nil, free_object};

static int
fail(struct conn *conn, struct err *err)
{
	const redisContext *context = conn->context;

	if (context->err == REDIS_ERR_OOM)
		return err_memory(err, "reply");
	if (context->err == REDIS_ERR_EOF)
		return err_set(err, EX_TEMPFAIL, "connection closed");
	return err_set(err, EX_TEMPFAIL, "%s", context->errstr);
}

int
conn_open(struct conn *conn, const struct node *node, struct err *err)
{
	if (node->path != NULL)
		conn->context = redisConnectUnixNonBlock(node->path);
	else
		conn->context = redisConnectNonBlock(node->host, node->port);
	if (conn->context == NULL)
		return err_memory(err, "connection");
	if (conn->context->err != 0) {
		fail(conn, err);
		conn_close(conn);
		return err_prefix(err, "connect");
	}
	conn->context->reader->fn = &functions;
	(void)fcntl(conn->context->fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

void
conn_close(struct conn *conn)
{
	if (conn->context != NULL)
		redisFree(conn->context);
	*conn = (struct conn){0};
}

void
conn_send(struct conn *conn, struct slice bytes)
{
	conn->out = bytes;
}

int
conn_fd(const struct conn *conn)
{
	return conn->context == NULL ? -1 : conn->context->fd;
}

short
conn_events(const struct conn *conn)
{
	return conn->out.bytes > 0 ? POLLIN | POLLOUT : POLLIN;
}

int
conn_write(struct conn *conn, struct err *err)
{
	FAILPOINT_CUT(conn->context->fd,
	    (&(struct iovec){
		(void *)(uintptr_t)conn->out.data, conn->out.bytes}),
	    1);
	while (conn->out.bytes > 0) {
		ssize_t put = send(conn->context->fd, conn->out.data,
		    conn->out.bytes, MSG_NOSIGNAL);

		if (put >= 0) {
			conn->out.data += put;
			conn->out.bytes -= (size_t)put;
			conn->is_connected = true;
		} else if (errno == EAGAIN || errno == EINPROGRESS) {
			return 0;
		} else if (errno != EINTR) {
			return err_set(err, EX_TEMPFAIL, "%s: %s",
			    conn->is_connected ? "write" : "connect",
			    strerror(errno));
		}
	}
	return 0;
}

int
conn_read(struct conn *conn, struct err *err)
{
	if (redisBufferRead(conn->context) != REDIS_OK)
		return fail(conn, err);
	return 0;
}

int
conn_reply(struct conn *conn, struct reply *reply, struct err *err)
{
	void *object = NULL;

	if (redisGetReplyFromReader(conn->context, &object) != REDIS_OK)
		return fail(conn, err);
	if (object == NULL)
		return 0;
	*reply = *(struct reply *)object;
	free(object);
	return 1;
}
