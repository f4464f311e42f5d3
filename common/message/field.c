#include "message/field.h"

#include "stream/pack.h"

static bool
is_field(const struct field *field, struct slice name)
{
	return field->bytes == name.bytes &&
	    memcmp(field->name, name.data, name.bytes) == 0;
}

int
field_find(const struct field *fields, int count, int due, struct slice name)
{
	if (name.data == NULL)
		return FIELD_UNKNOWN;
	if (due < count && is_field(&fields[due], name))
		return due;
	for (int i = 0; i < count; i++)
		if (is_field(&fields[i], name))
			return i;
	return FIELD_UNKNOWN;
}

int
field_check_seen(const struct field *fields, int count, uint32_t seen,
    uint32_t wanted, struct err *err)
{
	for (int i = 0; i < count; i++)
		if ((wanted & ~seen & 1U << i) != 0)
			return err_set(
			    err, EX_DATAERR, "no field '%s'", fields[i].name);
	return 0;
}

void
field_pack(struct buf *buf, const struct field *field)
{
	pack_str(
	    buf, (struct slice){(const uint8_t *)field->name, field->bytes});
}
