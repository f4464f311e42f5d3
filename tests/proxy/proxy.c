/*
 * proxy - TCP connections on the loopback, as bad as a test wants them.
 *
 *	proxy serve SOCKET NAME=PORT:TARGET ...
 *	proxy tell SOCKET NAME COMMAND [ARGUMENT] ...
 *
 * The first takes connections on 127.0.0.1:PORT and passes them on to
 * 127.0.0.1:TARGET; the second changes, through the unix socket SOCKET, how it
 * does that.  README.md has the commands.
 *
 * A rule belongs to a listener and a direction and holds for all connections,
 * those that are there already too.  What was read is kept with the time it
 * was read at, and written once its delay is over; reading goes on meanwhile,
 * so that a delay costs no throughput.  Each direction of a connection keeps
 * FLOW_BYTES at most, and then the sender feels it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/msg.h"
#include "base/opt.h"

#define SECOND_NS UINT64_C(1000000000)
#define NEVER UINT64_MAX

/* What a direction of a connection keeps: 40 MB/s at 100 ms. */
#define FLOW_BYTES ((size_t)4 << 20)
#define READ_BYTES 65536

/* A throttled link: the pieces it sends at a time, and how much waits. */
#define PIECES_A_SECOND 200
#define PIECE_BYTES_LEAST 64
#define LINK_QUEUE_NS (SECOND_NS / 20)

/* What a command returns beside 0, and -1 where it was called wrongly. */
#define PORT_TAKEN 1

#define COMMAND_BYTES 256
#define COMMAND_WORDS 4
#define TELL_SECONDS 10

/* From the client to the server, and back.  Flow d reads end d of its
 * connection and writes the other one. */
enum direction {
	UP,
	DOWN,
	DIRECTIONS
};

/* The rules for one direction of a listener. */
struct link {
	uint64_t delay_ns;
	uint64_t rate; /* bytes a second, 0: as fast as it goes */
	uint64_t free_ns; /* a throttled link is busy until then */
	uint64_t cut_after; /* bytes of a connection, or NEVER */
	uint64_t bytes; /* passed on */
	bool held;
};

/* Without bytes: the end of the stream. */
struct chunk {
	struct chunk *next;
	uint64_t at_ns; /* when it had passed the link, its delay aside */
	size_t bytes, sent;
	char data[];
};

struct flow {
	struct chunk *first, **last;
	size_t kept; /* bytes, the chunks' own included */
	uint64_t left; /* until the connection is cut */
	bool ended; /* the end was read */
	bool shut; /* and passed on */
	bool blocked; /* the receiver takes nothing now */
};

enum conn_state {
	CONNECTING,
	PASSING,
	FORGOTTEN,
	CUT
};

struct conn {
	struct conn *next;
	struct flow flow[DIRECTIONS];
	int fd[DIRECTIONS]; /* client, server; -1 closed */
	size_t poll_at;
	enum conn_state state;
};

struct listener {
	struct listener *next;
	const char *name;
	struct link link[DIRECTIONS];
	struct conn *conns;
	uint64_t accepted;
	uint16_t port, target;
	int fd; /* -1: connections are refused */
	size_t poll_at;
};

static struct listener *listeners;
static int control_fd;

static struct pollfd *polls;
static size_t poll_count, poll_room;
static uint64_t wake_ns; /* the next time something is due */

static uint64_t
clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void
die(const char *what)
{
	struct err err;

	err_set(&err, EX_OSERR, "%s: %s", what, strerror(errno));
	exit(msg_fail(&err));
}

static void
wake_at(uint64_t at_ns)
{
	if (at_ns < wake_ns)
		wake_ns = at_ns;
}

/* --- flows ---------------------------------------------------------------- */

static void
empty_flow(struct flow *flow)
{
	while (flow->first != NULL) {
		struct chunk *next = flow->first->next;

		free(flow->first);
		flow->first = next;
	}
	flow->last = &flow->first;
	flow->kept = 0;
}

/* Puts what was read behind the rest.  A throttled link takes its time. */
static void
keep(struct flow *flow, struct link *link, const char *data, size_t bytes)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + bytes);

	if (chunk == NULL)
		die("chunk");
	*chunk = (struct chunk){.at_ns = clock_ns(), .bytes = bytes};
	memcpy(chunk->data, data, bytes);
	if (link->rate > 0) {
		if (link->free_ns < chunk->at_ns)
			link->free_ns = chunk->at_ns;
		link->free_ns += bytes * SECOND_NS / link->rate;
		chunk->at_ns = link->free_ns;
	}
	*flow->last = chunk;
	flow->last = &chunk->next;
	flow->kept += sizeof(*chunk) + bytes;
}

