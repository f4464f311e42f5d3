/*
 * pack - writes msgpack into a buf, through msgpack-c.
 *
 * Integers take their shortest form.  A failed allocation is seen in
 * buf->failed, once all is packed.
 */
#ifndef QIM_STREAM_PACK_H
#define QIM_STREAM_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

void pack_nil(struct buf *buf);
void pack_bool(struct buf *buf, bool value);
void pack_u64(struct buf *buf, uint64_t value);
void pack_i64(struct buf *buf, int64_t value);
void pack_f64(struct buf *buf, double value);
void pack_str(struct buf *buf, struct slice text); /* data NULL: nil */
void pack_bin(struct buf *buf, struct slice data); /* data NULL: nil */
void pack_text(struct buf *buf, const char *text);
void pack_array(struct buf *buf, uint32_t count);
void pack_map(struct buf *buf, uint32_t count);

/* Bytes that are msgpack already. */
void pack_raw(struct buf *buf, struct slice raw);

#endif
