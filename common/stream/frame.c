#define XXH_STATIC_LINKING_ONLY

#include "stream/frame.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/io.h"
#include "stream/cursor.h"
#include "stream/guard.h"

#define FIRST_READ_BYTES ((size_t)64 << 10)

/* The shortest content: 92 c0 80. */
#define FRAME_BYTES_MIN 3

void
frame_reader_init(struct frame_reader *reader, int fd)
{
	*reader = (struct frame_reader){.fd = fd};
	buf_init(&reader->content);
}

void
frame_reader_release(struct frame_reader *reader)
{
	buf_release(&reader->content);
}

void
frame_release(struct frame *frame)
{
	free(frame->memory);
	*frame = (struct frame){0};
}

static int
refuse(const struct frame_reader *reader, struct err *err)
{
	return err_prefix(
	    err, "input: frame at byte %llu", (unsigned long long)reader->at);
}

int
frame_parse_head(struct slice bytes, uint64_t at, size_t *head_bytes,
    size_t *content_bytes, struct err *err)
{
	const uint8_t *end = bytes.data;
	struct mp_head head = {0};

	if (bytes.bytes == 0)
		return 0;
	if (bytes.data[0] < 0xc4 || bytes.data[0] > 0xc6)
		return err_set(err, EX_DATAERR,
		    "input: frame at byte %llu: starts with 0x%02x, wants a "
		    "msgpack bin (0xc4 to 0xc6): not a qim stream",
		    (unsigned long long)at, bytes.data[0]);
	if (!mp_read_head(&end, bytes.data + bytes.bytes, &head))
		return 0;
	if (head.count < FRAME_BYTES_MIN || head.count > FRAME_BYTES_MAX)
		return err_set(err, EX_DATAERR,
		    "input: frame at byte %llu: length %lu, wants %d to %zu",
		    (unsigned long long)at, (unsigned long)head.count,
		    FRAME_BYTES_MIN, FRAME_BYTES_MAX);
	*head_bytes = (size_t)(end - bytes.data);
	*content_bytes = head.count;
	return 1;
}

/* 1 the length is known, 0 not yet, -1 EX_DATAERR. */
static int
parse_head(struct frame_reader *reader, struct err *err)
{
	size_t head_bytes;
	int result =
	    frame_parse_head((struct slice){reader->head, reader->head_bytes},
		reader->at, &head_bytes, &reader->want_bytes, err);

	if (result <= 0)
		return result;
	/* The shortest frame is as long as the longest head, so what was
	 * read beyond the head is content. */
	buf_reserve(&reader->content, sizeof(reader->head));
	buf_append(&reader->content, reader->head + head_bytes,
	    reader->head_bytes - head_bytes);
	return 1;
}

static int
at_eof(const struct frame_reader *reader, struct err *err)
{
	if (reader->head_bytes == 0)
		return FRAME_EOF;
	return err_set(err, EX_TEMPFAIL,
	    "input: torn: it ends inside the frame at byte %llu",
	    (unsigned long long)reader->at);
}

static int
read_head(struct frame_reader *reader, struct err *err)
{
	ssize_t got = io_read(reader->fd, reader->head + reader->head_bytes,
	    sizeof(reader->head) - reader->head_bytes, err);

	if (got < 0)
		return -1;
	if (got == 0)
		return at_eof(reader, err);
	reader->head_bytes += (size_t)got;
	return parse_head(reader, err) < 0 ? -1 : FRAME_AGAIN;
}

/* How much to read next: as much as an earlier frame had, or twice what has
 * come; the declared length alone is worth nothing. */
static size_t
next_read_bytes(const struct frame_reader *reader)
{
	size_t have = reader->content.bytes;
	size_t left = reader->want_bytes - have;
	size_t trusted = have > FIRST_READ_BYTES ? have : FIRST_READ_BYTES;

	if (reader->proven_bytes > have &&
	    reader->proven_bytes - have > trusted)
		trusted = reader->proven_bytes - have;
	return left < trusted ? left : trusted;
}

static int
read_content(struct frame_reader *reader, struct err *err)
{
	struct buf *content = &reader->content;
	size_t bytes = next_read_bytes(reader);
	ssize_t got;

	if (buf_reserve(content, bytes) < 0)
		return err_memory(err, "input: frame");
	got = io_read(reader->fd, content->data + content->bytes, bytes, err);
	if (got < 0)
		return -1;
	if (got == 0)
		return at_eof(reader, err);
	content->bytes += (size_t)got;
	return 0;
}

