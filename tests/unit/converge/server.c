#include "server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dice.h"
#include "redis/conn.h"

#define ANSWER_MS 60000
#define START_MS 60000

static void
die(const struct server *server, const char *what)
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
	    "--enable-debug-command", "local", "--loglevel", "warning",
	    (char *)NULL);
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

static void
run_process(struct server *server)
{
	unlink(server->socket);
	server->pid = fork();
	if (server->pid == 0)
		exec_server(server);
	for (int ms = 0; !try_ping(server); ms++) {
		if (ms == START_MS || waitpid(server->pid, NULL, WNOHANG) != 0)
			die(server, "didn't start");
		usleep(1000);
	}
}

static void
kill_process(struct server *server)
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
		die(server, "no folder");
	snprintf(
	    server->socket, sizeof(server->socket), "%s/socket", server->dir);
	server->node = (struct node){
	    .text = (char *)"redis-server", .path = server->socket};
	run_process(server);
}

void
server_end(struct server *server)
{
	char command[96];

	link_close(&server->link);
	kill_process(server);
	for (; server->past_count > 0; server->past_count--)
		reply_release(&server->past[server->past_count - 1]);
	snprintf(command, sizeof(command), "rm -rf '%s'", server->dir);
	if (system(command) != 0)
		die(server, "can't be removed");
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
		die(server, "doesn't answer");
	for (size_t i = 0; i < count; i++)
		if (replies[i].type == REPLY_ERROR)
			die(server, (const char *)replies[i].text.data);
	last = replies[count - 1];
	for (size_t i = 0; i + 1 < count; i++)
		reply_release(&replies[i]);
	free(replies);
	commands_release(commands);
	return last;
}

static void
do_all(struct server *server, struct commands *commands)
{
	struct reply reply = call(server, commands);

	reply_release(&reply);
}

static struct reply
run_text(struct server *server, const char *text, const char *argument)
{
	struct commands commands = {0};

	commands_add(&commands, "EVAL", text, "0", argument, (char *)NULL);
	return call(server, &commands);
}

void
server_remember(struct server *server)
{
	static const char dump[] =
	    "local all = {}\n"
	    "for _, key in ipairs(redis.call('KEYS', '*')) do\n"
	    "  all[#all + 1] = key\n"
	    "  all[#all + 1] = redis.call('DUMP', key)\n"
	    "end\n"
	    "return all\n";
	struct commands save = {0};

	if (server->append_only)
		return;
	if (server->past_count == SERVER_PAST) {
		reply_release(&server->past[0]);
		memmove(server->past, server->past + 1,
		    --server->past_count * sizeof(server->past[0]));
	}
	server->past[server->past_count++] = run_text(server, dump, "");
	if (!chance(20))
		return;
	commands_add(&save, "SAVE", (char *)NULL);
	do_all(server, &save);
	server->has_file = true;
}

static void
add_restore(struct commands *commands, const struct reply *past)
{
	for (size_t i = 0; past != NULL && i < past->count; i += 2) {
		commands_begin(commands, 4, "RESTORE");
		commands_slice(commands, past->items[i].text);
		commands_u64(commands, 0);
		commands_slice(commands, past->items[i + 1].text);
	}
}

/* past NULL: empty. */
static void
flush(struct server *server, const struct reply *past)
{
	struct commands commands = {0};

	commands_add(&commands, "MULTI", (char *)NULL);
	commands_add(&commands, "FLUSHALL", (char *)NULL);
	add_restore(&commands, past);
	commands_add(&commands, "EXEC", (char *)NULL);
	do_all(server, &commands);
}

static void
swap(struct server *server, const struct reply *past)
{
	struct commands commands = {0};

	commands_add(&commands, "SELECT", "1", (char *)NULL);
	commands_add(&commands, "FLUSHDB", (char *)NULL);
	add_restore(&commands, past);
	commands_add(&commands, "SWAPDB", "0", "1", (char *)NULL);
	commands_add(&commands, "SELECT", "0", (char *)NULL);
	do_all(server, &commands);
}

static void
reload(struct server *server)
{
	struct commands commands = {0};

	commands_add(&commands, "DEBUG", "RELOAD", "NOSAVE", (char *)NULL);
	do_all(server, &commands);
}

static off_t
append_bytes(const struct server *server, char path[128])
{
	struct stat stat_of;

	snprintf(path, 128, "%s/appendonlydir/appendonly.aof.1.incr.aof",
	    server->dir);
	if (stat(path, &stat_of) < 0)
		die(server, "no AOF");
	return stat_of.st_size;
}

/* The machine stops before the last bytes were on its disk. */
static void
lose_tail(struct server *server)
{
	char path[128];
	off_t bytes;

	kill_process(server);
	bytes = append_bytes(server, path) - server->least;
	if (truncate(path, server->least + random_below((uint32_t)bytes + 1)) <
	    0)
		die(server, "can't be cut");
	run_process(server);
}

