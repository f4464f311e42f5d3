/*
 * stream-tap - hands a stream on, byte for byte, and keeps a copy in files
 * that rotate.
 *
 * Reads a stream on stdin, writes it on stdout and into FILE; with --join it
 * writes what such files hold as one stream.  The stream comes first: where
 * the copy can't be written it stops, and the stream goes on.  Only lengths
 * are looked at, so a damaged or torn stream comes out as it went in.  Stops
 * at the end of its input; a repeat begins a new copy and keeps the old one
 * as an older file.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/rotate.h"
#include "stream/copy.h"
#include "stream/stream.h"
#include "stream/walk.h"

static const char synopsis[] =
    "usage: stream-tap [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                  [--bytes n] [--files n] [--join] file\n";

/* A pipe has 64 KiB, unless somebody gave it more. */
#define READ_BYTES ((size_t)256 << 10)

static struct options {
	struct opt_common common;
	uint64_t bytes;
	uint64_t files;
	bool join;
	const char *file;
} options = {.bytes = 64 << 20, .files = 8};

static const struct opt table[] = {
    {0, "bytes", OPT_NUMBER, &options.bytes, 1024, UINT64_C(1) << 50, "bytes"},
    {0, "files", OPT_NUMBER, &options.files, ROTATE_FILES_LEAST,
	ROTATE_FILES_MOST, "files"},
    {0, "join", OPT_FLAG, &options.join},
    {0},
};

static struct frame_walk walk;
static struct stream_copy copy;
static struct err bad; /* what isn't a stream, once something isn't */

static int
check_settings(char **argv, struct err *err)
{
	options.file = argv[optind];
	if (opt_required("file", options.file, err) < 0)
		return -1;
	frame_walk_init(&walk);
	if (options.join)
		return 0;
	stream_copy_init(&copy, options.file, options.bytes, options.files);
	return stream_copy_check(options.file, err);
}

/* Into the copy; where that fails the stream goes on alone. */
static void
copy_bytes(const uint8_t *data, size_t bytes, size_t whole)
{
	struct err err;

	if (stream_copy_add(&copy, (struct slice){data, bytes}, whole, &err) <
	    0)
		msg_write(MSG_WARNING,
		    "%s: the copy stops before byte %llu of the stream",
		    err.text, (unsigned long long)walk.at);
}

static void
find_bad(void)
{
	stream_copy_stop(&copy);
	msg_write(
	    MSG_WARNING, "%s: handed on from there, not copied", bad.text);
}

/* Follows the frames in what was read, and copies it, with as few writes as
 * there are files. */
static void
follow(const uint8_t *data, size_t bytes)
{
	size_t at = 0, from = 0, whole = 0, used;
	int result;

	while (bad.code == 0 && at < bytes) {
		result = frame_walk(
		    &walk, (struct slice){data + at, bytes - at}, &used, &bad);
		at += used;
		if (result == FRAME_READY)
			whole = at;
		if (result == FRAME_READY &&
		    stream_copy_turns(&copy, at - from)) {
			copy_bytes(data + from, at - from, whole - from);
			from = at;
		}
	}
	copy_bytes(data + from, at - from, whole > from ? whole - from : 0);
	if (bad.code != 0 && !copy.stopped)
		find_bad();
}

/* Hands on what was read.  A reader that has gone, e.g. because of these
 * bytes, doesn't keep them out of the copy. */
static int
pass(uint8_t *data, size_t bytes, struct err *err)
{
	struct iovec piece = {data, bytes};
	int result = io_write_all(STDOUT_FILENO, &piece, 1, err);

	follow(data, bytes);
	return result;
}

