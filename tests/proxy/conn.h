/*
 * conn - a connection that is passed on: two sockets, and a flow for each
 * direction between them.
 *
 * Its listener owns it, keeps it in a list, and gives it the links, which are
 * the listener's: links[UP] and links[DOWN].  It may close at any call; then
 * it stays as it is until it is freed, and no call does it harm.
 */
#ifndef QIM_TESTS_PROXY_CONN_H
#define QIM_TESTS_PROXY_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow.h"
#include "pollset.h"

enum conn_state {
	CONNECTING,
	PASSING,
	FORGOTTEN, /* held for good */
	CUT /* FIN was sent to both ends; waits for theirs */
};

/* Flow d reads end d and writes the other one. */
struct conn {
	struct conn *next; /* the listener's */
	struct flow flow[DIRECTIONS];
	int fd[DIRECTIONS]; /* client, server; -1 closed */
	size_t place[DIRECTIONS]; /* in the pollset */
	enum conn_state state;
};

/* From a client's socket, which is the connection's from now on, to the port
 * `target`.  Where connecting fails at once it is closed already. */
struct conn *conn_open(int fd, uint16_t target, const struct link *links);

/* Both ends are: conn_free() is next. */
bool conn_is_closed(const struct conn *conn);

/* One that is closed. */
void conn_free(struct conn *conn);

/* Adds what it waits for.  After the wait, and before any other call,
 * conn_serve() reads and writes what is there and due. */
void conn_want(
    struct conn *conn, const struct link *links, struct pollset *set);
void conn_serve(
    struct conn *conn, struct link *links, const struct pollset *set);

/* Holds it for good, whatever the links say; not one that was cut. */
void conn_forget(struct conn *conn);

/* FIN to both ends; what is kept is dropped. */
void conn_cut(struct conn *conn);

/* RST to both ends; it is closed then. */
void conn_reset(struct conn *conn);

#endif