/* What was remembered is of another data set than the one it has now. */
static void
forget(struct server *server)
{
	char path[128];

	for (; server->past_count > 0; server->past_count--)
		reply_release(&server->past[server->past_count - 1]);
	snprintf(path, sizeof(path), "%s/dump.rdb", server->dir);
	if (server->has_file)
		unlink(path);
	server->has_file = false;
}

static void
cut_connections(struct server *server)
{
	struct commands commands = {0};

	commands_add(
	    &commands, "CLIENT", "KILL", "TYPE", "normal", (char *)NULL);
	do_all(server, &commands);
}

static const struct reply *
choose_past(const struct server *server, bool may_be_empty)
{
	if (server->past_count == 0 || (may_be_empty && chance(20)))
		return NULL;
	return &server->past[random_below((uint32_t)server->past_count)];
}

void
server_lose(struct server *server, bool may_be_empty, bool keep)
{
	const struct reply *past = choose_past(server, may_be_empty);

	if (server->append_only && (!may_be_empty || chance(80))) {
		lose_tail(server);
		return;
	}
	if (past == NULL && !may_be_empty)
		return;
	if (server->has_file && chance(30)) {
		if (keep) {
			reload(server);
		} else {
			kill_process(server);
			run_process(server);
		}
	} else if (chance(50)) {
		flush(server, past);
	} else {
		swap(server, past);
	}
	if (!keep)
		cut_connections(server);
	forget(server);
}

void
server_clear(struct server *server)
{
	char path[128];

	forget(server);
	flush(server, NULL);
	if (server->append_only)
		server->least = append_bytes(server, path);
}

/* The days pass by making older what has a time. */
void
server_pass_days(struct server *server, uint32_t days)
{
	static const char age[] =
	    "local ms = ARGV[1] * 86400000\n"
	    "for _, key in ipairs(redis.call('KEYS', '*}:round:*')) do\n"
	    "  redis.call('DEL', key)\n"
	    "end\n"
	    "for _, key in ipairs(redis.call('KEYS', '*}:times')) do\n"
	    "  for _, mark in ipairs(redis.call('ZRANGE', key, 0, -1)) do\n"
	    "    redis.call('ZINCRBY', key, -ms, mark)\n"
	    "  end\n"
	    "end\n"
	    "for _, key in ipairs(redis.call('KEYS', '*}:device:*')) do\n"
	    "  local all = redis.call('HGETALL', key)\n"
	    "  for i = 1, #all, 2 do\n"
	    "    local ends, seen = all[i + 1]:match('^(.* )(%d+)$')\n"
	    "    redis.call('HSET', key, all[i],\n"
	    "      ends .. string.format('%.0f', seen - ms))\n"
	    "  end\n"
	    "end\n"
	    "return 1\n";
	char text[16], path[128];
	struct reply reply;

	snprintf(text, sizeof(text), "%u", (unsigned)days);
	reply = run_text(server, age, text);
	reply_release(&reply);
	forget(server);
	if (server->append_only)
		server->least = append_bytes(server, path);
}

/* A key's fields, members or value, each with what belongs to it. */
static void
read_key(struct model *model, struct slice key, const struct reply *all)
{
	struct slice none = {0};

	if (all->type == REPLY_TEXT) {
		model_put(model, key, none, none, read_number(all->text));
		return;
	}
	for (size_t i = 0; i + 2 < all->count; i += 3) {
		struct slice value = all->items[i + 1].text;

		if (slice_is(all->items[i].text, "zset"))
			model_put(model, key, all->items[i + 2].text, none,
			    read_number(value));
		else
			model_put(model, key, all->items[i + 2].text, value, 0);
	}
}

void
server_read(struct server *server, struct model *model)
{
	static const char script[] =
	    "local keys = {}\n"
	    "for _, key in ipairs(redis.call('KEYS', '*')) do\n"
	    "  local kind, all = redis.call('TYPE', key).ok, {}\n"
	    "  local pairs\n"
	    "  if kind == 'hash' then pairs = redis.call('HGETALL', key)\n"
	    "  elseif kind == 'zset' then\n"
	    "    pairs = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')\n"
	    "  else all = redis.call('GET', key) end\n"
	    "  for i = 1, pairs and #pairs or 0, 2 do\n"
	    "    all[#all + 1] = kind\n"
	    "    all[#all + 1] = pairs[i + 1]\n"
	    "    all[#all + 1] = pairs[i]\n"
	    "  end\n"
	    "  keys[#keys + 1] = key\n"
	    "  keys[#keys + 1] = all\n"
	    "end\n"
	    "return keys\n";
	struct reply keys = run_text(server, script, "");

	model->data.count = 0;
	for (size_t i = 0; i + 1 < keys.count; i += 2)
		read_key(model, keys.items[i].text, &keys.items[i + 1]);
	reply_release(&keys);
}
