#include "base/lineout.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/msg.h"

/* Room kept for the line that tells of dropped ones. */
#define TELL_BYTES 160

static int
open_again(int fd)
{
	char path[32];
	struct stat st;

	if (fstat(fd, &st) < 0 ||
	    !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void
lineout_init(struct lineout *out, int fd)
{
	int again = open_again(fd);

	out->own = again >= 0;
	out->fd = out->own ? again : fd;
	out->dropped = 0;
	out->at = out->bytes = 0;
}

void
lineout_release(struct lineout *out)
{
	if (out->own)
		close(out->fd);
	out->own = false;
}

static size_t
room(const struct lineout *out)
{
	return sizeof(out->data) - out->bytes;
}

static void
append(struct lineout *out, const char *line, size_t bytes)
{
	memcpy(out->data + out->bytes, line, bytes);
	out->bytes += bytes;
}

static void
tell_dropped(struct lineout *out)
{
	char line[TELL_BYTES];
	int bytes = snprintf(line, sizeof(line),
	    "%.60s: warning: %llu lines dropped: nobody took them\n",
	    msg_program(), (unsigned long long)out->dropped);

	append(out, line, (size_t)bytes);
	out->dropped = 0;
}

void
lineout_add(struct lineout *out, const char *line, size_t bytes)
{
	if (out->at > 0 && room(out) < bytes + TELL_BYTES) {
		memmove(out->data, out->data + out->at, out->bytes - out->at);
		out->bytes -= out->at;
		out->at = 0;
	}
	if (room(out) < bytes + TELL_BYTES) {
		out->dropped++;
		return;
	}
	if (out->dropped > 0)
		tell_dropped(out);
	/* Those two may take more than there is: the line counts then. */
	if (room(out) < bytes)
		out->dropped++;
	else
		append(out, line, bytes);
}

bool
lineout_pending(const struct lineout *out)
{
	return out->bytes > out->at;
}

/* A pipe polls writable only where LINEOUT_LINE_BYTES fit. */
static bool
takes(const struct lineout *out)
{
	struct pollfd wait = {.fd = out->fd, .events = POLLOUT};

	return out->own || poll(&wait, 1, 0) == 1;
}

/* One line, or what is left of it: 1 written, 0 the descriptor takes nothing
 * now, -1 it can't be written and is dropped. */
static int
write_line(struct lineout *out)
{
	const char *line = out->data + out->at;
	const char *end = memchr(line, '\n', out->bytes - out->at);
	size_t bytes = (size_t)(end - line) + 1;
	ssize_t put;

	if (!takes(out))
		return 0;
	do
		put = write(out->fd, line, bytes);
	while (put < 0 && errno == EINTR);
	if (put < 0 && errno == EAGAIN)
		return 0;
	if (put > 0) {
		out->at += (size_t)put;
		return 1;
	}
	out->at += bytes;
	out->dropped++;
	return -1;
}

void
lineout_write(struct lineout *out)
{
	int result = 0;

	while (lineout_pending(out) && (result = write_line(out)) != 0)
		if (result > 0 && !lineout_pending(out) && out->dropped > 0) {
			out->at = out->bytes = 0;
			tell_dropped(out);
		}
	if (!lineout_pending(out))
		out->at = out->bytes = 0;
}

void
lineout_finish(struct lineout *out, int wait_ms)
{
	struct pollfd wait = {.fd = out->fd, .events = POLLOUT};

	lineout_write(out);
	while (lineout_pending(out)) {
		int ready = poll(&wait, 1, wait_ms);

		if (ready == 0 || (ready < 0 && errno != EINTR))
			return;
		lineout_write(out);
	}
}
