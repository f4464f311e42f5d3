#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/msg.h"

static volatile sig_atomic_t stopping;
static int wake[2] = {-1, -1};
static char abandoned[128];
static size_t abandoned_bytes;

static void
handle(int number)
{
	int saved = errno;
	ssize_t ignored;

	(void)number;
	if (stopping) {
		struct pollfd wait = {.fd = STDERR_FILENO, .events = POLLOUT};

		/* Nobody waits for a log that takes nothing. */
		if (poll(&wait, 1, 0) == 1)
			ignored =
			    write(STDERR_FILENO, abandoned, abandoned_bytes);
		_exit(EX_TEMPFAIL);
	}
	stopping = 1;
	ignored = write(wake[1], "", 1);
	(void)ignored;
	errno = saved;
}

int
signals_init(struct err *err)
{
	struct sigaction action = {.sa_handler = handle};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	snprintf(abandoned, sizeof(abandoned),
	    "%.80s: error: abandoned: second signal\n", msg_program());
	abandoned_bytes = strlen(abandoned);
	sigfillset(&action.sa_mask);
	sigemptyset(&ignore.sa_mask);
	if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    sigaction(SIGTERM, &action, NULL) < 0 ||
	    sigaction(SIGINT, &action, NULL) < 0 ||
	    sigaction(SIGPIPE, &ignore, NULL) < 0)
		return err_set(err, EX_OSERR, "signals: %s", strerror(errno));
	return 0;
}

bool
signals_stopping(void)
{
	return stopping != 0;
}

int
signals_fd(void)
{
	return wake[0];
}

int
signals_end_with_parent(pid_t parent, struct err *err)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
		return err_set(
		    err, EX_OSERR, "--with-parent: %s", strerror(errno));
	if (getppid() != parent)
		return err_set(err, EX_TEMPFAIL, "--with-parent: it has ended");
	return 0;
}
