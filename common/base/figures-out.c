/* Where figures go: lines into a file or descriptor, a file that is
 * replaced. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/figures-write.h"
#include "base/msg.h"
#include "base/replace.h"

#define LINES_FLAGS (O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* The descriptor is shared with whoever gave it: where that is possible it is
 * opened anew, so that not to wait is a matter of this program alone. */
static int
open_descriptor(struct figures_lines *lines, int given, struct err *err)
{
	char path[40];
	int flags = fcntl(given, F_GETFL);
	struct stat st;

	if (given < 2)
		return err_set(err, EX_CONFIG,
		    "--stats: %d: standard input and output are the stages'",
		    given);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return err_set(err, EX_NOINPUT, "--stats: %d: %s", given,
		    flags < 0 ? strerror(errno) : "not open for writing");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", given);
	lines->is_socket = fstat(given, &st) == 0 && S_ISSOCK(st.st_mode);
	lines->fd = lines->is_socket ? -1 : open(path, LINES_FLAGS);
	if (lines->fd < 0)
		lines->fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
	if (lines->fd < 0)
		return err_set(
		    err, EX_NOINPUT, "--stats: %d: %s", given, strerror(errno));
	return 0;
}

int
figures_lines_open(
    struct figures_lines *lines, const char *name, struct err *err)
{
	*lines = (struct figures_lines){.name = name, .fd = -1};
	if (name == NULL)
		return 0;
	if (name[strspn(name, "0123456789")] == '\0')
		return open_descriptor(lines,
		    strlen(name) > 6 ? 999999 : (int)strtol(name, NULL, 10),
		    err);
	lines->fd = open(name, LINES_FLAGS | O_CREAT, 0666);
	if (lines->fd < 0)
		return err_set(
		    err, EX_NOINPUT, "--stats: %s: %s", name, strerror(errno));
	return 0;
}

void
figures_lines_close(struct figures_lines *lines)
{
	if (lines->fd >= 0)
		close(lines->fd);
	buf_release(&lines->rest);
	*lines = (struct figures_lines){.fd = -1};
}

/* Writes what is left of `rest`; 0 all is written, -1 errno says why not. */
static int
push_rest(struct figures_lines *lines, int wait_ms)
{
	uint64_t deadline_us = clock_us() + (uint64_t)wait_ms * 1000;
	struct pollfd wait = {.fd = lines->fd, .events = POLLOUT};
	struct buf *rest = &lines->rest;

	while (lines->rest_at < rest->bytes) {
		const uint8_t *at = rest->data + lines->rest_at;
		size_t left = rest->bytes - lines->rest_at;
		ssize_t put;

		errno = EAGAIN;
		if (poll(&wait, 1, clock_left_ms(deadline_us, wait_ms)) <= 0)
			return -1;
		if (lines->is_socket)
			put = send(
			    lines->fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			put = write(lines->fd, at, left);
		if (put < 0 && errno != EINTR)
			return -1;
		if (put > 0)
			lines->rest_at += (size_t)put;
	}
	buf_reset(rest);
	lines->rest_at = 0;
	return 0;
}

int
figures_lines_write(
    struct figures_lines *lines, const struct buf *line, int wait_ms)
{
	if (push_rest(lines, wait_ms) == 0) {
		buf_append(&lines->rest, line->data, line->bytes);
		if (lines->rest.failed)
			errno = ENOMEM;
		else if (push_rest(lines, wait_ms) == 0 || lines->rest_at > 0)
			return 0;
		/* Nothing of it went out. */
		buf_reset(&lines->rest);
	}
	if (!lines->has_warned)
		msg_write(MSG_WARNING, "--stats %s: %s: figures are dropped",
		    lines->name,
		    errno == EAGAIN ? "it takes nothing" : strerror(errno));
	lines->has_warned = 1;
	return -1;
}

int
figures_file_open(struct figures_file *file, const char *folder,
    const char *chain, struct err *err)
{
	struct stat st;
	int bytes;

	*file = (struct figures_file){0};
	if (folder == NULL)
		return 0;
	if (stat(folder, &st) < 0)
		return err_set(
		    err, EX_NOINPUT, "--prom: %s: %s", folder, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(
		    err, EX_NOINPUT, "--prom: %s: not a folder", folder);
	if (access(folder, W_OK | X_OK) < 0)
		return err_set(
		    err, EX_NOINPUT, "--prom: %s: %s", folder, strerror(errno));
	bytes = asprintf(&file->path, "%s/qim-%s%s%s.prom", folder,
	    chain == NULL ? "" : chain, chain == NULL ? "" : "-",
	    msg_program());
	if (bytes >= 0)
		return 0;
	file->path = NULL;
	return err_memory(err, "--prom");
}

void
figures_file_close(struct figures_file *file)
{
	free(file->path);
	*file = (struct figures_file){0};
}

int
figures_file_write(struct figures_file *file, const struct buf *text)
{
	struct err err;

	/* Whoever collects it is another user. */
	if (replace_file(file->path, true, text->data, text->bytes, &err) == 0)
		return 0;
	if (!file->has_warned)
		msg_write(
		    MSG_WARNING, "--prom: %s: figures are dropped", err.text);
	file->has_warned = 1;
	return -1;
}
