/*
 * start - where the reading of each partition begins.
 *
 * outbox-read alone decides it (offset-commit takes it from hello): from what
 * the group has committed, from a file of positions, or as it is told.  Never
 * by librdkafka's auto.offset.reset, which skips or repeats in silence:
 *
 *   stored, nothing for the whole topic	EX_CONFIG, unless --first says
 *   stored, nothing for some partitions	new ones: from their beginning
 *   @FILE					the lower of file and stored;
 *						as stored where it says nothing
 *   @FILE above 0, nothing for the whole topic	EX_CONFIG, unless --first is
 *						given: the topic was re-created
 *   outside of what the log holds		EX_DATAERR with the numbers
 */
#ifndef QIM_KAFKA_START_H
#define QIM_KAFKA_START_H

#include <stdint.h>

#include "base/err.h"
#include "kafka/client.h"
#include "kafka/positions.h"

enum start_where {
	START_STORED,
	START_BEGINNING,
	START_END,
	START_OFFSET, /* number: an offset */
	START_TIME, /* number: ms since 1970 */
	START_FILE, /* path */
	START_NONE, /* only for `first` */
};

struct start_rule {
	enum start_where where;
	int64_t number;
	const char *path; /* points into the text parsed */
	enum start_where first; /* BEGINNING or END, else NONE */
};

struct start_point {
	int32_t partition;
	int64_t offset;
	const char *how; /* hello's: "stored", "file", "first", "explicit" */
	int64_t low; /* the first offset the log holds */
	int64_t high; /* the next one to be written */
};

/* stored, beginning, end, N, s@MS or @FILE, each only where its bit (1 <<
 * START_x) is in `allowed`; -1 EX_USAGE says what is. */
int start_parse(const char *name, const char *text, unsigned allowed,
    struct start_rule *rule, struct err *err);

/*
 * Fills points[i].offset, how, low and high, of which .partition is given,
 * by the rule; `partitions` is how many the topic has.  A line says which
 * partitions are taken for new.  `has_group`: what is stored counts.
 * -1: EX_CONFIG nothing says where to start, EX_DATAERR outside the log,
 * EX_UNAVAILABLE not by the deadline, EX_NOPERM, EX_OSERR.
 */
int start_resolve(struct kafka_client *client, const struct start_rule *rule,
    const struct positions *positions, const char *topic, uint32_t partitions,
    uint64_t deadline_us, struct start_point *points, size_t count,
    struct err *err);

/* The same for partitions that the topic got while it was read: where the
 * rule is STORED or FILE and the group has stored an offset, from there, else
 * from their beginning, whatever the rule. */
int start_resolve_joined(struct kafka_client *client,
    const struct start_rule *rule, const char *topic, uint32_t partitions,
    uint64_t deadline_us, struct start_point *points, size_t count,
    struct err *err);

/* The same for one rule of BEGINNING, END, OFFSET or TIME. */
int start_resolve_explicit(struct kafka_client *client,
    const struct start_rule *rule, const char *topic, uint64_t deadline_us,
    struct start_point *points, size_t count, struct err *err);

#endif
