#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listener.h"
#include "sys.h"

int
listener_open(struct listener *listener)
{
	struct sockaddr_in address = sys_loopback(listener->port);
	int error;

	if (listener->fd >= 0)
		return 0;
	listener->fd = sys_socket();
	sys_set_option(listener->fd, SOL_SOCKET, SO_REUSEADDR);
	if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) ==
		0 &&
	    listen(listener->fd, SOMAXCONN) == 0)
		return 0;
	error = errno;
	listener_close(listener);
	errno = error;
	return PORT_TAKEN;
}

void
listener_close(struct listener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = -1;
}

int
listener_clear(struct listener *listener)
{
	for (enum direction d = UP; d < DIRECTIONS; d++) {
		listener->link[d] = (struct link){
		    .cut_after = NEVER, .bytes = listener->link[d].bytes};
		for (struct conn *conn = listener->conns; conn;
		     conn = conn->next)
			conn->flow[d].left = NEVER;
	}
	return listener_open(listener);
}

int
listener_add(struct listener **list, const char *text)
{
	struct listener *listener = calloc(1, sizeof(*listener));

	if (listener == NULL)
		sys_die(text);
	while (*list != NULL)
		list = &(*list)->next;
	*list = listener;
	listener->fd = -1;
	if (sscanf(text, "%m[^=]=%" SCNu16 ":%" SCNu16, &listener->name,
		&listener->port, &listener->target) != 3)
		return -1;
	if (listener_clear(listener) != 0)
		sys_die(text);
	return 0;
}

void
listener_want(struct listener *listener, struct pollset *set)
{
	listener->place = pollset_add(set, listener->fd, POLLIN);
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		conn_want(conn, listener->link, set);
}

/* False: there is none to be accepted. */
static bool
accept_one(struct listener *listener)
{
	int fd =
	    accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct conn *conn;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		sys_die("accept");
	if (fd < 0)
		return false;
	conn = conn_open(fd, listener->target, listener->link);
	conn->next = listener->conns;
	listener->conns = conn;
	listener->accepted++;
	return true;
}

/* Frees what is closed, and lets the second connection be the first next
 * time: on a throttled link each has its turn. */
static void
tidy(struct listener *listener)
{
	struct conn **link = &listener->conns, *first;

	while (*link != NULL)
		if (conn_is_closed(*link)) {
			struct conn *closed = *link;

			*link = closed->next;
			conn_free(closed);
		} else {
			link = &(*link)->next;
		}
	first = listener->conns;
	if (first != NULL && first->next != NULL) {
		listener->conns = first->next;
		first->next = NULL;
		*link = first;
	}
}

void
listener_serve(struct listener *listener, const struct pollset *set)
{
	struct conn *conn;

	for (conn = listener->conns; conn != NULL; conn = conn->next)
		conn_serve(conn, listener->link, set);
	if (listener->fd >= 0 && pollset_events(set, listener->place) != 0)
		while (accept_one(listener))
			;
	tidy(listener);
}