static void
drop_first(struct flow *flow)
{
	struct chunk *chunk = flow->first;

	flow->kept -= sizeof(*chunk) + chunk->bytes;
	flow->first = chunk->next;
	if (flow->first == NULL)
		flow->last = &flow->first;
	free(chunk);
}

static size_t
read_size(const struct link *link)
{
	uint64_t piece = link->rate / PIECES_A_SECOND;

	if (link->rate == 0 || piece > READ_BYTES)
		return READ_BYTES;
	return piece < PIECE_BYTES_LEAST ? PIECE_BYTES_LEAST : (size_t)piece;
}

/* --- connections ---------------------------------------------------------- */

static void
close_end(struct conn *conn, int end)
{
	if (conn->fd[end] >= 0)
		close(conn->fd[end]);
	conn->fd[end] = -1;
}

static void
close_conn(struct conn *conn)
{
	for (int d = 0; d < DIRECTIONS; d++) {
		empty_flow(&conn->flow[d]);
		close_end(conn, d);
	}
}

/* RST to both ends. */
static void
reset_conn(struct conn *conn)
{
	static const struct linger none = {.l_onoff = 1};

	for (int end = 0; end < DIRECTIONS; end++)
		if (conn->fd[end] >= 0)
			setsockopt(conn->fd[end], SOL_SOCKET, SO_LINGER, &none,
			    sizeof(none));
	close_conn(conn);
}

/* FIN to both ends.  What they still send is read and dropped until they close
 * too: to close before would be a RST. */
static void
cut_conn(struct conn *conn)
{
	for (int d = 0; d < DIRECTIONS; d++) {
		empty_flow(&conn->flow[d]);
		if (conn->fd[d] >= 0 && shutdown(conn->fd[d], SHUT_WR) < 0)
			close_end(conn, d);
	}
	conn->state = CUT;
}

static bool
is_held(const struct conn *conn, const struct link *link)
{
	return link->held || conn->state == FORGOTTEN;
}

static bool
may_read(const struct conn *conn, enum direction d, const struct link *link)
{
	const struct flow *flow = &conn->flow[d];

	if (is_held(conn, link) || flow->ended || flow->kept >= FLOW_BYTES)
		return false;
	if (link->rate == 0 || link->free_ns < clock_ns() + LINK_QUEUE_NS)
		return true;
	wake_at(link->free_ns - LINK_QUEUE_NS);
	return false;
}

static void
read_flow(struct conn *conn, enum direction d, struct link *link)
{
	static char data[READ_BYTES];
	ssize_t bytes = read(conn->fd[d], data, read_size(link));

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes < 0) {
		reset_conn(conn);
		return;
	}
	keep(&conn->flow[d], link, data, (size_t)bytes);
	conn->flow[d].ended = bytes == 0;
}

/* The end of one direction; that of the second ends the connection. */
static void
pass_end(struct conn *conn, enum direction d)
{
	shutdown(conn->fd[!d], SHUT_WR);
	conn->flow[d].shut = true;
	drop_first(&conn->flow[d]);
	if (conn->flow[!d].shut)
		close_conn(conn);
}

/* Writes what it can of the first chunk. */
static void
pass_chunk(struct conn *conn, enum direction d, struct link *link)
{
	struct flow *flow = &conn->flow[d];
	struct chunk *chunk = flow->first;
	size_t bytes = chunk->bytes - chunk->sent;
	ssize_t sent;

	if (bytes > flow->left)
		bytes = (size_t)flow->left;
	sent =
	    send(conn->fd[!d], chunk->data + chunk->sent, bytes, MSG_NOSIGNAL);
	if (sent < 0) {
		flow->blocked = errno == EAGAIN;
		if (!flow->blocked && errno != EINTR)
			reset_conn(conn);
		return;
	}
	link->bytes += (uint64_t)sent;
	chunk->sent += (size_t)sent;
	if (chunk->sent == chunk->bytes)
		drop_first(flow);
	if (flow->left != NEVER && (flow->left -= (uint64_t)sent) == 0)
		cut_conn(conn);
}

