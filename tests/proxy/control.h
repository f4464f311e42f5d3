/*
 * control - both ends of the unix socket over which the proxy is told what to
 * do: one datagram, one command, one answer.
 */
#ifndef QIM_TESTS_PROXY_CONTROL_H
#define QIM_TESTS_PROXY_CONTROL_H

#include "listener.h"

/* The proxy's end, at `path`, in the place of what is there; the caller's,
 * doesn't block.  Who finds it finds the proxy at work, so the ports must be
 * open before.  Ends the program where it can't. */
int control_open(const char *path);

/* Takes one command from control_open()'s socket, does it, and answers where
 * the sender has an address. */
void control_serve(int fd, struct listener *listeners);

/* The other end: sends the words, up to a NULL, waits for the answer, prints
 * it, and returns EX_OK where it begins with "ok", else 1.  -1: they are too
 * long for a command.  Ends the program where nobody answers. */
int control_tell(const char *path, char **words);

#endif
