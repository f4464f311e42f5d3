/*
 * lock - numbered locks, each held by at most one process of this host.
 *
 * A lock is a byte of a file, at the place that is its number, locked by
 * fcntl(2).  So the kernel tells who holds it and frees it however that
 * process ends, nothing stale is left behind, and processes that hold
 * different numbers share the file.  The file stays: were it removed, two
 * processes could hold one number, one of them in a file without a name.
 *
 * Such locks belong to the process, and closing any descriptor of the file
 * frees all of them: a process opens a file once.
 */
#ifndef QIM_BASE_LOCK_H
#define QIM_BASE_LOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The folder that the files are in. */
struct lock_folder {
	int fd;
	char *path; /* owned; as it was given, for messages */
};

struct lock {
	int fd;
	char *path; /* owned; folder and name, for messages */
};

/*
 * Opens the folder `given`, or where it is NULL /run/qim for root, and for
 * others $XDG_RUNTIME_DIR/qim or, without that, /tmp/qim-UID; makes it where
 * it isn't there, but not what it is in.
 * -1: EX_CONFIG it can't be made or written to, is a symbolic link, belongs
 * to somebody else, or others may write to it; EX_OSERR.
 * lock_folder_release() is due in any case.
 */
int lock_folder_open(
    struct lock_folder *folder, const char *given, struct err *err);
void lock_folder_release(struct lock_folder *folder);

/*
 * Locks a folder itself, by flock(2), for as long as this process lives: no
 * file of its own, for which a full disk may have no room.
 * 1 it is this process'; 0 another one's.  Never waits.
 * -1 EX_OSERR it can't be opened, or its file system has no such lock, as NFS
 * has none for folders.
 */
int lock_folder_hold(const char *path, struct err *err);

#define LOCK_NAME_BYTES 256

/* The name of a file for what these parts name together: for people as much
 * of each as fits, escaped, and a hash of all that makes it unique. */
void lock_name(
    const char *const *parts, size_t count, char name[LOCK_NAME_BYTES]);

/* Opens a file of the folder; made where it isn't there.
 * -1 EX_CONFIG no permission, EX_OSERR.  lock_release() is due in any case. */
int lock_open(struct lock *lock, const struct lock_folder *folder,
    const char *name, struct err *err);

/* Frees all its locks. */
void lock_release(struct lock *lock);

/* 1 it is this process' now, or was; 0 another one's, *holder, which is 0
 * where that process isn't in this pid namespace.  Never waits.
 * -1 EX_OSERR. */
int lock_take(
    struct lock *lock, uint32_t number, pid_t *holder, struct err *err);

#endif
