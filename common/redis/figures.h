/*
 * figures - what mailbox-apply counts: qim-figures(5) says what each means.
 */
#ifndef QIM_REDIS_FIGURES_H
#define QIM_REDIS_FIGURES_H

#include "base/figures.h"

/* Of all partitions. */
extern struct figure mailbox_entries, mailbox_repeats, mailbox_skipped,
    mailbox_quarantined;

/* Families, a series for each node. */
extern struct figure redis_rounds, redis_round_seconds, redis_in_flight,
    redis_reconnects, redis_rewinds, redis_errors;

#define MAILBOX_FIGURES \
	&mailbox_entries, &mailbox_repeats, &mailbox_skipped, \
	    &mailbox_quarantined, &redis_rounds, &redis_round_seconds, \
	    &redis_in_flight, &redis_reconnects, &redis_rewinds, &redis_errors

enum node_error {
	NODE_TRANSPORT, /* not connected, closed, reset */
	NODE_REPLY, /* an error reply, or none of a Redis */
	NODE_SILENCE, /* no answer in time */
	NODE_REPLICAS, /* too few have what was written */
	NODE_LOST_DATA,
	NODE_ERRORS,
};

struct node_figures {
	struct figure *rounds, *round_seconds, *in_flight;
	struct figure *reconnects, *rewinds;
	struct figure *errors[NODE_ERRORS];
};

/* Makes the series of a node; -1 EX_OSERR. */
int node_figures_init(
    struct node_figures *figures, const char *node, struct err *err);

#endif
