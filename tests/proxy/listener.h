/*
 * listener - a port that takes connections for another one, its rules, and
 * the connections that came through it.
 *
 * The rules, `link`, hold for all its connections, those that are there
 * already too.
 */
#ifndef QIM_TESTS_PROXY_LISTENER_H
#define QIM_TESTS_PROXY_LISTENER_H

#include <stdint.h>

#include "conn.h"
#include "flow.h"
#include "pollset.h"

/* What listener_open() and listener_clear() return beside 0. */
#define PORT_TAKEN 1

/* Commands set link, and left of the connections' flows, and call what is in
 * conn.h for connections; the rest they only read. */
struct listener {
	struct listener *next;
	const char *name;
	struct link link[DIRECTIONS];
	struct conn *conns; /* in no order; a closed one may be among them */
	uint64_t accepted; /* connections, ever */
	uint16_t port, target;
	int fd; /* -1: connections are refused */
	size_t place; /* in the pollset */
};

/* Puts one more at the end of *list, from "NAME=PORT:TARGET", its port open
 * and without rules.  -1: the text is something else.  What was begun stays in
 * the list.  A port that is taken ends the program. */
int listener_add(struct listener **list, const char *text);

/* Opens the port, if it isn't; 0, or PORT_TAKEN with errno. */
int listener_open(struct listener *listener);

/* Closes it; connections stay. */
void listener_close(struct listener *listener);

/* No rules, and the port open: as listener_open(). */
int listener_clear(struct listener *listener);

/* Adds what it and its connections wait for.  After the wait, and before any
 * other call, listener_serve() does what there is to do, and frees the
 * connections that are closed. */
void listener_want(struct listener *listener, struct pollset *set);
void listener_serve(struct listener *listener, const struct pollset *set);

#endif