/* Waits for input; -1 EX_TEMPFAIL the reader has gone meanwhile. */
static int
wait_for_input(int fd, struct err *err)
{
	struct pollfd waits[2] = {
	    {.fd = fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};

	while (poll(waits, 2, -1) < 0)
		if (errno != EINTR)
			return err_set(
			    err, EX_IOERR, "poll: %s", strerror(errno));
	if (waits[0].revents == 0 && (waits[1].revents & POLLERR) != 0)
		return err_set(err, EX_TEMPFAIL, "output: the reader is gone");
	return 0;
}

/* All of a descriptor. */
static int
pass_all(int fd, struct err *err)
{
	static uint8_t data[READ_BYTES];
	ssize_t got;

	do {
		if (wait_for_input(fd, err) < 0)
			return -1;
		got = io_read(fd, data, sizeof(data), err);
		if (got > 0 && pass(data, (size_t)got, err) < 0)
			return -1;
	} while (got > 0);
	return (int)got;
}

/* The status of what was handed on: whole, torn, or no stream. */
static int
finish(struct err *err)
{
	if (bad.code != 0) {
		*err = bad;
		return -1;
	}
	if (frame_walk_eof(&walk, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

static int
tap(struct err *err)
{
	int result = pass_all(STDIN_FILENO, err);

	if (result == 0)
		result = finish(err);
	stream_copy_release(&copy);
	return result;
}

/* Reads the first frame of a file as it is and stands behind it. */
static int
read_hello(int fd, struct buf *hello, struct err *err)
{
	uint8_t head[5];
	ssize_t got = pread(fd, head, sizeof(head), 0);
	size_t head_bytes, content_bytes, bytes;
	int result;

	if (got < 0)
		return err_set(err, EX_IOERR, "%s", strerror(errno));
	result = frame_parse_head((struct slice){head, (size_t)got}, 0,
	    &head_bytes, &content_bytes, err);
	if (result < 0)
		return -1;
	bytes = result == 0 ? 0 : head_bytes + content_bytes;
	buf_reset(hello);
	if (buf_reserve(hello, bytes) < 0)
		return err_memory(err, "hello");
	got = pread(fd, hello->data, bytes, 0);
	if (got <= 0 || (size_t)got < bytes)
		return err_set(err, EX_TEMPFAIL, "torn: no whole hello");
	hello->bytes = bytes;
	lseek(fd, got, SEEK_SET);
	return 0;
}

/* Opens the k-th file and reads its hello: a descriptor behind that; -1. */
static int
open_part(uint64_t k, struct buf *hello, struct err *err)
{
	char *path = rotate_name(options.file, k);
	int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	if (path == NULL)
		err_memory(err, "file");
	else if (fd < 0)
		err_set(err, EX_NOINPUT, "%s: %s", path, strerror(errno));
	else if (read_hello(fd, hello, err) < 0) {
		err_prefix(err, "%s", path);
		close(fd);
		fd = -1;
	}
	free(path);
	return fd;
}

/* How many older files are of the stream that FILE is of: the hello, in which
 * a run has its number, is the same. */
static uint64_t
count_older(const struct buf *hello)
{
	struct buf other = {0};
	struct err ignored;
	uint64_t k = 0;
	bool same = true;

	while (same && k < ROTATE_FILES_MOST) {
		int fd = open_part(k + 1, &other, &ignored);

		same = fd >= 0 &&
		    slice_equal(slice_of_buf(hello), slice_of_buf(&other));
		k += same;
		if (fd >= 0)
			close(fd);
	}
	buf_release(&other);
	return k;
}

/* One file, without its hello unless it is the first. */
static int
pass_part(uint64_t k, bool first, struct buf *hello, struct err *err)
{
	int fd = open_part(k, hello, err), result;

	if (fd < 0)
		return -1;
	if (first)
		lseek(fd, 0, SEEK_SET);
	result = pass_all(fd, err);
	close(fd);
	return result;
}

static int
join(struct err *err)
{
	struct buf hello = {0};
	int fd = open_part(0, &hello, err), result = fd < 0 ? -1 : 0;
	uint64_t older = 0;

	if (fd >= 0) {
		close(fd);
		older = count_older(&hello);
	}
	copy.stopped = true;
	for (uint64_t i = 0; i <= older && result == 0; i++)
		result = pass_part(older - i, i == 0, &hello, err);
	if (result == 0)
		result = finish(err);
	buf_release(&hello);
	return result;
}

int
main(int argc, char **argv)
{
	struct err err;
	int result;

	result = program_begin(
	    argc, argv, table, 1, synopsis, &options.common, &err);
	if (result == OPT_SHOWN)
		return EX_OK;
	if (result < 0 || check_settings(argv, &err) < 0)
		return msg_fail(&err);
	if (options.common.check)
		return EX_OK;
	if (stream_out_check(STDOUT_FILENO, &err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	result = options.join ? join(&err) : tap(&err);
	return result < 0 ? msg_fail(&err) : EX_OK;
}
