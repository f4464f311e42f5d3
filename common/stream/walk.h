/*
 * walk - where frames begin and end in bytes that pass by, for programs that
 * hand a stream on as it is.  Only lengths are believed: no checksum is
 * compared, and nothing is kept but the begin of the frame at hand.
 */
#ifndef QIM_STREAM_WALK_H
#define QIM_STREAM_WALK_H

#include "stream/frame.h"

/* A frame up to this long is looked into: is it the end? */
#define WALK_KEPT_BYTES 4096

struct frame_walk {
	uint64_t at; /* stream bytes before this frame */
	uint64_t seen_bytes; /* of this frame */
	uint64_t frame_bytes; /* its length with its head; 0: not known yet */
	uint64_t frames; /* whole ones */
	bool ended; /* the last whole one was the end */
	uint8_t kept[WALK_KEPT_BYTES]; /* this frame's first bytes */
};

void frame_walk_init(struct frame_walk *walk);

/*
 * Takes the bytes of one frame, *used of those given, which aren't none:
 * FRAME_READY the frame is whole with them, FRAME_AGAIN it needs more.
 * -1 EX_DATAERR: not a frame, or one after the end; at what `walk->at` says,
 * and the walk is over.
 */
int frame_walk(
    struct frame_walk *walk, struct slice bytes, size_t *used, struct err *err);

/* What it means that no more comes: 0 a whole stream, -1 EX_TEMPFAIL torn. */
int frame_walk_eof(const struct frame_walk *walk, struct err *err);

#endif
