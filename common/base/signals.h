/*
 * signals - TERM and INT, for a stage that drains.
 *
 * The first signal is only remembered: the first stage of a chain stops its
 * intake on it, all others read on until their input ends, so that a Ctrl-C,
 * which reaches every stage, drains the chain.  A second signal ends the
 * process at once with 75; what it had not acknowledged is done again.
 *
 * A process that ends with its parent has nobody who could send that second
 * signal: from the parent's end it has signals_orphan_s seconds to drain.
 */
#ifndef QIM_BASE_SIGNALS_H
#define QIM_BASE_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Installs the handlers and ignores SIGPIPE; 0 or -1 EX_OSERR. */
int signals_init(struct err *err);

/* True after the first signal. */
bool signals_stopping(void);

/* Becomes readable with the first signal, and stays so: for poll(2). */
int signals_fd(void);

/* Asks the kernel for a SIGTERM when the parent ends, which was `parent` when
 * this program began.  0, or -1 EX_TEMPFAIL when it has ended already, or the
 * process has that QIM_SUPERVISOR in the environment gives the pid of: a
 * supervisor that ended before this program began was never its parent. */
int signals_end_with_parent(pid_t parent, struct err *err);

/* Read by signals_init() and when the signal comes; 30. */
extern unsigned signals_orphan_s;

#endif
