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

#define LINES_FLAGS (O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Once for each place: it is a figure too how often. */
static void
warn(int *has_warned, const char *option, const char *name, const char *why)
{
	if (!*has_warned)
		msg_write(MSG_WARNING, "%s %s: %s: figures are dropped", option,
		    name, why);
	*has_warned = 1;
}

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
	warn(&lines->has_warned, "--stats", lines->name,
	    errno == EAGAIN ? "it takes nothing" : strerror(errno));
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
	if (bytes < 0)
		file->path = NULL;
	/* Not a name that ends as those that are collected. */
	if (bytes < 0 || asprintf(&file->new_path, "%s.new", file->path) < 0) {
		file->new_path = NULL;
		return err_memory(err, "--prom");
	}
	return 0;
}

void
figures_file_close(struct figures_file *file)
{
	free(file->path);
	free(file->new_path);
	*file = (struct figures_file){0};
}

static int
write_whole(int fd, const struct buf *text)
{
	size_t at = 0;
	ssize_t put;

	/* Whoever collects it is another user. */
	if (fchmod(fd, 0644) < 0)
		return -1;
	while (at < text->bytes) {
		put = write(fd, text->data + at, text->bytes - at);
		if (put < 0 && errno != EINTR)
			return -1;
		at += put > 0 ? (size_t)put : 0;
	}
	return 0;
}

int
figures_file_write(struct figures_file *file, const struct buf *text)
{
	int fd, result, why;

	/* What a process that was killed has left, or a link of somebody. */
	unlink(file->new_path);
	fd = open(file->new_path,
	    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	result = fd < 0 ? -1 : write_whole(fd, text);
	why = errno;
	if (fd >= 0 && close(fd) < 0 && result == 0) {
		result = -1;
		why = errno;
	}
	if (result == 0 && (result = rename(file->new_path, file->path)) < 0)
		why = errno;
	if (result == 0)
		return 0;
	if (fd >= 0)
		unlink(file->new_path);
	warn(&file->has_warned, "--prom", file->path, strerror(why));
	return -1;
}
