/*
 * logfile - lines appended to a file that is rotated by its size.
 *
 * The file is opened by name for each line: another process may append to it
 * by name too, and whoever renames or removes it, or makes its folder anew,
 * needs to tell nobody.  Costs some microseconds a line.
 */
#ifndef QIM_BASE_LOGFILE_H
#define QIM_BASE_LOGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct logfile {
	const char *path;
	uint64_t
	    bytes_max; /* a line that would exceed it goes into a new one */
	uint64_t files; /* as rotate_files() */
	bool torn; /* the last write was short: the file ends inside a line */
};

/* Appends a line, which has its newline, in one write(2).
 * -1: EX_NOINPUT it can't be opened or isn't a regular file; EX_IOERR it
 * can't be written whole or not be rotated. */
int logfile_write(
    struct logfile *log, const char *line, size_t bytes, struct err *err);

#endif
