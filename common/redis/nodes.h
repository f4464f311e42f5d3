/*
 * nodes - the static list of Redis nodes, from -r.
 *
 * Dispatch partition P lives on node P mod count, so the list's length and
 * order are part of the data: they stand beside every mark (mailbox.h).
 */
#ifndef QIM_REDIS_NODES_H
#define QIM_REDIS_NODES_H

#include <stdint.h>

#include "base/err.h"

#define NODES_COUNT_MAX 1024

struct node {
	char *text; /* as it was given: for messages */
	char *host; /* NULL: a unix socket */
	char *path; /* NULL: host and port */
	int port;
};

struct nodes {
	struct node *all;
	uint32_t count;
};

/* Takes "host:port,unix:/path,[::1]:port"; -1 EX_USAGE names the element,
 * and the caller releases nothing. */
int nodes_parse(const char *text, struct nodes *nodes, struct err *err);
void nodes_release(struct nodes *nodes);

#endif
