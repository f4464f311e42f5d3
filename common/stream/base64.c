#include "stream/base64.h"

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
base64_encode(struct slice bytes, struct buf *out)
{
	for (size_t i = 0; i < bytes.bytes; i += 3) {
		size_t have = bytes.bytes - i < 3 ? bytes.bytes - i : 3;
		uint32_t group = (uint32_t)bytes.data[i] << 16;
		char quad[4];

		if (have > 1)
			group |= (uint32_t)bytes.data[i + 1] << 8;
		if (have > 2)
			group |= bytes.data[i + 2];
		for (size_t k = 0; k < 4; k++)
			quad[k] = k <= have ? digits[group >> (18 - 6 * k) & 63]
					    : '=';
		buf_append(out, quad, sizeof(quad));
	}
}

static int
digit_value(uint8_t digit)
{
	const char *found = digit == '\0' ? NULL : strchr(digits, digit);

	return found == NULL ? -1 : (int)(found - digits);
}

int
base64_decode(struct slice text, struct buf *out)
{
	if (text.bytes % 4 != 0)
		return -1;
	for (size_t i = 0; i < text.bytes; i += 4) {
		const uint8_t *quad = text.data + i;
		size_t have = quad[3] != '=' ? 4 : quad[2] != '=' ? 3 : 2;
		uint32_t group = 0;
		uint8_t three[3];

		if (have < 4 && i + 4 < text.bytes)
			return -1;
		for (size_t k = 0; k < 4; k++) {
			int value = k < have ? digit_value(quad[k]) : 0;

			if (value < 0)
				return -1;
			group = group << 6 | (uint32_t)value;
		}
		for (size_t k = 0; k < 3; k++)
			three[k] = (uint8_t)(group >> (16 - 8 * k));
		buf_append(out, three, have - 1);
	}
	return 0;
}
