/*
 * positions - a file of lines "topic partition offset", as `mailbox-read
 * positions` prints it: where a chain is to go on.
 *
 * Fields are parted by blanks, a # begins a comment, empty lines are fine.
 */
#ifndef QIM_KAFKA_POSITIONS_H
#define QIM_KAFKA_POSITIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The longest file read. */
#define POSITIONS_FILE_BYTES ((size_t)16 << 20)

struct position {
	const char *topic; /* points into the file's text */
	int32_t partition;
	int64_t offset;
	unsigned line;
};

struct positions {
	char *text; /* owned */
	struct position *all; /* owned, sorted by topic and partition */
	size_t count;
};

/* -1: EX_NOINPUT can't be opened, EX_DATAERR a line that isn't one or a
 * partition given twice (with the line's number), EX_IOERR, EX_OSERR. */
int positions_read(
    struct positions *positions, const char *path, struct err *err);

/* A zero one is fine. */
void positions_release(struct positions *positions);

/* NULL: the file says nothing of it. */
const struct position *positions_find(
    const struct positions *positions, const char *topic, int32_t partition);

#endif
