#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of each part's name, so that a few with the hash are short of NAME_MAX. */
#define PART_BYTES 60

#define ROOT_FOLDER "/run/qim"

/* A malloc()ed path without the slashes at its end: with one, open(2) would
 * follow a link in spite of O_NOFOLLOW. */
static char *
choose_path(const char *given)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *path = NULL;
	size_t bytes;
	int result;

	if (given != NULL)
		result = asprintf(&path, "%s", given);
	else if (geteuid() == 0)
		result = asprintf(&path, "%s", ROOT_FOLDER);
	else if (runtime != NULL && runtime[0] == '/')
		result = asprintf(&path, "%s/qim", runtime);
	else
		result = asprintf(&path, "/tmp/qim-%u", (unsigned)geteuid());
	if (result < 0)
		return NULL;
	bytes = strlen(path);
	while (bytes > 1 && path[bytes - 1] == '/')
		path[--bytes] = '\0';
	return path;
}

/* What a person must change is 78; what may pass is 71. */
static int
refuse(const char *path, int error, struct err *err)
{
	if (error == EMFILE || error == ENFILE || error == ENOMEM ||
	    error == ENOSPC || error == EDQUOT || error == EIO)
		return err_set(err, EX_OSERR, "%s: %s", path, strerror(error));
	return err_set(err, EX_CONFIG,
	    "%s: %s: wants a folder of this user's own", path,
	    error == ELOOP || error == ENOTDIR ? "a symbolic link or no folder"
					       : strerror(error));
}

static int
check_folder(const struct lock_folder *folder, struct err *err)
{
	struct stat st;

	if (fstat(folder->fd, &st) < 0)
		return refuse(folder->path, errno, err);
	if (st.st_uid != geteuid())
		return err_set(err, EX_CONFIG,
		    "%s: belongs to uid %u, wants uid %u", folder->path,
		    (unsigned)st.st_uid, (unsigned)geteuid());
	if ((st.st_mode & 022) != 0)
		return err_set(err, EX_CONFIG,
		    "%s: mode %04o lets others write to it, wants 0700",
		    folder->path, (unsigned)(st.st_mode & 07777));
	if (faccessat(folder->fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return refuse(folder->path, errno, err);
	return 0;
}

int
lock_folder_open(struct lock_folder *folder, const char *given, struct err *err)
{
	*folder = (struct lock_folder){.fd = -1, .path = choose_path(given)};
	if (folder->path == NULL)
		return err_memory(err, "locks");
	if (mkdir(folder->path, 0700) < 0 && errno != EEXIST)
		return refuse(folder->path, errno, err);
	folder->fd =
	    open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder->fd < 0)
		return refuse(folder->path, errno, err);
	return check_folder(folder, err);
}

void
lock_folder_release(struct lock_folder *folder)
{
	if (folder->path != NULL && folder->fd >= 0)
		close(folder->fd);
	free(folder->path);
	*folder = (struct lock_folder){.fd = -1};
}

int
lock_folder_hold(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 1;
	error = errno;
	if (fd >= 0)
		close(fd);
	if (error == EWOULDBLOCK)
		return 0;
	return err_set(
	    err, EX_OSERR, "%s: can't be locked: %s", path, strerror(error));
}

/* FNV-1a: two names that meet would only share a file, and refuse what they
 * needn't. */
static uint64_t
hash(uint64_t sum, const char *text)
{
	/* The NUL too: "a", "bc" isn't "ab", "c". */
	for (size_t i = 0; i == 0 || text[i - 1] != '\0'; i++)
		sum = (sum ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static size_t
append_escaped(char *out, size_t room, const char *text)
{
	static const char kept[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t used = 0;

	for (; *text != '\0' && used + 3 < room; text++)
		if (strchr(kept, *text) != NULL)
			out[used++] = *text;
		else
			used += (size_t)snprintf(
			    out + used, 4, "%%%02X", (unsigned)(uint8_t)*text);
	return used;
}

void
lock_name(const char *const *parts, size_t count, char name[LOCK_NAME_BYTES])
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	size_t used = 0, room;

	for (size_t i = 0; i < count; i++) {
		room = LOCK_NAME_BYTES - 17 - used;
		sum = hash(sum, parts[i]);
		used += append_escaped(name + used,
		    room < PART_BYTES ? room : PART_BYTES, parts[i]);
		if (used < LOCK_NAME_BYTES - 18)
			name[used++] = ':';
	}
	snprintf(name + used, LOCK_NAME_BYTES - used, "%016llx",
	    (unsigned long long)sum);
}

int
lock_open(struct lock *lock, const struct lock_folder *folder, const char *name,
    struct err *err)
{
	*lock = (struct lock){.fd = -1};
	if (asprintf(&lock->path, "%s/%s", folder->path, name) < 0) {
		lock->path = NULL;
		return err_memory(err, "locks");
	}
	/* The sticky bit keeps whoever cleans temporary folders off it. */
	lock->fd = openat(
	    folder->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 01600);
	if (lock->fd < 0)
		return refuse(lock->path, errno, err);
	return 0;
}

void
lock_release(struct lock *lock)
{
	if (lock->path != NULL && lock->fd >= 0)
		close(lock->fd);
	free(lock->path);
	*lock = (struct lock){.fd = -1};
}

static int
ask(struct lock *lock, int command, struct flock *range, uint32_t number)
{
	*range = (struct flock){.l_type = F_WRLCK,
	    .l_whence = SEEK_SET,
	    .l_start = number,
	    .l_len = 1};
	return fcntl(lock->fd, command, range);
}

int
lock_take(struct lock *lock, uint32_t number, pid_t *holder, struct err *err)
{
	struct flock range;

	for (;;) {
		if (ask(lock, F_SETLK, &range, number) == 0)
			return 1;
		if (errno != EAGAIN && errno != EACCES)
			break;
		if (ask(lock, F_GETLK, &range, number) < 0)
			break;
		/* Unlocked: who held it ended between the two. */
		if (range.l_type != F_UNLCK) {
			*holder = range.l_pid > 0 ? range.l_pid : 0;
			return 0;
		}
	}
	return err_set(err, EX_OSERR, "%s: %s", lock->path, strerror(errno));
}
