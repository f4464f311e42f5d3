/* figures-write - what the files of the figures share: pure writers. */
#ifndef QIM_BASE_FIGURES_WRITE_H
#define QIM_BASE_FIGURES_WRITE_H

#include "base/buf.h"
#include "base/figures.h"

struct figures_view {
	struct figure *const *own; /* those of every program; NULL ends it */
	struct figure *const *table; /* the program's; may be NULL */
	const char *program;
	const char *chain; /* NULL: no such label */
	uint64_t now_us; /* of clock_us() */
	uint64_t unix_us; /* the same moment in Unix time */
};

/* Appends the text format 0.0.4 of Prometheus. */
void figures_write_prom(struct buf *out, const struct figures_view *view);

/* Appends one JSON object and a newline. */
void figures_write_json(struct buf *out, const struct figures_view *view);

/* Appends formatted text, at most FIGURES_TEXT_BYTES of it. */
#define FIGURES_TEXT_BYTES 128
void figures_format(struct buf *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a number of microseconds as seconds. */
void figures_seconds(struct buf *out, uint64_t us);

/* Appends the value of a series that isn't a histogram. */
void figures_value(struct buf *out, const struct figures_view *view,
    const struct figure *figure);

/* False: a series that isn't known now. */
int figures_is_known(const struct figure *figure);

/* The figure at a place of both tables, the program's behind the own; NULL
 * behind the last. */
struct figure *figures_at(const struct figures_view *view, size_t place);

/* --- where it goes ------------------------------------------------------ */

/* --stats: lines are written whole or not at all. */
struct figures_lines {
	const char *name; /* for messages; NULL: none */
	int fd;
	int is_socket;
	struct buf rest; /* of a line that was taken in part */
	size_t rest_at;
	int has_warned;
};

/* -1 EX_CONFIG, EX_NOINPUT. */
int figures_lines_open(
    struct figures_lines *lines, const char *name, struct err *err);
void figures_lines_close(struct figures_lines *lines);

/* Writes a line, or drops it where the last one is still on its way; never
 * waits longer than wait_ms.  0, or -1: it was dropped. */
int figures_lines_write(
    struct figures_lines *lines, const struct buf *line, int wait_ms);

/* --prom: a file that is replaced as a whole, by a PATH.new: that isn't a name
 * that is collected. */
struct figures_file {
	char *path; /* NULL: none */
	int has_warned;
};

/* -1 EX_NOINPUT, EX_OSERR. */
int figures_file_open(struct figures_file *file, const char *folder,
    const char *chain, struct err *err);
void figures_file_close(struct figures_file *file);

/* 0, or -1: it stays as it was. */
int figures_file_write(struct figures_file *file, const struct buf *text);

#endif
