/*
 * text - the content of JSON strings.
 */
#ifndef QIM_MESSAGE_TEXT_H
#define QIM_MESSAGE_TEXT_H

#include "base/buf.h"

/* The bytes at the start of `text` that stand for themselves in a JSON
 * string: valid UTF-8 without control characters, quote or backslash. */
size_t text_plain(struct slice text);

/* Appends what the escape at the start of `text`, its backslash included,
 * stands for; returns the bytes it takes (12 for a pair of surrogates), or 0
 * where it isn't one. */
size_t text_unescape(struct slice text, struct buf *out);

#endif
