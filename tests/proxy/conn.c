#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "sys.h"

static void
close_end(struct conn *conn, enum direction end)
{
	if (conn->fd[end] >= 0)
		close(conn->fd[end]);
	conn->fd[end] = -1;
}

static void
close_both(struct conn *conn)
{
	for (enum direction d = UP; d < DIRECTIONS; d++) {
		flow_empty(&conn->flow[d]);
		close_end(conn, d);
	}
}

void
conn_reset(struct conn *conn)
{
	static const struct linger none = {.l_onoff = 1};

	for (enum direction end = UP; end < DIRECTIONS; end++)
		if (conn->fd[end] >= 0)
			setsockopt(conn->fd[end], SOL_SOCKET, SO_LINGER, &none,
			    sizeof(none));
	close_both(conn);
}

/* What the ends still send is read and dropped until they close too: to close
 * before would be a RST. */
void
conn_cut(struct conn *conn)
{
	for (enum direction d = UP; d < DIRECTIONS; d++) {
		flow_empty(&conn->flow[d]);
		if (conn->fd[d] >= 0 && shutdown(conn->fd[d], SHUT_WR) < 0)
			close_end(conn, d);
	}
	conn->state = CUT;
}

void
conn_forget(struct conn *conn)
{
	if (conn->state != CUT)
		conn->state = FORGOTTEN;
}

static void
connect_server(struct conn *conn, uint16_t target)
{
	struct sockaddr_in address = sys_loopback(target);

	conn->fd[DOWN] = sys_socket();
	conn->state = CONNECTING;
	sys_set_option(conn->fd[UP], IPPROTO_TCP, TCP_NODELAY);
	sys_set_option(conn->fd[DOWN], IPPROTO_TCP, TCP_NODELAY);
	if (connect(conn->fd[DOWN], (struct sockaddr *)&address,
		sizeof(address)) < 0 &&
	    errno != EINPROGRESS)
		conn_reset(conn);
}

struct conn *
conn_open(int fd, uint16_t target, const struct link *links)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (conn == NULL)
		sys_die("connection");
	conn->fd[UP] = fd;
	for (enum direction d = UP; d < DIRECTIONS; d++)
		flow_init(&conn->flow[d], &links[d]);
	connect_server(conn, target);
	return conn;
}

bool
conn_is_closed(const struct conn *conn)
{
	return conn->fd[UP] < 0 && conn->fd[DOWN] < 0;
}

void
conn_free(struct conn *conn)
{
	free(conn);
}

static short
end_events(const struct conn *conn, enum direction end,
    const struct link *links, struct pollset *set)
{
	bool reads, writes;
	uint64_t read_at_ns;

	if (conn->state == CUT)
		return POLLIN;
	if (conn->state == CONNECTING && end == DOWN)
		return POLLOUT;
	if (conn->state == FORGOTTEN)
		return 0;
	writes = conn->flow[!end].blocked && !links[!end].held;
	read_at_ns = flow_read_at(&conn->flow[end], &links[end]);
	reads = read_at_ns < sys_clock_ns();
	if (!reads)
		pollset_wake_at(set, read_at_ns);
	return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

void
conn_want(struct conn *conn, const struct link *links, struct pollset *set)
{
	for (enum direction d = UP; d < DIRECTIONS; d++) {
		conn->place[d] = pollset_add(
		    set, conn->fd[d], end_events(conn, d, links, set));
		if (conn->state == PASSING)
			pollset_wake_at(
			    set, flow_write_at(&conn->flow[d], &links[d]));
	}
}

static void
finish_connect(struct conn *conn)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	getsockopt(conn->fd[DOWN], SOL_SOCKET, SO_ERROR, &error, &bytes);
	if (error != 0)
		conn_reset(conn);
	else
		conn->state = PASSING;
}

/* After a cut: nothing but to wait for both ends. */
static void
drain_end(struct conn *conn, enum direction end)
{
	char dropped[4096];
	ssize_t bytes = read(conn->fd[end], dropped, sizeof(dropped));

	if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR))
		close_end(conn, end);
}

static void
read_end(struct conn *conn, enum direction end, struct link *link)
{
	struct flow *flow = &conn->flow[end];

	if (flow_read_at(flow, link) < sys_clock_ns() &&
	    flow_read(flow, link, conn->fd[end]) == FLOW_BROKEN)
		conn_reset(conn);
}

static void
serve_end(
    struct conn *conn, enum direction end, short events, struct link *links)
{
	if (events == 0 || conn->fd[end] < 0)
		return;
	if (conn->state == CUT) {
		drain_end(conn, end);
		return;
	}
	if ((events & (POLLOUT | POLLERR | POLLHUP)) != 0) {
		conn->flow[!end].blocked = false;
		if (conn->state == CONNECTING && end == DOWN)
			finish_connect(conn);
	}
	if ((events & (POLLIN | POLLERR | POLLHUP)) != 0 && conn->fd[end] >= 0)
		read_end(conn, end, &links[end]);
}

/* Writes what is due.  The end of the second direction ends the connection. */
static void
write_due(struct conn *conn, enum direction d, struct link *link)
{
	struct flow *flow = &conn->flow[d];

	while (conn->state == PASSING &&
	    flow_write_at(flow, link) <= sys_clock_ns())
		switch (flow_write(flow, link, conn->fd[!d])) {
		case FLOW_GOES_ON:
			break;
		case FLOW_SHUT:
			if (conn->flow[!d].shut)
				close_both(conn);
			break;
		case FLOW_SPENT:
			conn_cut(conn);
			break;
		case FLOW_BROKEN:
			conn_reset(conn);
			break;
		}
}

void
conn_serve(struct conn *conn, struct link *links, const struct pollset *set)
{
	for (enum direction d = UP; d < DIRECTIONS; d++)
		serve_end(conn, d, pollset_events(set, conn->place[d]), links);
	for (enum direction d = UP; d < DIRECTIONS; d++)
		write_due(conn, d, &links[d]);
}
