/*
 * copy - keeps what passes of a stream in files that rotate: FILE, FILE.1, …
 *
 * Each file begins with the stream's hello and goes on where the one before
 * ended, at a frame boundary; so each can be read alone, and without the
 * hellos of all but the first they are the stream again.  FILE is begun when
 * the hello is whole; what was FILE before is FILE.1 then.
 */
#ifndef QIM_STREAM_COPY_H
#define QIM_STREAM_COPY_H

#include "base/buf.h"
#include "base/err.h"

struct stream_copy {
	const char *path;
	uint64_t bytes_max; /* a file of so many bytes, or more, is the last
			     * frame's own: the next one goes into another */
	uint64_t files; /* as rotate_files() */
	int fd; /* -1: none yet, or stopped */
	bool stopped;
	bool has_hello; /* it is whole */
	struct buf hello;
	uint64_t bytes; /* in this file */
	uint64_t whole_bytes; /* of them in whole frames */
};

void stream_copy_init(struct stream_copy *copy, const char *path,
    uint64_t bytes_max, uint64_t files);
void stream_copy_release(struct stream_copy *copy);

/* Whether a copy may be begun there: -1 EX_NOINPUT its folder can't be
 * written to, or there is something that isn't a regular file. */
int stream_copy_check(const char *path, struct err *err);

/* True when, `more` bytes on, a frame begins that belongs into another file,
 * so that those bytes must be added by themselves. */
bool stream_copy_turns(const struct stream_copy *copy, size_t more);

/* Adds bytes, of which the first `whole` end with a frame (0: none does).
 * -1: it can't be written, and the copy is stopped; EX_IOERR, EX_NOINPUT,
 * EX_OSERR. */
int stream_copy_add(struct stream_copy *copy, struct slice bytes, size_t whole,
    struct err *err);

/* Ends the copy after the last whole frame; later bytes are passed over. */
void stream_copy_stop(struct stream_copy *copy);

#endif
