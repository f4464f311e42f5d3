/*
 * jsonl - JSON lines on an output, gathered into large writes.
 */
#ifndef QIM_STREAM_JSONL_H
#define QIM_STREAM_JSONL_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

struct jsonl {
	int fd;
	struct buf lines; /* not written yet */
};

void jsonl_init(struct jsonl *jsonl, int fd);
void jsonl_release(struct jsonl *jsonl); /* drops what isn't flushed */

/* Adds a line, or an unparsed piece of text, and writes when enough has come;
 * jsonl_print() drops the reference, NULL: memory had run out.
 * -1: EX_OSERR, or as io_write_all(). */
int jsonl_print(struct jsonl *jsonl, json_t *json, struct err *err);
int jsonl_text(struct jsonl *jsonl, const char *text, struct err *err);

/* Writes what is there. */
int jsonl_flush(struct jsonl *jsonl, struct err *err);

#endif
