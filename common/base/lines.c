#include "base/lines.h"

#include "base/io.h"

#define READ_BYTES ((size_t)64 << 10)

void
line_reader_init(struct line_reader *reader, int fd, size_t bytes_max)
{
	*reader = (struct line_reader){.fd = fd, .bytes_max = bytes_max};
}

void
line_reader_release(struct line_reader *reader)
{
	buf_release(&reader->data);
}

static const uint8_t *
find_newline(const struct line_reader *reader)
{
	size_t left = reader->data.bytes - reader->at;

	if (left == 0)
		return NULL;
	return memchr(reader->data.data + reader->at, '\n', left);
}

bool
line_reader_pending(const struct line_reader *reader)
{
	return find_newline(reader) != NULL;
}

static int
give(struct line_reader *reader, size_t bytes, size_t newline,
    struct slice *line)
{
	*line = (struct slice){reader->data.data + reader->at, bytes};
	reader->at += bytes + newline;
	reader->number++;
	if (bytes <= reader->bytes_max)
		return LINE_READY;
	line->bytes = reader->bytes_max;
	return LINE_TOO_LONG;
}

/* Moves the unfinished line to the front; of one that is too long already
 * only so much is kept as shows that. */
static void
make_room(struct line_reader *reader)
{
	struct buf *data = &reader->data;
	size_t left = data->bytes - reader->at;

	if (left > reader->bytes_max)
		left = reader->bytes_max + 1;
	if (left > 0 && reader->at > 0)
		memmove(data->data, data->data + reader->at, left);
	data->bytes = left;
	reader->at = 0;
}

static int
fill(struct line_reader *reader, struct err *err)
{
	struct buf *data = &reader->data;
	ssize_t got;

	make_room(reader);
	if (buf_reserve(data, READ_BYTES) < 0)
		return err_memory(err, "input: line");
	got = io_read(reader->fd, data->data + data->bytes, READ_BYTES, err);
	if (got < 0)
		return -1;
	reader->eof = got == 0;
	data->bytes += (size_t)got;
	return 0;
}

int
line_read(struct line_reader *reader, struct slice *line, struct err *err)
{
	const uint8_t *newline = find_newline(reader);
	size_t left;

	if (newline == NULL && !reader->eof) {
		if (fill(reader, err) < 0)
			return -1;
		newline = find_newline(reader);
	}
	left = reader->data.bytes - reader->at;
	if (newline != NULL)
		return give(reader,
		    (size_t)(newline - reader->data.data) - reader->at, 1,
		    line);
	if (!reader->eof)
		return LINE_AGAIN;
	return left > 0 ? give(reader, left, 0, line) : LINE_EOF;
}
