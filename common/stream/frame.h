/*
 * frame - one msgpack bin that holds [checksum, map]: the unit of a stream.
 *
 *	c6 LLLLLLLL  92  cf CCCCCCCCCCCCCCCC  map
 *
 * The checksum is XXH3-64 of the map's bytes, or nil: unchecked.  Readers
 * take bin 8 and bin 16 too.  See qim-stream(5).
 */
#ifndef QIM_STREAM_FRAME_H
#define QIM_STREAM_FRAME_H

#include "base/buf.h"
#include "base/err.h"

/* The longest content of a frame that is read or written. */
#define FRAME_BYTES_MAX ((size_t)16 << 20)

/* What comes before the map in a frame of ours. */
#define FRAME_HEAD_BYTES 15

struct frame {
	uint8_t *memory; /* malloc()ed; map points into it */
	struct slice map;
	bool checked; /* it carried a checksum */
};

struct frame_reader {
	int fd;
	uint8_t head[5];
	size_t head_bytes; /* of head[] that were read */
	size_t want_bytes; /* length of the content, once the head is whole */
	size_t proven_bytes; /* the longest content read so far */
	uint64_t at; /* stream bytes before this frame */
	struct buf content;
};

enum frame_result {
	FRAME_EOF, /* the end, between two frames */
	FRAME_AGAIN, /* not whole yet: call again when fd is readable */
	FRAME_READY,
};

/*
 * Takes the length from the first bytes of a frame, of a stream whose bytes
 * before it are `at`.  1: *head_bytes and *content_bytes are set; 0: more of
 * the head is needed (5 are enough).
 * -1 EX_DATAERR it isn't a frame, or its length isn't allowed.
 */
int frame_parse_head(struct slice head, uint64_t at, size_t *head_bytes,
    size_t *content_bytes, struct err *err);

void frame_reader_init(struct frame_reader *reader, int fd);
void frame_reader_release(struct frame_reader *reader);

/*
 * Makes one read(2) of what the frame still lacks, never of what follows it:
 * after poll(2) it doesn't block.  FRAME_READY gives the frame to the caller,
 * walked and its checksum compared.  Memory grows with what has come, not
 * with what the head declares.
 * -1: EX_DATAERR not a frame or damaged, EX_TEMPFAIL the end came inside it,
 * EX_IOERR, EX_OSERR.
 */
int frame_read(
    struct frame_reader *reader, struct frame *frame, struct err *err);

/* Frees a frame; a zero one is fine. */
void frame_release(struct frame *frame);

/* Writes a frame whose map is the two pieces one after the other.
 * -1: EX_DATAERR longer than FRAME_BYTES_MAX, or as io_write_all(). */
int frame_write(
    int fd, struct slice first, struct slice second, struct err *err);

/* Appends a frame to a buffer, without a checksum where not `checked`;
 * -1: EX_DATAERR longer than FRAME_BYTES_MAX, EX_OSERR. */
int frame_pack(
    struct buf *buf, struct slice map, bool checked, struct err *err);

#endif