static int
open_content(struct slice content, struct frame *frame, struct err *err)
{
	struct cursor cursor = cursor_of(content);
	uint64_t declared = 0, found;

	if (guard_walk(content, err) < 0)
		return -1;
	if (cursor_array(&cursor) != 2)
		cursor.bad = true;
	frame->checked = cursor_peek(&cursor) == MP_UINT;
	if (frame->checked)
		declared = cursor_u64(&cursor);
	else
		cursor_nil(&cursor);
	if (cursor_peek(&cursor) != MP_MAP)
		cursor.bad = true;
	frame->map = cursor_raw(&cursor);
	if (!cursor_done(&cursor))
		return err_set(
		    err, EX_DATAERR, "not an array of a checksum and a map");
	found = XXH3_64bits(frame->map.data, frame->map.bytes);
	if (frame->checked && found != declared)
		return err_set(err, EX_DATAERR,
		    "checksum %016llx, its bytes have %016llx",
		    (unsigned long long)declared, (unsigned long long)found);
	return 0;
}

static int
finish(struct frame_reader *reader, struct frame *frame, struct err *err)
{
	*frame = (struct frame){.memory = reader->content.data};
	if (open_content(slice_of_buf(&reader->content), frame, err) < 0) {
		*frame = (struct frame){0};
		return refuse(reader, err);
	}
	if (reader->want_bytes > reader->proven_bytes)
		reader->proven_bytes = reader->want_bytes;
	reader->at += reader->want_bytes +
	    (reader->head[0] == 0xc4	      ? 2U
		    : reader->head[0] == 0xc5 ? 3U
					      : 5U);
	reader->head_bytes = reader->want_bytes = 0;
	buf_init(&reader->content);
	return FRAME_READY;
}

int
frame_read(struct frame_reader *reader, struct frame *frame, struct err *err)
{
	int result;

	if (reader->want_bytes == 0) {
		result = read_head(reader, err);
		if (result != FRAME_AGAIN || reader->want_bytes == 0)
			return result;
	} else if ((result = read_content(reader, err)) != 0) {
		return result;
	}
	if (reader->content.failed)
		return err_memory(err, "input: frame");
	if (reader->content.bytes < reader->want_bytes)
		return FRAME_AGAIN;
	return finish(reader, frame, err);
}

static uint64_t
hash_pieces(struct slice first, struct slice second)
{
	XXH3_state_t state;

	if (second.bytes == 0)
		return XXH3_64bits(first.data, first.bytes);
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, first.data, first.bytes);
	XXH3_64bits_update(&state, second.data, second.bytes);
	return XXH3_64bits_digest(&state);
}

static void
put_big_endian(uint8_t *at, uint64_t value, size_t bytes)
{
	while (bytes-- > 0)
		*at++ = (uint8_t)(value >> (8 * bytes));
}

/* Fills the head of a frame, whose map has `bytes`; returns its length. */
static size_t
make_head(uint8_t *head, size_t bytes, bool checked, uint64_t checksum)
{
	size_t head_bytes = checked ? FRAME_HEAD_BYTES : 7;

	head[0] = 0xc6;
	put_big_endian(head + 1, bytes + head_bytes - 5, 4);
	head[5] = 0x92;
	head[6] = checked ? 0xcf : 0xc0;
	if (checked)
		put_big_endian(head + 7, checksum, 8);
	return head_bytes;
}

static int
check_length(size_t map_bytes, struct err *err)
{
	size_t most = FRAME_BYTES_MAX - (FRAME_HEAD_BYTES - 5);

	if (map_bytes <= most)
		return 0;
	return err_set(err, EX_DATAERR,
	    "output: a frame's map of %zu bytes, the limit is %zu", map_bytes,
	    most);
}

int
frame_write(int fd, struct slice first, struct slice second, struct err *err)
{
	uint8_t head[FRAME_HEAD_BYTES];
	struct iovec pieces[3] = {{head, sizeof(head)},
	    {(void *)(uintptr_t)first.data, first.bytes},
	    {(void *)(uintptr_t)second.data, second.bytes}};

	if (check_length(first.bytes + second.bytes, err) < 0)
		return -1;
	make_head(
	    head, first.bytes + second.bytes, true, hash_pieces(first, second));
	return io_write_all(fd, pieces, 3, err);
}

int
frame_pack(struct buf *buf, struct slice map, bool checked, struct err *err)
{
	uint8_t head[FRAME_HEAD_BYTES];
	size_t head_bytes;

	if (check_length(map.bytes, err) < 0)
		return -1;
	head_bytes = make_head(
	    head, map.bytes, checked, hash_pieces(map, (struct slice){0}));
	buf_append(buf, head, head_bytes);
	buf_append(buf, map.data, map.bytes);
	return buf->failed ? err_memory(err, "output: frame") : 0;
}
