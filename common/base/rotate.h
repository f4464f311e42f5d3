/*
 * rotate - a file and the older ones beside it: NAME, NAME.1, NAME.2, …, the
 * oldest last.
 *
 * Files move by rename(2) alone, so a process that appends to NAME by name
 * finds either the old one or the next, and one that has it open goes on
 * writing into what is NAME.1 by then.
 */
#ifndef QIM_BASE_ROTATE_H
#define QIM_BASE_ROTATE_H

#include <stdint.h>

#include "base/err.h"

/* Least and most of --files. */
#define ROTATE_FILES_LEAST 1
#define ROTATE_FILES_MOST 999

/*
 * Moves NAME to NAME.1 and each older one up by one; of `files` files in all
 * the oldest goes, and what is left of more in an earlier run, up to the first
 * number that isn't there.  `folder` is a descriptor or AT_FDCWD.
 * Nothing to do where NAME isn't there.
 * -1: EX_IOERR; EX_NOINPUT NAME isn't a regular file, and stays.
 */
int rotate_files(int folder, const char *name, uint64_t files, struct err *err);

/* A malloc()ed "NAME.k", "NAME" for 0; NULL when memory ran out. */
char *rotate_name(const char *name, uint64_t k);

#endif
