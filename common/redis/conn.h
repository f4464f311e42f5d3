/*
 * conn - one connection to a Redis node that never blocks.
 *
 * hiredis connects and parses; the bytes are written from the caller's own
 * buffer, so that a body is copied once on its way to the socket.  After any
 * error the connection must be closed: a late reply would be taken for that
 * of the next command.
 */
#ifndef QIM_REDIS_CONN_H
#define QIM_REDIS_CONN_H

#include "redis/nodes.h"
#include "redis/reply.h"

/* Zeros are a closed one. */
struct conn {
	struct redisContext *context; /* NULL: closed */
	struct slice out; /* what is still to be written; not owned */
	bool is_connected; /* it took something */
};

/* Begins to connect (a name is resolved before it returns); -1 EX_TEMPFAIL. */
int conn_open(struct conn *conn, const struct node *node, struct err *err);
void conn_close(struct conn *conn);

/* Hands over bytes that must stay as they are until all were answered. */
void conn_send(struct conn *conn, struct slice bytes);

/* For poll(2): the descriptor, -1 when closed, and the events wanted. */
int conn_fd(const struct conn *conn);
short conn_events(const struct conn *conn);

/* Each moves what it can; 0, or -1 EX_TEMPFAIL (EX_OSERR: no memory). */
int conn_write(struct conn *conn, struct err *err);
int conn_read(struct conn *conn, struct err *err);

/* Takes the next reply out of what was read, for the caller to release: 1,
 * 0 none is whole, -1 EX_TEMPFAIL. */
int conn_reply(struct conn *conn, struct reply *reply, struct err *err);

#endif
