/*
 * pick - some fields of a record's value, whatever else is in it.
 *
 * The value is a map in msgpack or an object in JSON, told apart by its first
 * byte, or else text whose words have the form name=value.  Fields are found
 * at the top level; of two with the same name the first one counts.
 */
#ifndef QIM_MESSAGE_PICK_H
#define QIM_MESSAGE_PICK_H

#include "message/json.h"

struct pick_field {
	const char *name;
	/* Its content: of a str, a bin or a word as it is, of an integer its
	 * decimal digits.  Points into the value, the pick or this struct. */
	struct slice bytes;
	char digits[24];
};

/* Memory that is reused from one value to the next. */
struct pick {
	struct json json;
	struct buf converted; /* the value, where it came as JSON */
};

void pick_init(struct pick *pick);
void pick_release(struct pick *pick);

/* Fills the fields' bytes.  -1: EX_DATAERR where there is no value, it isn't
 * whole, or a field isn't in it or is of another type; EX_OSERR. */
int pick_fields(struct pick *pick, struct slice value,
    struct pick_field *fields, size_t count, struct err *err);

/* A field of digits alone, up to INT64_MAX; -1 EX_DATAERR. */
int pick_number(
    const struct pick_field *field, uint64_t *number, struct err *err);

#endif
