#include "base/rotate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *
rotate_name(const char *name, uint64_t k)
{
	char *text = NULL;
	int result = k == 0
	    ? asprintf(&text, "%s", name)
	    : asprintf(&text, "%s.%llu", name, (unsigned long long)k);

	return result < 0 ? NULL : text;
}

/* Moves the k-th to the next place; that it isn't there is fine. */
static int
move_up(int folder, const char *name, uint64_t k, struct err *err)
{
	char *from = rotate_name(name, k), *to = rotate_name(name, k + 1);
	int result = 0;

	if (from == NULL || to == NULL)
		result = err_memory(err, name);
	else if (renameat(folder, from, folder, to) < 0 && errno != ENOENT)
		result = err_set(
		    err, EX_IOERR, "%s to %s: %s", from, to, strerror(errno));
	free(from);
	free(to);
	return result;
}

/* From the k-th on, up to the first that isn't there.  What can't be removed is
 * tried again the next time. */
static void
remove_older(int folder, const char *name, uint64_t k)
{
	int result;

	do {
		char *path = rotate_name(name, k++);

		result = path == NULL ? -1 : unlinkat(folder, path, 0);
		free(path);
	} while (result == 0);
}

int
rotate_files(int folder, const char *name, uint64_t files, struct err *err)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
		    ? 0
		    : err_set(err, EX_IOERR, "%s: %s", name, strerror(errno));
	/* A device or a fifo must not be moved away. */
	if (!S_ISREG(st.st_mode))
		return err_set(err, EX_NOINPUT, "%s: not a regular file", name);
	if (files == 1 && unlinkat(folder, name, 0) < 0)
		return err_set(err, EX_IOERR, "%s: %s", name, strerror(errno));
	for (uint64_t k = files - 1; k > 0; k--)
		if (move_up(folder, name, k - 1, err) < 0)
			return -1;
	remove_older(folder, name, files);
	return 0;
}
