#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

static int
write_draft(const char *path, bool for_all, const void *data, size_t bytes,
    struct err *err)
{
	int fd = open(path,
	    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
	    0640);
	struct iovec piece = {(void *)(uintptr_t)data, bytes};
	int result;

	if (fd < 0)
		return err_set(err, EX_IOERR, "%s: %s", path, strerror(errno));
	if (for_all && fchmod(fd, 0644) < 0)
		result = err_set(err, EX_IOERR, "%s", strerror(errno));
	else
		result = io_write_all(fd, &piece, 1, err);
	if (close(fd) < 0 && result == 0)
		result = err_set(err, EX_IOERR, "%s", strerror(errno));
	return result < 0 ? err_prefix(err, "%s", path) : 0;
}

int
replace_file(const char *path, bool for_all, const void *data, size_t bytes,
    struct err *err)
{
	char *draft = NULL;
	int result;

	if (asprintf(&draft, "%s.new", path) < 0)
		return err_memory(err, path);
	result = write_draft(draft, for_all, data, bytes, err);
	if (result == 0 && rename(draft, path) < 0)
		result =
		    err_set(err, EX_IOERR, "%s: %s", path, strerror(errno));
	if (result < 0)
		unlink(draft);
	free(draft);
	return result;
}
