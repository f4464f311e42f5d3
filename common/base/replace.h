/*
 * replace - a small file written as a whole: a reader sees the old content or
 * the new one, never a part.
 */
#ifndef QIM_BASE_REPLACE_H
#define QIM_BASE_REPLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Writes PATH.new and renames it to PATH; mode 0640 less the umask, or with
 * `for_all` 0644.  Not synced: it is for readers of this host, not for the
 * next boot.
 * -1: EX_IOERR, EX_OSERR; then nothing has changed. */
int replace_file(const char *path, bool for_all, const void *data, size_t bytes,
    struct err *err);

#endif
