/*
 * How a server loses data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dice.h"
#include "server.h"

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
	server->past[server->past_count++] = server_eval(server, dump, "");
	if (!chance(20))
		return;
	commands_add(&save, "SAVE", (char *)NULL);
	server_do(server, &save);
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
	server_do(server, &commands);
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
	server_do(server, &commands);
}

static void
reload(struct server *server)
{
	struct commands commands = {0};

	commands_add(&commands, "DEBUG", "RELOAD", "NOSAVE", (char *)NULL);
	server_do(server, &commands);
}

off_t
server_append_bytes(const struct server *server, char path[128])
{
	struct stat stat_of;

	snprintf(path, 128, "%s/appendonlydir/appendonly.aof.1.incr.aof",
	    server->dir);
	if (stat(path, &stat_of) < 0)
		server_die(server, "no AOF");
	return stat_of.st_size;
}

/* As a person has to: where the end of an AOF is within a command of a
 * transaction, Redis 7.0 with aof-load-truncated takes away that command alone.
 * What it writes then is loaded as part of the open transaction: at the next
 * start it isn't there until the next EXEC, and then with commands that had
 * been lost. */
static void
repair(struct server *server)
{
	char command[224];

	snprintf(command, sizeof(command),
	    "cd '%s' && yes 2>>log | redis-check-aof --fix "
	    "appendonlydir/appendonly.aof.manifest >>log 2>&1",
	    server->dir);
	if (system(command) != 0)
		server_die(server, "can't be repaired");
}

/* The machine stops before the last bytes were on its disk. */
static void
lose_tail(struct server *server)
{
	char path[128];
	off_t bytes;

	server_kill(server);
	bytes = server_append_bytes(server, path) - server->least;
	if (truncate(path, server->least + random_below((uint32_t)bytes + 1)) <
	    0)
		server_die(server, "can't be cut");
	repair(server);
	server_run_process(server);
}

void
server_forget(struct server *server)
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
	server_do(server, &commands);
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
			server_kill(server);
			server_run_process(server);
		}
	} else if (chance(50)) {
		flush(server, past);
	} else {
		swap(server, past);
	}
	if (!keep)
		cut_connections(server);
	server_forget(server);
}

void
server_clear(struct server *server)
{
	char path[128];

	server_forget(server);
	flush(server, NULL);
	if (server->append_only)
		server->least = server_append_bytes(server, path);
}
