/* base64 - RFC 4648 with padding, for showing bytes that aren't text. */
#ifndef QIM_STREAM_BASE64_H
#define QIM_STREAM_BASE64_H

#include "base/buf.h"

/* Appends the encoding, without a NUL. */
void base64_encode(struct slice bytes, struct buf *out);

/* Appends the bytes; -1: not base64 with padding. */
int base64_decode(struct slice text, struct buf *out);

#endif
