#include "redis/figures.h"

#include <stddef.h>

#define FAMILY(its_name, its_type, its_help) \
	{ \
		.name = its_name, .help = its_help, .type = its_type, \
		.labels = {{"node", ""}}, .is_family = 1 \
	}

struct figure mailbox_entries = FIGURE_COUNTS("qim_mailbox_entries_total",
    "Mailbox entries that were confirmed, one for each recipient.");
struct figure mailbox_repeats = FIGURE_COUNTS(
    "qim_repeats_total", "Dispatches that another offset had brought before.");
struct figure mailbox_skipped = FIGURE_COUNTS(
    "qim_skipped_total", "Records below the mark, which were done before.");
struct figure mailbox_quarantined = FIGURE_COUNTS("qim_quarantined_total",
    "Records in quarantine: conflicts, and what is no dispatch.");

struct figure redis_rounds =
    FAMILY("qim_redis_rounds_total", FIGURE_COUNTER, "Rounds confirmed.");
struct figure redis_round_seconds = FAMILY("qim_redis_round_seconds",
    FIGURE_HISTOGRAM, "Time of a round, from when it was sent.");
struct figure redis_in_flight = FAMILY("qim_redis_in_flight_rounds",
    FIGURE_GAUGE, "Connections that wait for an answer.");
struct figure redis_reconnects = FAMILY(
    "qim_redis_reconnects_total", FIGURE_COUNTER, "Connections made again.");
struct figure redis_rewinds = FAMILY("qim_redis_rewinds_total", FIGURE_COUNTER,
    "Connections lost with work that then starts again from the claims.");
struct figure redis_errors = {.name = "qim_redis_errors_total",
    .help = "Errors of a node, by kind.",
    .type = FIGURE_COUNTER,
    .labels = {{"node", ""}, {"kind", ""}},
    .is_family = 1};

static int
add(struct figure *family, const char *node, const char *kind,
    struct figure **series, struct err *err)
{
	const char *labels[] = {node, kind};

	*series = figure_add_series(family, labels, 0, 0, err);
	return *series == NULL ? -1 : 0;
}

int
node_figures_init(
    struct node_figures *figures, const char *node, struct err *err)
{
	static const char *const kinds[NODE_ERRORS] = {
	    [NODE_TRANSPORT] = "transport",
	    [NODE_REPLY] = "reply",
	    [NODE_SILENCE] = "silence",
	    [NODE_REPLICAS] = "replicas",
	    [NODE_LOST_DATA] = "lost_data"};

	for (int i = 0; i < NODE_ERRORS; i++)
		if (add(&redis_errors, node, kinds[i], &figures->errors[i],
			err) < 0)
			return -1;
	if (add(&redis_rounds, node, NULL, &figures->rounds, err) < 0 ||
	    add(&redis_round_seconds, node, NULL, &figures->round_seconds,
		err) < 0 ||
	    add(&redis_in_flight, node, NULL, &figures->in_flight, err) < 0 ||
	    add(&redis_reconnects, node, NULL, &figures->reconnects, err) < 0)
		return -1;
	return add(&redis_rewinds, node, NULL, &figures->rewinds, err);
}