/* Writes what is due. */
static void
write_flow(struct conn *conn, enum direction d, struct link *link)
{
	struct flow *flow = &conn->flow[d];

	while (conn->state == PASSING && !link->held && !flow->blocked &&
	    flow->first != NULL &&
	    flow->first->at_ns + link->delay_ns <= clock_ns()) {
		if (flow->first->bytes == 0)
			pass_end(conn, d);
		else
			pass_chunk(conn, d, link);
	}
}

static void
finish_connect(struct conn *conn)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	getsockopt(conn->fd[DOWN], SOL_SOCKET, SO_ERROR, &error, &bytes);
	if (error != 0)
		reset_conn(conn);
	else
		conn->state = PASSING;
}

/* After a cut: nothing but to wait for both ends. */
static void
drain_end(struct conn *conn, int end)
{
	char dropped[4096];
	ssize_t bytes = read(conn->fd[end], dropped, sizeof(dropped));

	if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR))
		close_end(conn, end);
}

static void
serve_end(struct conn *conn, int end, short events, struct link *links)
{
	enum direction in = end == UP ? UP : DOWN;

	if (events == 0 || conn->fd[end] < 0)
		return;
	if (conn->state == CUT) {
		drain_end(conn, end);
		return;
	}
	if ((events & (POLLOUT | POLLERR | POLLHUP)) != 0) {
		conn->flow[!in].blocked = false;
		if (conn->state == CONNECTING && end == DOWN)
			finish_connect(conn);
	}
	if ((events & (POLLIN | POLLERR | POLLHUP)) != 0 &&
	    conn->fd[end] >= 0 && may_read(conn, in, &links[in]))
		read_flow(conn, in, &links[in]);
}

static void
serve_conn(struct conn *conn, struct link *links)
{
	for (int end = 0; end < DIRECTIONS; end++)
		serve_end(conn, end, polls[conn->poll_at + (size_t)end].revents,
		    links);
	write_flow(conn, UP, &links[UP]);
	write_flow(conn, DOWN, &links[DOWN]);
}

/* --- listeners ------------------------------------------------------------ */

static struct sockaddr_in
loopback(uint16_t port)
{
	return (struct sockaddr_in){
	    .sin_family = AF_INET,
	    .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static int
new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	return fd;
}

static void
set_option(int fd, int level, int option)
{
	static const int on = 1;

	if (setsockopt(fd, level, option, &on, sizeof(on)) < 0)
		die("setsockopt");
}

/* 0, or PORT_TAKEN with errno. */
static int
open_listener(struct listener *listener)
{
	struct sockaddr_in address = loopback(listener->port);
	int error;

	if (listener->fd >= 0)
		return 0;
	listener->fd = new_socket();
	set_option(listener->fd, SOL_SOCKET, SO_REUSEADDR);
	if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) ==
		0 &&
	    listen(listener->fd, SOMAXCONN) == 0)
		return 0;
	error = errno;
	close(listener->fd);
	listener->fd = -1;
	errno = error;
	return PORT_TAKEN;
}

static void
connect_server(struct listener *listener, struct conn *conn)
{
	struct sockaddr_in address = loopback(listener->target);

	conn->fd[DOWN] = new_socket();
	conn->state = CONNECTING;
	set_option(conn->fd[UP], IPPROTO_TCP, TCP_NODELAY);
	set_option(conn->fd[DOWN], IPPROTO_TCP, TCP_NODELAY);
	if (connect(conn->fd[DOWN], (struct sockaddr *)&address,
		sizeof(address)) < 0 &&
	    errno != EINPROGRESS)
		reset_conn(conn);
}

static bool
accept_one(struct listener *listener)
{
	int fd =
	    accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct conn *conn;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		die("accept");
	if (fd < 0)
		return false;
	conn = calloc(1, sizeof(*conn));
	if (conn == NULL)
		die("connection");
	conn->fd[UP] = fd;
	for (int d = 0; d < DIRECTIONS; d++) {
		conn->flow[d].last = &conn->flow[d].first;
		conn->flow[d].left = listener->link[d].cut_after;
	}
	connect_server(listener, conn);
	conn->next = listener->conns;
	listener->conns = conn;
	listener->accepted++;
	return true;
}

static bool
is_closed(const struct conn *conn)
{
	return conn->fd[UP] < 0 && conn->fd[DOWN] < 0;
}

/* Frees what is closed, and lets the second connection be the first next
 * time: on a throttled link each has its turn. */
