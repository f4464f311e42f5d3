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
#include "kafka/source.h"

struct scan {
	struct source source; /* a point's offset moves on with the scan */
	struct consumer consumer;
	uint32_t unfinished; /* partitions that aren't at their end */
};

enum scan_event {
	SCAN_NOTHING, /* within the time given */
	SCAN_RECORD,
	SCAN_END, /* all was read */
};

/* Finds the start and end of each partition of the source, whose first
 * fields are set (at_end is set here), and begins to read.
 * -1 as source_find(); it may be released then too. */
int scan_start(struct scan *scan, uint64_t deadline_us, struct err *err);
void scan_release(struct scan *scan);

/* Waits for the next event, at most timeout_ms; -1 as consumer_poll(). */
int scan_next(struct scan *scan, int timeout_ms, struct consumer_item *item,
    struct err *err);

#endif
