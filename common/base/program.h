/*
 * program - what every main() begins with.
 */
#ifndef QIM_BASE_PROGRAM_H
#define QIM_BASE_PROGRAM_H

#include <stddef.h>

#include "base/err.h"
#include "base/opt.h"

/* Names the program for its messages, makes sure that fds 0, 1 and 2 are
 * taken, so that no file or socket takes their place (using one that was
 * closed is an error), parses the options, and
 * opens what --stats and --prom name: as opt_parse(), figures_open(), and -1
 * EX_OSERR. */
int program_begin(int argc, char **argv, const struct opt *table, int operands,
    const char *synopsis, struct opt_common *common, struct err *err);

/* Signals as base/signals.h, and --with-parent; once the options are checked.
 * Figures are written from here on, but with --check.
 * -1: EX_OSERR, EX_TEMPFAIL the parent has ended already. */
int program_signals(const struct opt_common *common, struct err *err);

/* What a stage ends with: tells *err where the result is negative, and writes
 * the last figures.  Returns the exit code. */
int program_end(int result, const struct err *err);

/* malloc(3) for a library that can't do without: where there is no memory it
 * says so and ends the program with EX_OSERR.  jansson wants it, by
 * json_set_alloc_funcs(program_alloc, free): it takes a failure for text that
 * isn't UTF-8 or JSON, or aborts. */
void *program_alloc(size_t bytes);

#endif