static void
tidy(struct listener *listener)
{
	struct conn **link = &listener->conns, *first;

	while (*link != NULL)
		if (is_closed(*link)) {
			struct conn *closed = *link;

			*link = closed->next;
			free(closed);
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

static void
serve_listener(struct listener *listener)
{
	struct conn *conn;

	for (conn = listener->conns; conn != NULL; conn = conn->next)
		serve_conn(conn, listener->link);
	if (listener->fd >= 0 && polls[listener->poll_at].revents != 0)
		while (accept_one(listener))
			;
	tidy(listener);
}

/* --- commands ------------------------------------------------------------- */

/* "0.5ms", "100us", "2s". */
static int
parse_time(const char *text, uint64_t *time_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *unit;
	double number = strtod(text, &unit);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (unit != text && strcmp(unit, units[i].name) == 0 &&
		    number >= 0 && number * units[i].ns <= 3600e9) {
			*time_ns = (uint64_t)(number * units[i].ns);
			return 0;
		}
	return -1;
}

static int
set_delay(struct listener *listener, enum direction d, const char *text)
{
	return parse_time(text, &listener->link[d].delay_ns);
}

static int
set_rate(struct listener *listener, enum direction d, const char *text)
{
	struct err err;

	listener->link[d].free_ns = 0;
	return opt_number("throttle", text, 0, UINT32_MAX, "bytes/s",
	    &listener->link[d].rate, &err);
}

static int
set_cut_after(struct listener *listener, enum direction d, const char *text)
{
	uint64_t bytes;
	struct err err;

	if (opt_number(
		"cut-after", text, 1, UINT32_MAX, "bytes", &bytes, &err) < 0)
		return -1;
	listener->link[d].cut_after = bytes;
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		conn->flow[d].left = bytes;
	return 0;
}

static int
set_hold(struct listener *listener, enum direction d, const char *text)
{
	(void)text;
	listener->link[d].held = true;
	return 0;
}

static int
set_resume(struct listener *listener, enum direction d, const char *text)
{
	(void)text;
	listener->link[d].held = false;
	return 0;
}

static int
do_cut(struct listener *listener)
{
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		cut_conn(conn);
	return 0;
}

static int
do_reset(struct listener *listener)
{
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		reset_conn(conn);
	return 0;
}

static int
do_forget(struct listener *listener)
{
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		if (conn->state != CUT)
			conn->state = FORGOTTEN;
	return 0;
}

static int
do_refuse(struct listener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = -1;
	return 0;
}

static int
do_clear(struct listener *listener)
{
	for (int d = 0; d < DIRECTIONS; d++) {
		listener->link[d] = (struct link){
		    .cut_after = NEVER, .bytes = listener->link[d].bytes};
		for (struct conn *conn = listener->conns; conn;
		     conn = conn->next)
			conn->flow[d].left = NEVER;
	}
	return open_listener(listener);
}

static const struct command {
	const char *name;
	int (*set)(struct listener *, enum direction, const char *);
	int (*run)(struct listener *);
	const char *value; /* what it is, where one is wanted */
} commands[] = {
    {"delay", set_delay, NULL, " TIME"},
    {"throttle", set_rate, NULL, " BYTES"},
    {"cut-after", set_cut_after, NULL, " BYTES"},
    {"hold", set_hold, NULL, NULL},
    {"resume", set_resume, NULL, NULL},
    {"cut", NULL, do_cut, NULL},
    {"reset", NULL, do_reset, NULL},
    {"forget", NULL, do_forget, NULL},
    {"refuse", NULL, do_refuse, NULL},
    {"listen", NULL, open_listener, NULL},
    {"clear", NULL, do_clear, NULL},
};

/* Sets *first and *end so that d from first to below end are meant. */
static int
parse_direction(const char *text, int *first, int *end)
{
	bool both = strcmp(text, "both") == 0;

	if (!both && strcmp(text, "up") != 0 && strcmp(text, "down") != 0)
		return -1;
	*first = strcmp(text, "down") == 0 ? DOWN : UP;
	*end = both ? DIRECTIONS : *first + 1;
	return 0;
}

static int
run_command(const struct command *command, struct listener *listener,
    char **words, int count)
{
	int first, end;

	if (command->run != NULL)
		return count == 2 ? command->run(listener) : -1;
	if (count != (command->value != NULL ? 4 : 3) ||
	    parse_direction(words[2], &first, &end) < 0)
		return -1;
	for (int d = first; d < end; d++)
		if (command->set(listener, d == UP ? UP : DOWN, words[3]) < 0)
			return -1;
	return 0;
}

static const struct command *
find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static bool
is_meant(const struct listener *listener, const char *name)
{
	return strcmp(name, listener->name) == 0 || strcmp(name, "all") == 0;
}

static size_t
waiting(const struct flow *flow)
{
	size_t bytes = 0;

	for (const struct chunk *c = flow->first; c != NULL; c = c->next)
		bytes += c->bytes - c->sent;
	return bytes;
}

/* Counts of the named listener, or of all together. */
static void
show(const char *name, char *answer)
{
	uint64_t accepted = 0, up = 0, down = 0;
	size_t count = 0, kept = 0;

	for (struct listener *l = listeners; l != NULL; l = l->next) {
		if (!is_meant(l, name))
			continue;
		accepted += l->accepted;
		up += l->link[UP].bytes;
		down += l->link[DOWN].bytes;
		for (struct conn *conn = l->conns; conn; conn = conn->next) {
			count++;
			kept += waiting(&conn->flow[UP]) +
			    waiting(&conn->flow[DOWN]);
		}
	}
	snprintf(answer, COMMAND_BYTES,
	    "ok connections=%zu accepted=%" PRIu64 " up=%" PRIu64
	    " down=%" PRIu64 " kept=%zu",
	    count, accepted, up, down, kept);
}

static void
refuse(const struct command *command, char *answer, int result)
{
	if (result == PORT_TAKEN)
		snprintf(answer, COMMAND_BYTES, "error: %s: its port is taken",
		    command->name);
	else
		snprintf(answer, COMMAND_BYTES, "error: wants NAME %s%s%s",
		    command->name, command->set != NULL ? " up|down|both" : "",
		    command->value != NULL ? command->value : "");
}

/* NAME COMMAND [DIRECTION [VALUE]] */
static void
obey(char **words, int count, char *answer)
{
	const struct command *command =
	    count < 2 ? NULL : find_command(words[1]);
	bool is_show = count == 2 && strcmp(words[1], "show") == 0;
	size_t found = 0;
	int result;

	snprintf(answer, COMMAND_BYTES, "error: no such command");
	if (command == NULL && !is_show)
		return;
	for (struct listener *l = listeners; l != NULL; l = l->next) {
		if (!is_meant(l, words[0]))
			continue;
		found++;
		result = is_show ? 0 : run_command(command, l, words, count);
		if (result == 0)
			continue;
		refuse(command, answer, result);
		return;
	}
	if (is_show && found > 0)
		show(words[0], answer);
	else
		snprintf(answer, COMMAND_BYTES,
		    found > 0 ? "ok" : "error: no such name");
}

/* One datagram, one command; answered where the sender has an address. */
static void
serve_control(void)
{
	char text[COMMAND_BYTES], answer[COMMAND_BYTES];
	char *words[COMMAND_WORDS + 1] = {NULL}, *rest = NULL;
	struct sockaddr_un from;
	socklen_t from_bytes = sizeof(from);
	ssize_t bytes = recvfrom(control_fd, text, sizeof(text) - 1, 0,
	    (struct sockaddr *)&from, &from_bytes);
	int count = 0;

	if (bytes < 0)
		return;
	text[bytes] = '\0';
	while (count <= COMMAND_WORDS &&
	    (words[count] = strtok_r(count ? NULL : text, " \n", &rest)) !=
		NULL)
		count++;
	obey(words, count, answer);
	sendto(control_fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL,
	    (struct sockaddr *)&from, from_bytes);
}

/* --- the loop ------------------------------------------------------------- */

/* Where nothing is wanted of it poll(2) must not look at it: a peer that hung
 * up would be told of at once, again and again. */
static void
add_poll(int fd, short events)
{
	if (poll_count == poll_room) {
		poll_room = poll_room == 0 ? 64 : poll_room * 2;
		polls = realloc(polls, poll_room * sizeof(*polls));
		if (polls == NULL)
			die("poll");
	}
	polls[poll_count++] =
	    (struct pollfd){.fd = events == 0 ? -1 : fd, .events = events};
}

static short
end_events(const struct conn *conn, int end, const struct link *links)
{
	enum direction in = end == UP ? UP : DOWN;
	const struct flow *out = &conn->flow[!in];
	bool write;

	if (conn->state == CUT)
		return POLLIN;
	if (conn->state == CONNECTING && end == DOWN)
		return POLLOUT;
	write = out->blocked && !is_held(conn, &links[!in]);
	return (short)((may_read(conn, in, &links[in]) ? POLLIN : 0) |
	    (write ? POLLOUT : 0));
}

static void
add_conn(struct conn *conn, const struct link *links)
{
	conn->poll_at = poll_count;
	for (int d = 0; d < DIRECTIONS; d++) {
		const struct flow *flow = &conn->flow[d];

		add_poll(conn->fd[d], end_events(conn, d, links));
		if (conn->state == PASSING && !links[d].held &&
		    !flow->blocked && flow->first != NULL)
			wake_at(flow->first->at_ns + links[d].delay_ns);
	}
}

static void
wait_for_work(void)
{
	struct timespec timeout, *wait = NULL;
	uint64_t now_ns;

	poll_count = 0;
	wake_ns = NEVER;
	add_poll(control_fd, POLLIN);
	for (struct listener *l = listeners; l != NULL; l = l->next) {
		l->poll_at = poll_count;
		add_poll(l->fd, POLLIN);
		for (struct conn *conn = l->conns; conn; conn = conn->next)
			add_conn(conn, l->link);
	}
	if (wake_ns != NEVER) {
		now_ns = clock_ns();
		wake_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
		timeout.tv_sec = (time_t)(wake_ns / SECOND_NS);
		timeout.tv_nsec = (long)(wake_ns % SECOND_NS);
		wait = &timeout;
	}
	if (ppoll(polls, poll_count, wait, NULL) < 0 && errno != EINTR)
		die("ppoll");
}

static int
usage(void)
{
	fputs("usage: proxy serve SOCKET NAME=PORT:TARGET ...\n"
	      "       proxy tell SOCKET NAME COMMAND [ARGUMENT] ...\n",
	    stderr);
	return EX_USAGE;
}

/* NAME=PORT:TARGET */
static int
add_listener(const char *text)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct listener **last = &listeners;

	if (listener == NULL)
		die(text);
	while (*last != NULL)
		last = &(*last)->next;
	*last = listener;
	listener->fd = -1;
	if (sscanf(text, "%m[^=]=%" SCNu16 ":%" SCNu16, &listener->name,
		&listener->port, &listener->target) != 3)
		return usage();
	if (do_clear(listener) != 0)
		die(text);
	return 0;
}

static struct sockaddr_un
socket_address(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	strcpy(address.sun_path, path);
	return address;
}

static int
serve(const char *path, char **names)
{
	struct sockaddr_un address = socket_address(path);

	for (; *names != NULL; names++)
		if (add_listener(*names) != 0)
			return EX_USAGE;
	/* Timers of 50 us more than asked are what a process has else. */
	prctl(PR_SET_TIMERSLACK, 1);
	control_fd =
	    socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	unlink(path);
	if (control_fd < 0 ||
	    bind(control_fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die(path);
	for (;;) {
		wait_for_work();
		for (struct listener *l = listeners; l != NULL; l = l->next)
			serve_listener(l);
		if (polls[0].revents != 0)
			serve_control();
	}
}

static int
tell(const char *path, char **words)
{
	static const struct timeval patience = {.tv_sec = TELL_SECONDS};
	struct sockaddr_un address = socket_address(path);
	sa_family_t own = AF_UNIX; /* the kernel finds a name */
	char text[COMMAND_BYTES] = "", answer[COMMAND_BYTES];
	ssize_t bytes;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (; *words != NULL; words++) {
		size_t used = strlen(text);

		if ((size_t)snprintf(text + used, sizeof(text) - used, "%s ",
			*words) >= sizeof(text) - used)
			return usage();
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(fd, text, strlen(text), 0) < 0 ||
	    (bytes = recv(fd, answer, sizeof(answer) - 1, 0)) < 0)
		die(path);
	answer[bytes] = '\0';
	puts(answer);
	return strncmp(answer, "ok", 2) == 0 ? EX_OK : 1;
}

int
main(int argc, char **argv)
{
	msg_init(argv[0]);
	signal(SIGPIPE, SIG_IGN);
	if (argc >= 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2], argv + 3);
	if (argc >= 5 && strcmp(argv[1], "tell") == 0)
		return tell(argv[2], argv + 3);
	return usage();
}
