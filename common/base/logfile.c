#include "base/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rotate.h"

/* A descriptor, and the size in *bytes; -1 EX_NOINPUT. */
static int
open_log(const struct logfile *log, uint64_t *bytes, struct err *err)
{
	/* O_NONBLOCK: a fifo of that name doesn't hold us up. */
	int fd = open(log->path,
	    O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
	    0640);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		err_set(err, EX_NOINPUT, "%s: %s", log->path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err_set(err, EX_NOINPUT, "%s: not a regular file", log->path);
	else {
		*bytes = (uint64_t)st.st_size;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static int
write_whole(int fd, const char *line, size_t bytes)
{
	ssize_t put;

	do
		put = write(fd, line, bytes);
	while (put < 0 && errno == EINTR);
	if (put >= 0 && (size_t)put < bytes)
		errno = ENOSPC;
	return put < 0 ? -1 : (size_t)put == bytes;
}

static int
append(struct logfile *log, int fd, const char *line, size_t bytes,
    struct err *err)
{
	int whole = 1;

	if (log->torn)
		whole = write_whole(fd, "\n", 1);
	if (whole == 1) {
		whole = write_whole(fd, line, bytes);
		log->torn = whole == 0;
	}
	if (whole != 1)
		return err_set(
		    err, EX_IOERR, "%s: %s", log->path, strerror(errno));
	return 0;
}

int
logfile_write(
    struct logfile *log, const char *line, size_t bytes, struct err *err)
{
	uint64_t size;
	int fd = open_log(log, &size, err), result;

	if (fd >= 0 && size > 0 && size + bytes > log->bytes_max) {
		close(fd);
		if (rotate_files(AT_FDCWD, log->path, log->files, err) < 0)
			return -1;
		log->torn = false;
		fd = open_log(log, &size, err);
	}
	if (fd < 0)
		return -1;
	result = append(log, fd, line, bytes, err);
	close(fd);
	return result;
}
