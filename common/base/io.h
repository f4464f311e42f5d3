/*
 * io - reading and writing file descriptors, where EINTR and short counts
 * live.  End of file, an error and data are three results.
 */
#ifndef QIM_BASE_IO_H
#define QIM_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"

/* One read(2), again after EINTR: bytes read, 0 at the end, -1 EX_IOERR. */
ssize_t io_read(int fd, void *data, size_t bytes, struct err *err);

/* Writes all of the pieces, whatever it takes; the array is used up.
 * 0, or -1: EX_TEMPFAIL when the reader is gone, else EX_IOERR. */
int io_write_all(int fd, struct iovec *pieces, int count, struct err *err);

/* True when nobody reads the pipe any more; never blocks. */
bool io_reader_gone(int fd);

/* Waits until `fd` can be read: 1 yes, 0 timeout or a signal, -1 error.
 * timeout_ms -1 waits for good. */
int io_wait_readable(int fd, int timeout_ms, struct err *err);

/* close(2) of an output, whose error is a write's; 0 or -1 EX_IOERR. */
int io_close_output(int fd, struct err *err);

/* Reads a whole file of at most `bytes_max` into a malloc()ed, NUL-ended
 * text the caller frees.  With `secret` the file must pass secret_check()
 * (EX_CONFIG), and is not followed as a link.
 * NULL: EX_NOINPUT it can't be opened, EX_DATAERR too large, EX_IOERR. */
char *io_read_file(const char *path, size_t bytes_max, bool secret,
    size_t *bytes, struct err *err);

#endif
