/*
 * field - the fields of a msgpack map whose names are known.
 *
 * Names are found by length and bytes, the one that is due first: writers
 * keep their order, so that mostly one comparison finds it.
 */
#ifndef QIM_MESSAGE_FIELD_H
#define QIM_MESSAGE_FIELD_H

#include "base/buf.h"
#include "base/err.h"

struct field {
	const char *name;
	size_t bytes; /* of name, without NUL */
};

/* An entry of a table; a table has at most 32. */
#define FIELD(text) \
	{ \
		text, sizeof(text) - 1 \
	}

#define FIELD_UNKNOWN (-1)

/* The index of `name` in `fields`, where `due` is tried first, or
 * FIELD_UNKNOWN. */
int field_find(
    const struct field *fields, int count, int due, struct slice name);

/* -1 EX_DATAERR names the first field of `fields` whose bit of `wanted` isn't
 * in `seen`. */
int field_check_seen(const struct field *fields, int count, uint32_t seen,
    uint32_t wanted, struct err *err);

/* Packs the field's name. */
void field_pack(struct buf *buf, const struct field *field);

#endif
