#include "base/topic.h"

static bool
is_allowed(uint8_t byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	    (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' ||
	    byte == '-';
}

bool
topic_is_name(struct slice name)
{
	if (name.bytes == 0 || name.bytes > TOPIC_BYTES_MAX ||
	    slice_is(name, ".") || slice_is(name, ".."))
		return false;
	for (size_t i = 0; i < name.bytes; i++)
		if (!is_allowed(name.data[i]))
			return false;
	return true;
}

int
topic_check(const char *option, const char *name, struct err *err)
{
	if (topic_is_name(slice_of(name)))
		return 0;
	return err_set(
	    err, EX_USAGE, "%s: '%s': wants " TOPIC_WANTED, option, name);
}
