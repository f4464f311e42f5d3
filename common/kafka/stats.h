/*
 * stats - librdkafka's own statistics, a JSON line each, into a file.
 *
 * They are there to be studied and never stop a delivery: the file is never
 * waited for, and where it doesn't take a line whole, a warning is written
 * and nothing more goes into it.
 */
#ifndef QIM_KAFKA_STATS_H
#define QIM_KAFKA_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stats {
	const char *path;
	int fd; /* -1: none, or not any more */
};

/* Opens the file for appending, makes it where it isn't there; -1 EX_NOINPUT.
 * `path` is kept, not copied. */
int stats_open(struct stats *stats, const char *path, struct err *err);

/* Appends one line; `json` is without a newline. */
void stats_write(struct stats *stats, const char *json, size_t bytes);

void stats_close(struct stats *stats);

#endif
