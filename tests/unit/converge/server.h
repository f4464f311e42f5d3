/*
 * server - a redis-server of the test's own, in place of the model.
 *
 * It loses data as a real one does: its AOF or its RDB file is an older one
 * when it starts again after kill -9, it is flushed and restored, its
 * databases are swapped, it loads an older RDB file while it runs.
 */
#ifndef QIM_TESTS_CONVERGE_SERVER_H
#define QIM_TESTS_CONVERGE_SERVER_H

#include <sys/types.h>

#include "model.h"
#include "redis/nodes.h"

#define SERVER_PAST 8

struct server {
	bool append_only; /* else it has RDB files */
	char dir[64], socket[96];
	struct node node;
	pid_t pid;
	struct link link; /* the test's own */
	struct reply past[SERVER_PAST]; /* {key, value as by DUMP, ...} */
	size_t past_count;
	bool has_file; /* an RDB file, of this seed */
	off_t least; /* bytes of the AOF that stay: what was before */
};

/* Ends the process where it can't. */
void server_start(struct server *server, bool append_only);
void server_end(struct server *server);

/* Empty, and nothing of before can come back. */
void server_clear(struct server *server);

/* One command or transaction, with its replies; false: the connection is
 * gone. */
bool server_run(
    struct link *link, struct slice bytes, size_t count, struct reply *replies);

/* As those of the model. */
void server_remember(struct server *server);
void server_lose(struct server *server, bool may_be_empty, bool keep);
void server_pass_days(struct server *server, uint32_t days);

/* Fills the model's data set with all that the server has. */
void server_read(struct server *server, struct model *model);

/* For the files of the server. */

void server_die(const struct server *server, const char *what)
    __attribute__((noreturn));
void server_run_process(struct server *server);
void server_kill(struct server *server);

/* Commands of the test's own, which can't fail. */
void server_do(struct server *server, struct commands *commands);

/* A script without keys; the caller releases its reply. */
struct reply server_eval(
    struct server *server, const char *text, const char *argument);

/* What was remembered is of another data set than the one it has now. */
void server_forget(struct server *server);

off_t server_append_bytes(const struct server *server, char path[128]);

#endif
