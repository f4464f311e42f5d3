/*
 * source - the partitions that are read: which, and from where to where.
 *
 * Those of -p, which the topic must have, or all; of these it may get more
 * while it is read.
 */
#ifndef QIM_KAFKA_SOURCE_H
#define QIM_KAFKA_SOURCE_H

#include "kafka/start.h"

struct source {
	struct kafka_client *client; /* not owned, as all that follows */
	const char *topic;
	const struct start_rule *rule;
	const struct positions *positions;
	const char *chosen_text; /* -p; NULL: all partitions */
	uint32_t *chosen; /* the numbers in it, sorted */
	size_t chosen_count;
	bool at_end; /* -e: each ends where its log ends at the start */

	struct start_point *points; /* owned */
	int64_t *ends; /* owned, of each point; INT64_MAX: nowhere */
	uint32_t *index; /* owned, of a partition's number into points */
	uint32_t count;
	uint32_t topic_count; /* partitions of the topic, as last joined */
};

/* Finds the topic, and where each partition starts and ends, of a source
 * whose first fields are set; -v says it.
 * -1 as start_resolve(), EX_CONFIG the topic lacks a partition of -p. */
int source_find(struct source *source, uint64_t deadline_us, struct err *err);
void source_release(struct source *source);

/* The same check alone, for who knows already how many partitions the topic
 * has: -1 EX_CONFIG it lacks one of -p. */
int source_check_chosen(
    const struct source *source, uint32_t topic_count, struct err *err);

/* True when partitions that the topic gets are to be read too. */
bool source_can_grow(const struct source *source);

/*
 * Adds the partitions that the topic has got, up to topic_count, behind the
 * others; a notice says where each starts.  -1 as start_resolve_joined();
 * after EX_UNAVAILABLE and EX_TEMPFAIL nothing has changed, and it can be
 * tried again.
 */
int source_join(struct source *source, uint32_t topic_count,
    uint64_t deadline_us, struct err *err);

#endif
