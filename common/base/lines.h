/*
 * lines - text lines from a file descriptor, however they arrive.
 */
#ifndef QIM_BASE_LINES_H
#define QIM_BASE_LINES_H

#include "base/buf.h"
#include "base/err.h"

struct line_reader {
	int fd;
	size_t bytes_max; /* of longer lines the rest is passed over */
	uint64_t number; /* of the line given last, from 1 */
	struct buf data;
	size_t at; /* where the next line starts in data */
	bool eof;
};

enum line_result {
	LINE_EOF,
	LINE_AGAIN, /* no whole line yet: call again when fd is readable */
	LINE_READY,
	LINE_TOO_LONG, /* given are the first bytes_max of a longer line */
};

void line_reader_init(struct line_reader *reader, int fd, size_t bytes_max);
void line_reader_release(struct line_reader *reader);

/* True when a call may give a line without reading. */
bool line_reader_pending(const struct line_reader *reader);

/* At most one read(2).  The line is without its newline, and good until the
 * next call; the last one needs no newline.  -1: EX_IOERR, EX_OSERR. */
int line_read(struct line_reader *reader, struct slice *line, struct err *err);

#endif
