/*
 * figures - counters, gauges and histograms that a program shows while it
 * runs: a JSON line each second (--stats), a file for Prometheus (--prom).
 *
 * A figure is a static variable beside the code that counts it; a program's
 * table names those it shows.  Each has one writer, the main thread, which
 * stores without a lock: a figure that nobody looks at costs an addition.
 *
 * A thread of its own writes them out, so that a stage that waits in a write
 * of its output is still seen.  It never stops the stage: what can't be
 * written is dropped and counted.  docs/adr/0009 says why it is so, the page
 * qim-figures(5) what each figure means.
 */
#ifndef QIM_BASE_FIGURES_H
#define QIM_BASE_FIGURES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

enum figure_type {
	FIGURE_COUNTER, /* only rises */
	FIGURE_GAUGE,
	FIGURE_SECONDS, /* a gauge kept in microseconds */
	FIGURE_TIME, /* a moment of clock_us(), shown as Unix time */
	FIGURE_HISTOGRAM, /* of microseconds, shown in seconds */
};

/* A gauge that isn't known: it isn't shown. */
#define FIGURE_UNKNOWN UINT64_MAX

/* Upper bounds of a histogram's buckets, in microseconds; one more bucket
 * holds what is above all of them. */
#define FIGURE_BOUNDS 18
extern const uint64_t figure_bounds_us[FIGURE_BOUNDS];

#define FIGURE_LABELS 2

struct figure_label {
	const char *name; /* NULL: no more labels */
	const char *value;
};

/*
 * A series, or a family: the head of series that are added while the program
 * runs, one for each value of its labels (a node, a partition).  Series of one
 * name stand together in a table and have the same help.
 */
struct figure {
	const char *name; /* qim_..., by the conventions of Prometheus */
	const char *help; /* a sentence; no backslash, no newline */
	enum figure_type type;
	struct figure_label labels[FIGURE_LABELS];
	int is_family; /* shows only what was added to it */
	_Atomic uint64_t value; /* of a histogram: the sum */
	_Atomic uint64_t buckets[FIGURE_BOUNDS + 1];
	_Atomic(struct figure *) next; /* of the family's series */
	struct figure *last; /* of a family, for who adds */
	int32_t number; /* for the program's own use */
};

/* The usual ones: struct figure lost = FIGURE_COUNTS("qim_...", "..."). */
#define FIGURE_COUNTS(its_name, its_help) \
	{ \
		.name = its_name, .help = its_help, .type = FIGURE_COUNTER \
	}
#define FIGURE_GAUGES(its_name, its_help) \
	{ \
		.name = its_name, .help = its_help, .type = FIGURE_GAUGE \
	}
/* One of the series of a name, told apart by a label. */
#define FIGURE_LABELLED(its_name, its_help, its_type, its_label, its_value) \
	{ \
		.name = its_name, .help = its_help, .type = its_type, \
		.labels = { \
			{its_label, its_value} \
		} \
	}

static inline uint64_t
figure_get(const struct figure *figure)
{
	return atomic_load_explicit(&figure->value, memory_order_relaxed);
}

static inline void
figure_set(struct figure *figure, uint64_t value)
{
	atomic_store_explicit(&figure->value, value, memory_order_relaxed);
}

static inline void
figure_add(struct figure *figure, uint64_t more)
{
	figure_set(figure, figure_get(figure) + more);
}

/* Takes a time into a histogram. */
void figure_observe(struct figure *figure, uint64_t us);

/* Adds a series to a family, with these values of its labels, which are
 * copied, a number of the caller's and a first value; it lives as long as the
 * program.  NULL: no memory, EX_OSERR.
 * For the main thread; the writing thread may walk the family meanwhile. */
struct figure *figure_add_series(struct figure *family,
    const char *const *labels, int32_t number, uint64_t value, struct err *err);

/* The first and the next series of a family; NULL at the end. */
struct figure *figure_next(const struct figure *figure);

/* What a program shows, and where; filled from its options. */
struct figures_options {
	struct figure *const *table; /* NULL ends it */
	const char *stats; /* --stats: a file, or a descriptor's number */
	const char *prom; /* --prom: a folder */
	const char *chain; /* --chain: the label, and part of file names */
};

/* Checks the options and opens what they name; starts nothing.
 * -1: EX_USAGE a chain's name, EX_CONFIG a descriptor that is the program's
 * own, EX_NOINPUT what can't be opened or written to. */
int figures_open(const struct figures_options *options, struct err *err);

/* Begins to write, at once and then each second; nothing where neither is
 * asked for.  -1 EX_OSERR. */
int figures_start(struct err *err);

/* True where they are written: what costs more than an addition is only
 * done then. */
int figures_are_on(void);

/* Has `sample` called by the writing thread before it writes each time, to
 * set figures that nothing else sets. */
void figures_set_sample(void (*sample)(void));

/* Ends the thread and writes the last line and file, with the exit code, if
 * anything was opened.  Waits for seconds at most. */
void figures_end(int code);

#endif
