#include "stream/walk.h"

#include "stream/cursor.h"
#include "stream/guard.h"

void
frame_walk_init(struct frame_walk *walk)
{
	*walk = (struct frame_walk){0};
}

/* A map says {"end": true}, as stream_in_next() takes it. */
static bool
says_end(struct slice content)
{
	struct err ignored;
	struct cursor cursor = cursor_of(content);
	uint32_t pairs;

	if (guard_walk(content, &ignored) < 0 || cursor_array(&cursor) != 2)
		return false;
	cursor_skip(&cursor, 1);
	for (pairs = cursor_map(&cursor); pairs > 0; pairs--) {
		struct slice key = cursor_str(&cursor);

		if (slice_is(key, "end"))
			return cursor_bool(&cursor) && !cursor.bad;
		if (cursor.bad || slice_is(key, "batch"))
			return false;
		cursor_skip(&cursor, 1);
	}
	return false;
}

static bool
is_end(const struct frame_walk *walk)
{
	struct slice frame = {walk->kept, walk->frame_bytes};
	size_t head_bytes, content_bytes;
	struct err ignored;

	if (walk->frame_bytes > sizeof(walk->kept) ||
	    frame_parse_head(frame, 0, &head_bytes, &content_bytes, &ignored) !=
		1)
		return false;
	return says_end((struct slice){walk->kept + head_bytes, content_bytes});
}

/* Keeps what there is room for, of the frame's bytes so far. */
static void
keep(struct frame_walk *walk, const uint8_t *data, size_t bytes)
{
	if (walk->seen_bytes < sizeof(walk->kept)) {
		size_t room = sizeof(walk->kept) - walk->seen_bytes;

		memcpy(walk->kept + walk->seen_bytes, data,
		    bytes < room ? bytes : room);
	}
	walk->seen_bytes += bytes;
}

/* Takes bytes of the head, one by one, until the length is known. */
static int
take_head(
    struct frame_walk *walk, struct slice bytes, size_t *used, struct err *err)
{
	size_t head_bytes, content_bytes;
	int result = 0;

	while (result == 0 && *used < bytes.bytes) {
		keep(walk, bytes.data + *used, 1);
		++*used;
		result = frame_parse_head(
		    (struct slice){walk->kept, walk->seen_bytes}, walk->at,
		    &head_bytes, &content_bytes, err);
	}
	if (result == 1)
		walk->frame_bytes = head_bytes + content_bytes;
	return result;
}

int
frame_walk(
    struct frame_walk *walk, struct slice bytes, size_t *used, struct err *err)
{
	size_t left;

	*used = 0;
	if (walk->ended)
		return err_set(err, EX_DATAERR, "input: a frame after the end");
	if (walk->frame_bytes == 0 && take_head(walk, bytes, used, err) < 0)
		return -1;
	if (walk->frame_bytes == 0)
		return FRAME_AGAIN;
	left = bytes.bytes - *used;
	if (left > walk->frame_bytes - walk->seen_bytes)
		left = (size_t)(walk->frame_bytes - walk->seen_bytes);
	keep(walk, bytes.data + *used, left);
	*used += left;
	if (walk->seen_bytes < walk->frame_bytes)
		return FRAME_AGAIN;
	walk->ended = walk->frames > 0 && is_end(walk);
	walk->frames++;
	walk->at += walk->frame_bytes;
	walk->seen_bytes = walk->frame_bytes = 0;
	return FRAME_READY;
}

int
frame_walk_eof(const struct frame_walk *walk, struct err *err)
{
	if (walk->seen_bytes > 0)
		return err_set(err, EX_TEMPFAIL,
		    "input: torn: it ends inside the frame at byte %llu",
		    (unsigned long long)walk->at);
	if (walk->ended)
		return 0;
	return err_set(err, EX_TEMPFAIL, "input: torn: it ends %s",
	    walk->frames > 0 ? "without an end frame" : "before the hello");
}
