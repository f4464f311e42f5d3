/*
 * lineout - lines to a descriptor that may take nothing, e.g. stderr as a
 * pipe that nobody empties: never waits.
 *
 * Lines that can't go out yet are kept, up to LINEOUT_BYTES; what comes when
 * that is full, or can't be written, is dropped and counted, and a line says
 * so once there is room again.  Each line goes out whole, in one write(2).
 */
#ifndef QIM_BASE_LINEOUT_H
#define QIM_BASE_LINEOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINEOUT_BYTES ((size_t)256 << 10)

/* The longest line, with its newline: a pipe takes it whole. */
#define LINEOUT_LINE_BYTES 4096

struct lineout {
	int fd;
	bool own; /* fd was opened here, and doesn't block */
	uint64_t dropped; /* lines, not yet told */
	size_t at, bytes; /* what waits is data[at..bytes) */
	char data[LINEOUT_BYTES];
};

/* A fifo, pipe or terminal is opened again where that can be, so that only
 * this process doesn't block on it; else poll(2) is asked before each line. */
void lineout_init(struct lineout *out, int fd);
void lineout_release(struct lineout *out);

/* Puts in a line that ends with its newline, at most LINEOUT_LINE_BYTES; call
 * lineout_write() then. */
void lineout_add(struct lineout *out, const char *line, size_t bytes);

/* True when something waits for poll(2) to find fd writable. */
bool lineout_pending(const struct lineout *out);

/* Writes what the descriptor takes now; what it refuses is dropped. */
void lineout_write(struct lineout *out);

/* Writes the rest, as long as some of it goes out within each `wait_ms`. */
void lineout_finish(struct lineout *out, int wait_ms);

#endif
