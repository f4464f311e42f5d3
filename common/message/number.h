/*
 * number - a JSON number as msgpack.
 */
#ifndef QIM_MESSAGE_NUMBER_H
#define QIM_MESSAGE_NUMBER_H

#include "base/buf.h"

enum number_result {
	NUMBER_PACKED,
	NUMBER_INVALID, /* not a number of RFC 8259 */
	NUMBER_TOO_LARGE, /* not finite as a float 64 */
};

/* Appends `text` as an integer where it is one of 64 bits, else as float 64.
 * The byte behind `text` must exist and be none that a number has: strtod(3)
 * stops there. */
enum number_result number_pack(struct slice text, struct buf *out);

#endif
