/*
 * scan - every record that a topic's log holds now, once.
 *
 * Reads each partition from where the rule says up to what was its end when
 * the scan began; only records of committed transactions.  For a program that
 * looks at a log and is done: nothing is committed, no group is needed.
 */
#ifndef QIM_KAFKA_SCAN_H
#define QIM_KAFKA_SCAN_H

#include "kafka/consumer.h"

struct scan {
	struct consumer consumer;
	const char *topic; /* not owned */
	struct start_point *points; /* .offset moves on with the scan */
	uint32_t *index; /* of a partition's number into points */
	uint32_t count;
	uint32_t unfinished; /* partitions that aren't at their end */
};

enum scan_event {
	SCAN_NOTHING, /* within the time given */
	SCAN_RECORD,
	SCAN_END, /* all was read */
};

/* Finds the start and end of the partitions `numbers` (NULL: of all), and
 * begins to read them.  The rule is one of BEGINNING, END, OFFSET, TIME.
 * -1 as start_resolve_explicit(), EX_CONFIG no such partition.  A scan that
 * didn't begin may be released too. */
int scan_start(struct scan *scan, struct kafka_client *client,
    const char *topic, const uint32_t *numbers, size_t count,
    const struct start_rule *rule, uint64_t deadline_us, struct err *err);
void scan_release(struct scan *scan);

/* Waits for the next event, at most timeout_ms; -1 as consumer_poll(). */
int scan_next(struct scan *scan, int timeout_ms, struct consumer_item *item,
    struct err *err);

#endif
