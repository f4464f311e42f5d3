/*
 * record - the records inside a batch, packed and taken one by one.
 */
#ifndef QIM_STREAM_RECORD_H
#define QIM_STREAM_RECORD_H

#include "stream/stream.h"

/* A record of a records stream; a slice with data NULL is nil. */
struct record {
	uint32_t src; /* index into the batch's ranges */
	int64_t offset;
	int64_t timestamp_ms; /* -1: none */
	struct slice key, value;
	struct slice headers; /* raw msgpack: [[name, value], ...]; nil */
};

/* A record of a dispatches stream: to be produced. */
struct dispatch_record {
	struct slice topic; /* nil: dispatch-produce's -t */
	int32_t partition; /* -1: by the key */
	struct slice key, value;
	struct slice headers;
	uint32_t src; /* the source record it comes from */
	int64_t offset;
};

struct header {
	struct slice name;
	struct slice value; /* nil: data NULL */
};

void record_pack(struct buf *buf, const struct record *record);
void dispatch_record_pack(
    struct buf *buf, const struct dispatch_record *record);

/* Takes the next record: 1, 0 when there are no more, -1 EX_DATAERR where it
 * isn't one or names a source outside the batch's ranges. */
int record_next(struct batch *batch, struct record *record, struct err *err);
int dispatch_record_next(
    struct batch *batch, struct dispatch_record *record, struct err *err);

/* Opens raw headers (nil: none) and takes them one by one: 1, 0 no more,
 * -1 EX_DATAERR.  `left` counts those to come. */
int headers_open(struct slice headers, struct cursor *cursor, uint32_t *left,
    struct err *err);
int headers_next(struct cursor *cursor, uint32_t *left, struct header *header,
    struct err *err);

#endif
