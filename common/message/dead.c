#include "message/dead.h"

#include <stdio.h>

#include "base/msg.h"
#include "stream/pack.h"

#define OWN_HEADERS 5

static size_t
lesser(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Walks the headers, so that each is known to be of its form. */
static int
check_headers(struct slice headers, uint32_t *count, struct err *err)
{
	struct cursor cursor;
	struct header header;
	uint32_t left;
	int taken;

	if (headers_open(headers, &cursor, &left, err) < 0)
		return -1;
	*count = left;
	while ((taken = headers_next(&cursor, &left, &header, err)) == 1)
		continue;
	return taken;
}

int
record_around_bytes(
    struct slice key, struct slice headers, size_t *bytes, struct err *err)
{
	uint32_t count;

	if (check_headers(headers, &count, err) < 0)
		return -1;
	*bytes = key.bytes + headers.bytes + RECORD_BYTES_AROUND +
	    count * HEADER_BYTES_AROUND;
	return 0;
}

static void
pack_header(struct buf *headers, const char *name, struct slice value)
{
	pack_array(headers, 2);
	pack_text(headers, name);
	pack_bin(headers, value);
}

static void
pack_number_header(struct buf *headers, const char *name, int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	pack_header(headers, name, slice_of(text));
}

/* The source's headers and the letter's own; returns how many. */
static uint32_t
pack_headers(struct buf *headers, const struct record *record,
    const struct range *source, const char *reason, size_t source_bytes_max)
{
	struct slice kept = record->headers;
	struct cursor cursor;
	struct err ignored;
	uint32_t count = 0, left;

	if (kept.bytes > source_bytes_max ||
	    check_headers(kept, &count, &ignored) < 0)
		kept = (struct slice){NULL, 0};
	headers_open(kept, &cursor, &left, &ignored);
	buf_reset(headers);
	pack_array(headers, left + OWN_HEADERS);
	if (left > 0)
		pack_raw(headers,
		    (struct slice){
			cursor.at, (size_t)(cursor.end - cursor.at)});
	pack_header(headers, "qim-topic", source->topic);
	pack_number_header(headers, "qim-partition", source->partition);
	pack_number_header(headers, "qim-offset", record->offset);
	pack_header(headers, "qim-reason", slice_of(reason));
	pack_header(headers, "qim-program", slice_of(msg_program()));
	return left + OWN_HEADERS;
}

int
dead_make(const struct record *record, const struct range *source,
    const char *topic, const char *reason, size_t bytes_max,
    struct buf *headers, struct dispatch_record *letter, struct err *err)
{
	size_t most = lesser(DEAD_BYTES_MAX,
	    bytes_max < DEAD_BYTES_LEAST ? DEAD_BYTES_LEAST : bytes_max);
	size_t around;
	uint32_t count;

	*letter = (struct dispatch_record){
	    .topic = slice_of(topic),
	    .partition = -1,
	    .key = record->key,
	    .value = record->value,
	    .src = record->src,
	    .offset = record->offset,
	};
	letter->key.bytes = lesser(letter->key.bytes, most / 8);
	count = pack_headers(headers, record, source, reason,
	    lesser(DEAD_HEADERS_BYTES_MAX, most / 8));
	if (headers->failed)
		return err_memory(err, "dead letter");
	letter->headers = slice_of_buf(headers);
	around = letter->key.bytes + headers->bytes + RECORD_BYTES_AROUND +
	    count * HEADER_BYTES_AROUND;
	letter->value.bytes = lesser(letter->value.bytes,
	    lesser(DEAD_VALUE_BYTES_MAX, most > around ? most - around : 0));
	return 0;
}

/* Decimal digits, up to 10 below the greatest number at least. */
static bool
take_number(struct slice digits, int64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < digits.bytes; i++) {
		if (digits.data[i] < '0' || digits.data[i] > '9' ||
		    *number > INT64_MAX / 10 - 9)
			return false;
		*number = 10 * *number + (digits.data[i] - '0');
	}
	return digits.bytes > 0;
}

bool
dead_find_source(struct slice headers, struct slice *topic, int32_t *partition,
    int64_t *offset)
{
	struct cursor cursor;
	struct header header;
	struct err ignored;
	int64_t number = -1;
	uint32_t left;

	*topic = (struct slice){NULL, 0};
	*offset = -1;
	if (headers_open(headers, &cursor, &left, &ignored) < 0)
		return false;
	while (headers_next(&cursor, &left, &header, &ignored) == 1) {
		if (slice_is(header.name, "qim-topic"))
			*topic = header.value;
		else if (slice_is(header.name, "qim-partition") &&
		    !take_number(header.value, &number))
			return false;
		else if (slice_is(header.name, "qim-offset") &&
		    !take_number(header.value, offset))
			return false;
	}
	if (topic->data == NULL || number < 0 || number > INT32_MAX)
		return false;
	*partition = (int32_t)number;
	return *offset >= 0;
}
