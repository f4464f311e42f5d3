#include "stream/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/rotate.h"

void
stream_copy_init(struct stream_copy *copy, const char *path, uint64_t bytes_max,
    uint64_t files)
{
	*copy = (struct stream_copy){
	    .path = path, .bytes_max = bytes_max, .files = files, .fd = -1};
	buf_init(&copy->hello);
}

void
stream_copy_release(struct stream_copy *copy)
{
	if (copy->fd >= 0)
		close(copy->fd);
	copy->fd = -1;
	buf_release(&copy->hello);
}

/* A malloc()ed path of the folder that a file is in. */
static char *
folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct slice folder = slice_of(slash == NULL ? "." : path);

	if (slash != NULL)
		folder.bytes = slash == path ? 1 : (size_t)(slash - path);
	return slice_dup(folder);
}

int
stream_copy_check(const char *path, struct err *err)
{
	char *folder = folder_of(path);
	struct stat st;
	int result = 0;

	if (folder == NULL)
		return err_memory(err, path);
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0)
		result =
		    err_set(err, EX_NOINPUT, "%s: %s", folder, strerror(errno));
	else if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		result =
		    err_set(err, EX_NOINPUT, "%s: not a regular file", path);
	free(folder);
	return result;
}

static int
write_all(struct stream_copy *copy, struct slice bytes, struct err *err)
{
	struct iovec piece = {(void *)(uintptr_t)bytes.data, bytes.bytes};

	if (io_write_all(copy->fd, &piece, 1, err) < 0)
		return err_prefix(err, "%s", copy->path);
	copy->bytes += bytes.bytes;
	return 0;
}

/* A new file with the hello, under the name it has until it is whole. */
static int
create(struct stream_copy *copy, const char *draft, struct err *err)
{
	struct slice hello = slice_of_buf(&copy->hello);
	struct iovec piece = {(void *)(uintptr_t)hello.data, hello.bytes};
	int fd;

	/* Payloads are nobody else's business. */
	unlink(draft);
	fd = open(
	    draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, EX_IOERR, "%s: %s", draft, strerror(errno));
	if (io_write_all(fd, &piece, 1, err) == 0)
		return fd;
	close(fd);
	return err_prefix(err, "%s", draft);
}

/* Moves the older ones and puts the new file in its place. */
static int
put_in_place(struct stream_copy *copy, const char *draft, struct err *err)
{
	if (rotate_files(AT_FDCWD, copy->path, copy->files, err) < 0)
		return -1;
	if (rename(draft, copy->path) < 0)
		return err_set(
		    err, EX_IOERR, "%s: %s", copy->path, strerror(errno));
	return 0;
}

/* The next file; where that can't be, nothing has moved. */
static int
next_file(struct stream_copy *copy, struct err *err)
{
	char *draft = NULL;
	int fd;

	if (asprintf(&draft, "%s.new", copy->path) < 0)
		return err_memory(err, copy->path);
	fd = create(copy, draft, err);
	if (fd >= 0 && put_in_place(copy, draft, err) < 0) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		unlink(draft);
	free(draft);
	if (fd < 0)
		return -1;
	if (copy->fd >= 0)
		close(copy->fd);
	copy->fd = fd;
	copy->bytes = copy->whole_bytes = copy->hello.bytes;
	return 0;
}

bool
stream_copy_turns(const struct stream_copy *copy, size_t more)
{
	return !copy->has_hello || copy->bytes + more >= copy->bytes_max;
}

static int
add_hello(
    struct stream_copy *copy, struct slice bytes, bool whole, struct err *err)
{
	buf_append(&copy->hello, bytes.data, bytes.bytes);
	if (copy->hello.failed)
		return err_memory(err, copy->path);
	copy->has_hello = whole;
	return whole ? next_file(copy, err) : 0;
}

static int
add(struct stream_copy *copy, struct slice bytes, size_t whole, struct err *err)
{
	uint64_t before;

	if (!copy->has_hello)
		return add_hello(copy, bytes, whole > 0, err);
	if (copy->bytes == copy->whole_bytes &&
	    copy->bytes >= copy->bytes_max && copy->bytes > copy->hello.bytes &&
	    next_file(copy, err) < 0)
		return -1;
	before = copy->bytes;
	if (write_all(copy, bytes, err) < 0)
		return -1;
	if (whole > 0)
		copy->whole_bytes = before + whole;
	return 0;
}

int
stream_copy_add(
    struct stream_copy *copy, struct slice bytes, size_t whole, struct err *err)
{
	if (copy->stopped || bytes.bytes == 0)
		return 0;
	if (add(copy, bytes, whole, err) == 0)
		return 0;
	stream_copy_stop(copy);
	return -1;
}

void
stream_copy_stop(struct stream_copy *copy)
{
	copy->stopped = true;
	if (copy->fd < 0)
		return;
	/* What can't be cut stays as a torn end, which readers know. */
	if (ftruncate(copy->fd, (off_t)copy->whole_bytes) < 0)
		copy->whole_bytes = copy->bytes;
	close(copy->fd);
	copy->fd = -1;
}
