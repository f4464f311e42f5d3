#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/msg.h"

unsigned signals_orphan_s = 30;

static volatile sig_atomic_t stopping;
static int wake[2] = {-1, -1};
static pid_t bound_to; /* the parent with which this process ends, or 0 */
static char abandoned[128], orphaned[128];

static void
abandon(const char *line)
{
	struct pollfd wait = {.fd = STDERR_FILENO, .events = POLLOUT};
	ssize_t ignored;

	/* Nobody waits for a log that takes nothing. */
	if (poll(&wait, 1, 0) == 1) {
		ignored = write(STDERR_FILENO, line, strlen(line));
		(void)ignored;
	}
	_exit(EX_TEMPFAIL);
}

static void
handle(int number)
{
	int saved = errno;
	ssize_t ignored;

	if (number == SIGALRM)
		abandon(orphaned);
	if (stopping)
		abandon(abandoned);
	stopping = 1;
	/* Nobody is left who could send the second signal. */
	if (bound_to > 0 && getppid() != bound_to)
		alarm(signals_orphan_s);
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
	snprintf(orphaned, sizeof(orphaned),
	    "%.60s: error: abandoned: not drained %u s after its parent's "
	    "end\n",
	    msg_program(), signals_orphan_s);
	sigfillset(&action.sa_mask);
	sigemptyset(&ignore.sa_mask);
	if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    sigaction(SIGTERM, &action, NULL) < 0 ||
	    sigaction(SIGINT, &action, NULL) < 0 ||
	    sigaction(SIGALRM, &action, NULL) < 0 ||
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

/* Has ended, but its own parent hasn't asked for its status yet: kill(2) still
 * finds it. */
static bool
is_zombie(long pid)
{
	char path[40], text[512];
	const char *name_end;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got < 0 ? 0 : got] = '\0';
	name_end = strrchr(text, ')');
	return name_end != NULL && strncmp(name_end, ") Z", 3) == 0;
}

/* The supervisor may have ended before this program could ask who its parent
 * is, and without a parent that ends it would stay for ever. */
static bool
supervisor_is_gone(void)
{
	const char *text = getenv("QIM_SUPERVISOR");
	long pid = text == NULL ? 0 : strtol(text, NULL, 10);

	if (pid <= 0)
		return false;
	return (kill((pid_t)pid, 0) < 0 && errno == ESRCH) || is_zombie(pid);
}

int
signals_end_with_parent(pid_t parent, struct err *err)
{
	bound_to = parent;
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
		return err_set(
		    err, EX_OSERR, "--with-parent: %s", strerror(errno));
	if (getppid() != parent || supervisor_is_gone())
		return err_set(err, EX_TEMPFAIL, "--with-parent: it has ended");
	return 0;
}
