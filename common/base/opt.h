/*
 * opt - options: a table per program over getopt_long(3).
 *
 * The options that every program has (--check, --connect-ms, --with-parent,
 * -q, -v, -h, -V) are added here, and where it has figures --stats, --prom and
 * --chain.  The synopsis given by the program is what
 * -h prints, word for word that of its manual.
 *
 *	static struct options { uint64_t batch; } options = {.batch = 512};
 *	static const struct opt table[] = {
 *	    {0, "batch", OPT_NUMBER, &options.batch, 1, 65536, "records"},
 *	    {'t', NULL, OPT_TEXT, &options.topic, .unit = "TOPIC"},
 *	    {0},
 *	};
 */
#ifndef QIM_BASE_OPT_H
#define QIM_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/figures.h"

enum opt_type {
	OPT_END,
	OPT_FLAG, /* bool: set to true */
	OPT_NUMBER, /* uint64_t: decimal, least..most */
	OPT_TEXT, /* const char *: not empty, the last one given counts */
	OPT_LIST, /* struct opt_list: as often as given, in order */
};

#define OPT_LIST_COUNT 256

struct opt_list {
	const char *text[OPT_LIST_COUNT];
	size_t count;
};

struct opt {
	char letter; /* 0: none */
	const char *name; /* NULL: none */
	enum opt_type type;
	void *to;
	uint64_t least, most; /* OPT_NUMBER */
	const char *unit; /* OPT_NUMBER: for the message, e.g. "records" */
};

struct opt_common {
	bool check; /* --check: check the settings and leave */
	bool with_parent; /* --with-parent */
	uint64_t connect_ms; /* --connect-ms, default 30,000 */
	/* Its table is set before: NULL, no such options. */
	struct figures_options figures;
};

/* Least and most of --connect-ms. */
#define OPT_CONNECT_MS_LEAST 100
#define OPT_CONNECT_MS_MOST 3600000

/* What opt_parse() returns beside -1. */
enum opt_result {
	OPT_RUN, /* go on */
	OPT_SHOWN, /* -h or -V was answered on stdout: return 0 */
};

/* Parses all of argv.  Operands are left at argv[optind]; `operands` says how
 * many are wanted at most.  Sets the level of msg for -q and -v.
 * -1 EX_USAGE names the option, the value and what is allowed. */
int opt_parse(int argc, char **argv, const struct opt *table, int operands,
    const char *synopsis, struct opt_common *common, struct err *err);

/* A decimal number without sign or blanks; -1 EX_USAGE. */
int opt_number(const char *name, const char *text, uint64_t least,
    uint64_t most, const char *unit, uint64_t *number, struct err *err);

/* A list like "0-3,7" as a sorted array without repeats that the caller
 * frees; each number at most `most`, OPT_RANGE_COUNT of them; -1 EX_USAGE. */
#define OPT_RANGE_COUNT 100000
int opt_ranges(const char *name, const char *text, uint32_t most,
    uint32_t **numbers, size_t *count, struct err *err);

/* -1 EX_USAGE "NAME: missing" where text is NULL. */
int opt_required(const char *name, const char *text, struct err *err);

#endif
