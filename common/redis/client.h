/*
 * client - commands to one node, one group after the other, and waits for
 * their replies: for what isn't in a hurry.
 */
#ifndef QIM_REDIS_CLIENT_H
#define QIM_REDIS_CLIENT_H

#include "redis/conn.h"
#include "redis/login.h"

struct client {
	const struct node *node;
	const struct login *login;
	uint64_t timeout_ms;
	uint64_t notice_us; /* when to say that it isn't there; 0: never */
	struct conn conn;
	struct commands commands; /* to be filled for client_call() */
	struct reply *replies; /* of the last call */
	size_t reply_count;
};

/* Connects and logs in, and tries again for `timeout_ms` while the node isn't
 * there or can't answer yet; after a second a notice says so.  -1:
 * EX_UNAVAILABLE, EX_NOPERM, EX_CONFIG, EX_OSERR; the caller releases in any
 * case. */
int client_init(struct client *client, const struct node *node,
    const struct login *login, uint64_t timeout_ms, struct err *err);
void client_release(struct client *client);

/* For --check: that all nodes answer.  -1: as client_init(). */
int client_check_nodes(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, struct err *err);

/* Sends client->commands and empties it; replies[] holds its replies until
 * the next call.  -1: EX_UNAVAILABLE no answer, and for an error reply the
 * code of reply_error() with the key's name. */
int client_call(struct client *client, struct err *err);

/* Sends client->commands and leaves them; error replies are left in replies[]
 * too.  -1: EX_UNAVAILABLE. */
int client_send(struct client *client, struct err *err);

/* Frees the replies of the last call. */
void client_drop_replies(struct client *client);

/* Fills *err for an error reply, as client_call() does; returns -1. */
int client_refuse(const struct client *client, const struct reply *reply,
    struct slice key, struct err *err);

#endif
