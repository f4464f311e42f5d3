/*
 * login - the user and password for all nodes, and what is checked first on
 * a node: that it answers, and that it keeps what it is given.
 */
#ifndef QIM_REDIS_LOGIN_H
#define QIM_REDIS_LOGIN_H

#include "base/err.h"
#include "redis/commands.h"

struct login {
	const char *user; /* NULL: the default user */
	char *password; /* NULL: none is sent; owned */
};

/* Reads the password's file (NULL: no password): its first line, and nothing
 * after it.  -1: as io_read_file(), EX_CONFIG empty or more than a line,
 * EX_USAGE a user without a password. */
int login_init(struct login *login, const char *user, const char *password_file,
    struct err *err);
void login_release(struct login *login); /* wipes the password */

/* Appends AUTH, where there is a password; its reply is OK. */
void login_commands(const struct login *login, struct commands *commands);

#endif
