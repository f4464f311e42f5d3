#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/secret.h"

ssize_t
io_read(int fd, void *data, size_t bytes, struct err *err)
{
	ssize_t got;

	do
		got = read(fd, data, bytes);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_set(
		    err, EX_IOERR, "read of fd %d: %s", fd, strerror(errno));
	return got;
}

static int
wait_writable(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};

	return poll(&wait, 1, -1) < 0 && errno != EINTR ? -1 : 0;
}

static void
advance(struct iovec **pieces, int *count, size_t bytes)
{
	while (*count > 0 && bytes >= (*pieces)->iov_len) {
		bytes -= (*pieces)->iov_len;
		(*pieces)++;
		(*count)--;
	}
	if (*count > 0) {
		(*pieces)->iov_base = (char *)(*pieces)->iov_base + bytes;
		(*pieces)->iov_len -= bytes;
	}
}

int
io_write_all(int fd, struct iovec *pieces, int count, struct err *err)
{
	advance(&pieces, &count, 0);
	FAILPOINT_CUT(fd, pieces, count);
	while (count > 0) {
		ssize_t put = writev(fd, pieces, count);

		if (put >= 0)
			advance(&pieces, &count, (size_t)put);
		else if (errno == EAGAIN && wait_writable(fd) == 0)
			continue;
		else if (errno == EPIPE)
			return err_set(
			    err, EX_TEMPFAIL, "output: the reader is gone");
		else if (errno != EINTR)
			return err_set(err, EX_IOERR, "write to fd %d: %s", fd,
			    strerror(errno));
	}
	return 0;
}

bool
io_reader_gone(int fd)
{
	struct pollfd wait = {.fd = fd, .events = 0};

	return poll(&wait, 1, 0) == 1 && (wait.revents & POLLERR) != 0;
}

int
io_wait_readable(int fd, int timeout_ms, struct err *err)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int ready = poll(&wait, 1, timeout_ms);

	if (ready < 0 && errno != EINTR)
		return err_set(
		    err, EX_IOERR, "poll of fd %d: %s", fd, strerror(errno));
	return ready == 1;
}

int
io_close_output(int fd, struct err *err)
{
	if (close(fd) < 0 && errno != EINTR)
		return err_set(
		    err, EX_IOERR, "close of fd %d: %s", fd, strerror(errno));
	return 0;
}

static char *
read_rest(
    int fd, const char *path, size_t bytes_max, size_t *bytes, struct err *err)
{
	char *text = malloc(bytes_max + 2);
	size_t used = 0;
	ssize_t got = 1;

	if (text == NULL) {
		err_memory(err, path);
		return NULL;
	}
	while (got > 0 && used <= bytes_max) {
		got = io_read(fd, text + used, bytes_max + 1 - used, err);
		used += got > 0 ? (size_t)got : 0;
	}
	if (got >= 0 && used > bytes_max)
		got = err_set(err, EX_DATAERR, "%s: larger than %zu bytes",
		    path, bytes_max);
	if (got < 0) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	*bytes = used;
	return text;
}

char *
io_read_file(const char *path, size_t bytes_max, bool secret, size_t *bytes,
    struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | (secret ? O_NOFOLLOW : 0));
	char *text = NULL;

	if (fd < 0) {
		err_set(err, EX_NOINPUT, "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!secret ||
	    (secret_check(fd, path, err) == 0 && secret_hide(err) == 0))
		text = read_rest(fd, path, bytes_max, bytes, err);
	close(fd);
	return text;
}
