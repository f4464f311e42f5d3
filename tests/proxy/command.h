/*
 * command - what a proxy is told while it runs: a table of the commands that
 * README.md has.
 */
#ifndef QIM_TESTS_PROXY_COMMAND_H
#define QIM_TESTS_PROXY_COMMAND_H

#include "listener.h"

/* A command, and its answer, with its NUL. */
#define COMMAND_BYTES 256

/* NAME COMMAND [DIRECTION [VALUE]] */
#define COMMAND_WORDS 4

/* Does for each of `listeners` with the name words[0] what words[1] says; of
 * the `count` words those that are missing are NULL.  Not between the wait and
 * the serving of a turn.  `answer` begins with "ok", or with "error" where
 * that isn't a command, or for none; listeners before one that failed have
 * done it. */
void command_run(struct listener *listeners, char **words, int count,
    char answer[COMMAND_BYTES]);

#endif
