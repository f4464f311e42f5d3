#include "message/text.h"

/* The bytes of the UTF-8 sequence at `at`, or 0: RFC 3629, so no overlong
 * form, no surrogate, nothing above U+10FFFF. */
static size_t
sequence_bytes(const uint8_t *at, size_t left)
{
	uint8_t least = 0x80, most = 0xbf; /* of the second byte */
	size_t bytes;

	if (at[0] < 0xc2 || at[0] > 0xf4)
		return 0;
	bytes = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	if (at[0] == 0xe0)
		least = 0xa0;
	else if (at[0] == 0xed)
		most = 0x9f;
	else if (at[0] == 0xf0)
		least = 0x90;
	else if (at[0] == 0xf4)
		most = 0x8f;
	if (left < bytes || at[1] < least || at[1] > most)
		return 0;
	for (size_t i = 2; i < bytes; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return bytes;
}

/* In each byte's high bit: is it 0?  Exact up to the first that is. */
static uint64_t
zero_bytes(uint64_t word)
{
	return (word - 0x0101010101010101) & ~word & 0x8080808080808080;
}

/* Eight bytes at once: none is a control, quote, backslash or non-ASCII. */
static bool
is_plain_word(const uint8_t *at)
{
	const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return ((word | zero_bytes(word ^ ones * '"') |
		    zero_bytes(word ^ ones * '\\') | (word - ones * 0x20)) &
		   highs) == 0;
}

size_t
text_plain(struct slice text)
{
	size_t at = 0, bytes;

	while (text.bytes - at >= 8 && is_plain_word(text.data + at))
		at += 8;
	/* What is left of them, with bytes before it that are plain. */
	if (at > 0 && text.bytes - at < 8 &&
	    is_plain_word(text.data + text.bytes - 8))
		return text.bytes;
	while (at < text.bytes) {
		uint8_t c = text.data[at];

		if (c < 0x20 || c == '"' || c == '\\')
			break;
		bytes = c < 0x80
		    ? 1
		    : sequence_bytes(text.data + at, text.bytes - at);
		if (bytes == 0)
			break;
		at += bytes;
	}
	return at;
}

/* The value of the \uXXXX at `at`, or -1. */
static int32_t
read_unit(const uint8_t *at, size_t left)
{
	int32_t unit = 0;

	if (left < 6 || at[0] != '\\' || at[1] != 'u')
		return -1;
	for (size_t i = 2; i < 6; i++) {
		uint8_t c = at[i];

		if (c >= '0' && c <= '9')
			unit = unit << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			unit = unit << 4 | ((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return unit;
}

static void
append_utf8(struct buf *out, uint32_t point)
{
	uint8_t bytes[4];
	size_t count = point < 0x80 ? 1
	    : point < 0x800	    ? 2
	    : point < 0x10000	    ? 3
				    : 4;
	static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = count - 1; i > 0; i--) {
		bytes[i] = (uint8_t)(0x80 | (point & 0x3f));
		point >>= 6;
	}
	bytes[0] = (uint8_t)(first[count] | point);
	buf_append(out, bytes, count);
}

static size_t
unescape_unit(struct slice text, struct buf *out)
{
	int32_t high = read_unit(text.data, text.bytes), low;

	if (high < 0 || (high >= 0xdc00 && high <= 0xdfff))
		return 0;
	if (high < 0xd800 || high > 0xdbff) {
		append_utf8(out, (uint32_t)high);
		return 6;
	}
	low = read_unit(text.data + 6, text.bytes - 6);
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	append_utf8(out,
	    0x10000 + ((uint32_t)(high - 0xd800) << 10) +
		(uint32_t)(low - 0xdc00));
	return 12;
}

size_t
text_unescape(struct slice text, struct buf *out)
{
	static const char letters[] = "\"\\/bfnrt";
	static const char bytes[] = "\"\\/\b\f\n\r\t";
	const char *letter;

	if (text.bytes < 2 || text.data[0] != '\\')
		return 0;
	if (text.data[1] == 'u')
		return unescape_unit(text, out);
	letter = memchr(letters, text.data[1], sizeof(letters) - 1);
	if (letter == NULL)
		return 0;
	buf_append(out, &bytes[letter - letters], 1);
	return 2;
}
