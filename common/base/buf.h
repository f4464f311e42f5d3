/*
 * buf - a byte buffer that grows, and a slice that points into one.
 *
 * A failed allocation marks the buffer and makes later appends do nothing,
 * so that a writer of many small pieces checks `failed` once at the end.
 */
#ifndef QIM_BASE_BUF_H
#define QIM_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that belong to somebody else.  data NULL is nil, not empty. */
struct slice {
	const uint8_t *data;
	size_t bytes;
};

struct buf {
	uint8_t *data;
	size_t bytes; /* used */
	size_t room; /* allocated */
	bool failed; /* an allocation failed: the content is not whole */
};

/* The largest buffer; a request above it fails as if memory had run out. */
#define BUF_BYTES_MAX ((size_t)1 << 30)

void buf_init(struct buf *buf);
void buf_reset(struct buf *buf); /* empty and not failed; keeps the memory */
void buf_release(struct buf *buf); /* frees the memory */

/* Makes room for `more` bytes; 0, or -1 and `failed`. */
int buf_reserve(struct buf *buf, size_t more);

static inline void
buf_append(struct buf *buf, const void *data, size_t bytes)
{
	if (buf->room - buf->bytes < bytes && buf_reserve(buf, bytes) < 0)
		return;
	if (bytes > 0 && !buf->failed) {
		memcpy(buf->data + buf->bytes, data, bytes);
		buf->bytes += bytes;
	}
}

static inline struct slice
slice_of(const char *text)
{
	return (struct slice){(const uint8_t *)text, strlen(text)};
}

static inline struct slice
slice_of_buf(const struct buf *buf)
{
	return (struct slice){buf->data, buf->bytes};
}

bool slice_equal(struct slice a, struct slice b);
bool slice_is(struct slice slice, const char *text);

/* memcmp() order, a prefix first. */
int slice_compare(struct slice a, struct slice b);

/* A malloc()ed NUL-terminated copy, or NULL when memory ran out. */
char *slice_dup(struct slice slice);

/* a * b, or SIZE_MAX where that doesn't fit: an allocation of it fails. */
size_t checked_multiply(size_t a, size_t b);

#endif
