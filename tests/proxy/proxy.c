/*
 * proxy - TCP connections on the loopback, as bad as a test wants them.
 *
 *	proxy serve SOCKET NAME=PORT:TARGET ...
 *	proxy tell SOCKET NAME COMMAND [ARGUMENT] ...
 *
 * The first takes connections on 127.0.0.1:PORT and passes them on to
 * 127.0.0.1:TARGET; the second changes, through the unix socket SOCKET, how it
 * does that.  README.md has the commands, and which file does what.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>

#include "base/msg.h"
#include "control.h"
#include "listener.h"
#include "pollset.h"

static int
usage(void)
{
	fputs("usage: proxy serve SOCKET NAME=PORT:TARGET ...\n"
	      "       proxy tell SOCKET NAME COMMAND [ARGUMENT] ...\n",
	    stderr);
	return EX_USAGE;
}

/* A turn: wait for something to do, and do what there is. */
static void
turn(struct listener *listeners, int control_fd, struct pollset *set)
{
	size_t control_place;

	pollset_clear(set);
	control_place = pollset_add(set, control_fd, POLLIN);
	for (struct listener *l = listeners; l != NULL; l = l->next)
		listener_want(l, set);
	pollset_wait(set);
	for (struct listener *l = listeners; l != NULL; l = l->next)
		listener_serve(l, set);
	if (pollset_events(set, control_place) != 0)
		control_serve(control_fd, listeners);
}

/* Returns where it was called wrongly. */
static int
serve(const char *path, char **names)
{
	static struct listener *listeners;
	static struct pollset set;
	int control_fd;

	for (; *names != NULL; names++)
		if (listener_add(&listeners, *names) < 0)
			return usage();
	/* Timers of 50 us more than asked are what a process has else. */
	prctl(PR_SET_TIMERSLACK, 1);
	control_fd = control_open(path);
	for (;;)
		turn(listeners, control_fd, &set);
}

static int
tell(const char *path, char **words)
{
	int status = control_tell(path, words);

	return status < 0 ? usage() : status;
}

int
main(int argc, char **argv)
{
	msg_init(argv[0]);
	signal(SIGPIPE, SIG_IGN);
	if (argc >= 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2], argv + 3);
	if (argc >= 5 && strcmp(argv[1], "tell") == 0)
		return tell(argv[2], argv + 3);
	return usage();
}
