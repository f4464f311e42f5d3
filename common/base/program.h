/*
 * program - what every main() begins and ends with.
 */
#ifndef QIM_BASE_PROGRAM_H
#define QIM_BASE_PROGRAM_H

#include "base/err.h"

/* Names the program for its messages and makes sure that fds 0, 1 and 2 are
 * open, so that no file or socket takes their place; -1 EX_OSERR. */
int program_init(char **argv, struct err *err);

#endif
