/*
 * failpoint - places at which a test can have a program die.
 *
 * Only in a build with QIM_FAILPOINTS (`make B=build/fail FAILPOINTS=1`); in
 * any other a point is nothing, its name included.  Where the environment
 * variable FAILPOINT names a point,
 *
 *	FAILPOINT=[program/]name[:pass[:ms]]
 *
 * the process sends itself SIGKILL when it passes it for that time (1), or so
 * long after it: other threads go on meanwhile.
 *
 *	FAILPOINT=@file
 *
 * has the same text in a file, which is looked for at every pass, counted
 * from then on, and removed before the process dies: one death for a file,
 * whatever is started again.  The names are in docs/guarantees.md.
 *
 * For use in one thread.  A value that can't be understood ends with 64.
 */
#ifndef QIM_BASE_FAILPOINT_H
#define QIM_BASE_FAILPOINT_H

#include <sys/uio.h>

/* FAILPOINT: the process dies here.
 * FAILPOINT_HALF: it dies in the next FAILPOINT_CUT, after half a write.
 * FAILPOINT_CUT: stands before a write of all these pieces to fd. */
#ifdef QIM_FAILPOINTS
#define FAILPOINT(name) failpoint_pass(name)
#define FAILPOINT_HALF(name) failpoint_half(name)
#define FAILPOINT_CUT(fd, pieces, count) failpoint_cut(fd, pieces, count)
#else
#define FAILPOINT(name) ((void)0)
#define FAILPOINT_HALF(name) ((void)0)
#define FAILPOINT_CUT(fd, pieces, count) ((void)0)
#endif

void failpoint_pass(const char *name);
void failpoint_half(const char *name);
void failpoint_cut(int fd, const struct iovec *pieces, int count);

#endif
