#include "base/buf.h"

#include <stdlib.h>

#define BUF_BYTES_FIRST 256

void
buf_init(struct buf *buf)
{
	*buf = (struct buf){0};
}

void
buf_reset(struct buf *buf)
{
	buf->bytes = 0;
	buf->failed = false;
}

void
buf_release(struct buf *buf)
{
	free(buf->data);
	buf_init(buf);
}

int
buf_reserve(struct buf *buf, size_t more)
{
	size_t room = buf->room == 0 ? BUF_BYTES_FIRST : buf->room;
	uint8_t *data;

	if (buf->failed || more > BUF_BYTES_MAX - buf->bytes) {
		buf->failed = true;
		return -1;
	}
	if (buf->room - buf->bytes >= more)
		return 0;
	while (room - buf->bytes < more)
		room *= 2;
	data = realloc(buf->data, room);
	if (data == NULL) {
		buf->failed = true;
		return -1;
	}
	buf->data = data;
	buf->room = room;
	return 0;
}

bool
slice_equal(struct slice a, struct slice b)
{
	return a.bytes == b.bytes &&
	    (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

bool
slice_is(struct slice slice, const char *text)
{
	return slice_equal(slice, slice_of(text));
}

int
slice_compare(struct slice a, struct slice b)
{
	size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
	int order = common == 0 ? 0 : memcmp(a.data, b.data, common);

	if (order != 0)
		return order;
	return (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

char *
slice_dup(struct slice slice)
{
	char *copy = malloc(slice.bytes + 1);

	if (copy == NULL)
		return NULL;
	if (slice.bytes > 0)
		memcpy(copy, slice.data, slice.bytes);
	copy[slice.bytes] = '\0';
	return copy;
}

size_t
checked_multiply(size_t a, size_t b)
{
	size_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}
