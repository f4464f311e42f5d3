/*
 * msg - one line on stderr in one write(2): "program: level: what: why".
 *
 * Bytes outside printable ASCII, and the backslash, are written as \xNN, so
 * that nothing a message carries can start a line of its own or move a
 * terminal's cursor.  A line is cut at MSG_LINE_BYTES, which a pipe takes
 * whole.  Where stderr takes nothing for MSG_WAIT_MS the line is dropped and
 * counted: a blocked log never stalls the data.
 */
#ifndef QIM_BASE_MSG_H
#define QIM_BASE_MSG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MSG_LINE_BYTES 2048
#define MSG_WAIT_MS 200

enum msg_level {
	MSG_ERROR, /* why the program ends */
	MSG_WARNING, /* it goes on, but a person should know; not with -q */
	MSG_NOTICE, /* what it does, rarely; not with -q */
	MSG_INFO, /* details, with -v */
};

/* Takes the last part of `path` as the program's name; kept, not copied. */
void msg_init(const char *path);

/* The name given to msg_init(). */
const char *msg_program(void);

/* The least important level that is still written; MSG_NOTICE at first. */
void msg_set_level(enum msg_level level);
enum msg_level msg_get_level(void);

void msg_write(enum msg_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes err's text as the error line and returns its code, for main(). */
int msg_fail(const struct err *err);

/* How many lines stderr hasn't taken so far. */
unsigned long msg_dropped_count(void);

/* Masks `text` into `out` (always NUL terminated); returns bytes written. */
size_t msg_mask(const char *text, size_t bytes, char *out, size_t out_bytes);

/* The same for a line that was masked where it comes from: the backslash
 * stays as it is. */
size_t msg_mask_again(
    const char *text, size_t bytes, char *out, size_t out_bytes);

/* True for a line as msg_write() makes it, of any program. */
bool msg_has_form(const char *line);

#endif
