/*
 * secret - whether a file may hold a secret: nobody but its reader can read
 * it; and a process that may read one: nobody else can read its memory.
 */
#ifndef QIM_BASE_SECRET_H
#define QIM_BASE_SECRET_H

#include "base/err.h"

/*
 * An open regular file that belongs to this user or to root and has mode 0600
 * or less.  Or one whose access list gives a right to this user alone beside
 * the owner: so systemd hands a credential to a service, with a mode that is
 * 0440 as far as stat(2) can say.
 * 0, or -1: EX_CONFIG it isn't so, EX_IOERR.
 */
int secret_check(int fd, const char *path, struct err *err);

/*
 * From now on this process leaves no core file, and no other process of this
 * user can look into it: /proc/PID is root's, its own descriptors in it too.
 * -1 EX_OSERR.
 */
int secret_hide(struct err *err);

#endif
