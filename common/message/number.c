#include "message/number.h"

#include <math.h>
#include <stdlib.h>

#include "stream/pack.h"

static size_t
scan_digits(struct slice text, size_t at)
{
	while (at < text.bytes && text.data[at] >= '0' && text.data[at] <= '9')
		at++;
	return at;
}

static bool
has_byte(struct slice text, size_t at, char c, char other)
{
	return at < text.bytes &&
	    (text.data[at] == c || text.data[at] == other);
}

/* The bytes of the number at the start of `text`, 0 where it isn't one, and
 * how many of them are its integer part with the sign. */
static size_t
scan_number(struct slice text, size_t *integer)
{
	size_t first = has_byte(text, 0, '-', '-'), at, start;

	at = scan_digits(text, first);
	if (at == first || (text.data[first] == '0' && at > first + 1))
		return 0;
	*integer = at;
	if (has_byte(text, at, '.', '.')) {
		start = at + 1;
		at = scan_digits(text, start);
		if (at == start)
			return 0;
	}
	if (has_byte(text, at, 'e', 'E')) {
		start = at + 1;
		start += has_byte(text, start, '+', '-');
		at = scan_digits(text, start);
		if (at == start)
			return 0;
	}
	return at;
}

/* Packs an integer that fits 64 bits; false when it doesn't. */
static bool
pack_integer(struct buf *out, struct slice digits)
{
	bool negative = digits.data[0] == '-';
	uint64_t value = 0;

	for (size_t i = negative; i < digits.bytes; i++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(
			value, (uint64_t)(digits.data[i] - '0'), &value))
			return false;
	if (negative && value > (uint64_t)INT64_MAX + 1)
		return false;
	if (negative)
		pack_i64(out, (int64_t)(0 - value));
	else
		pack_u64(out, value);
	return true;
}

enum number_result
number_pack(struct slice text, struct buf *out)
{
	size_t integer = 0;
	double value;

	if (text.bytes == 0 || scan_number(text, &integer) != text.bytes)
		return NUMBER_INVALID;
	if (integer == text.bytes && pack_integer(out, text))
		return NUMBER_PACKED;
	value = strtod((const char *)text.data, NULL);
	if (isinf(value))
		return NUMBER_TOO_LARGE;
	pack_f64(out, value);
	return NUMBER_PACKED;
}
