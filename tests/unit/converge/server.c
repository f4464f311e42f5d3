#include "server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis/conn.h"

#define ANSWER_MS 60000
#define START_MS 60000

void
server_die(const struct server *server, const char *what)
{
	fprintf(stderr, "redis-server in %s: %s\n", server->dir, what);
	exit(1);
}

static void
exec_server(const struct server *server)
{
	const char *append = server->append_only ? "yes" : "no";
	int log;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(server->dir) < 0)
		_exit(127);
	log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
	    server->socket, "--save", "", "--databases", "2", "--appendonly",
	    append, "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
	    "--aof-load-truncated", "no", "--enable-debug-command", "local",
	    "--loglevel", "warning", (char *)NULL);
	_exit(127);
}

static bool
is_loading(const struct reply *reply)
{
	return reply->type == REPLY_ERROR;
}

static bool
try_ping(struct server *server)
{
	static const char ping[] = "*1\r\n$4\r\nPING\r\n";
	struct slice bytes = slice_of(ping);
	struct model *model = server->link.model;
	struct reply reply;
	bool ready;

	link_close(&server->link);
	link_open(&server->link, model);
	if (!server_run(&server->link, bytes, 1, &reply))
		return false;
	ready = !is_loading(&reply);
	reply_release(&reply);
	return ready;
}

void
server_run_process(struct server *server)
{
	unlink(server->socket);
	server->pid = fork();
	if (server->pid == 0)
		exec_server(server);
	for (int ms = 0; !try_ping(server); ms++) {
		if (ms == START_MS || waitpid(server->pid, NULL, WNOHANG) != 0)
			server_die(server, "didn't start");
		usleep(1000);
	}
}

void
server_kill(struct server *server)
{
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
}

void
server_start(struct server *server, bool append_only)
{
	const char *under = getenv("TMPDIR");

	server->append_only = append_only;
	snprintf(server->dir, sizeof(server->dir), "%s/qim-converge.XXXXXX",
	    under == NULL || strlen(under) > 40 ? "/tmp" : under);
	if (mkdtemp(server->dir) == NULL)
		server_die(server, "no folder");
	snprintf(
	    server->socket, sizeof(server->socket), "%s/socket", server->dir);
	server->node = (struct node){
	    .text = (char *)"redis-server", .path = server->socket};
	server_run_process(server);
}

void
server_end(struct server *server)
{
	char command[96];

	link_close(&server->link);
	server_kill(server);
	for (; server->past_count > 0; server->past_count--)
		reply_release(&server->past[server->past_count - 1]);
	snprintf(command, sizeof(command), "rm -rf '%s'", server->dir);
	if (system(command) != 0)
		server_die(server, "can't be removed");
}

static bool
wait_for(struct conn *conn)
{
	struct pollfd wait = {conn_fd(conn), conn_events(conn), 0};
	struct err err;

	if (poll(&wait, 1, ANSWER_MS) <= 0)
		return false;
	if ((wait.revents & POLLOUT) != 0 && conn_write(conn, &err) < 0)
		return false;
	return (wait.revents & ~POLLOUT) == 0 || conn_read(conn, &err) == 0;
}

bool
server_run(
    struct link *link, struct slice bytes, size_t count, struct reply *replies)
{
	struct server *server = link->model->server;
	struct err err;
	size_t taken = 0;
	int more = 0;

	if (link->conn.context == NULL &&
	    conn_open(&link->conn, &server->node, &err) < 0)
		return false;
	conn_send(&link->conn, bytes);
	while (taken < count) {
		more = conn_reply(&link->conn, &replies[taken], &err);
		if (more < 0 || (more == 0 && !wait_for(&link->conn)))
			break;
		taken += (size_t)more;
	}
	if (taken == count)
		return true;
	while (taken > 0)
		reply_release(&replies[--taken]);
	return false;
}

/* Commands of the test's own, which can't fail; the last reply. */
static struct reply
call(struct server *server, struct commands *commands)
{
	size_t count = commands->count;
	struct reply *replies = calloc(count, sizeof(*replies));
	struct reply last;

	if (!server_run(
		&server->link, slice_of_buf(&commands->bytes), count, replies))
		server_die(server, "doesn't answer");
	for (size_t i = 0; i < count; i++)
		if (replies[i].type == REPLY_ERROR)
			server_die(server, (const char *)replies[i].text.data);
	last = replies[count - 1];
	for (size_t i = 0; i + 1 < count; i++)
		reply_release(&replies[i]);
	free(replies);
	commands_release(commands);
	return last;
}

void
server_do(struct server *server, struct commands *commands)
{
	struct reply reply = call(server, commands);

	reply_release(&reply);
}

struct reply
server_eval(struct server *server, const char *text, const char *argument)
{
	struct commands commands = {0};

	commands_add(&commands, "EVAL", text, "0", argument, (char *)NULL);
	return call(server, &commands);
}
