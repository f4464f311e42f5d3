#include "stream/record.h"

#include "stream/pack.h"

static void
pack_raw_or_nil(struct buf *buf, struct slice raw)
{
	if (raw.data == NULL)
		pack_nil(buf);
	else
		pack_raw(buf, raw);
}

void
record_pack(struct buf *buf, const struct record *record)
{
	pack_array(buf, 6);
	pack_u64(buf, record->src);
	pack_i64(buf, record->offset);
	pack_i64(buf, record->timestamp_ms);
	pack_bin(buf, record->key);
	pack_bin(buf, record->value);
	pack_raw_or_nil(buf, record->headers);
}

void
dispatch_record_pack(struct buf *buf, const struct dispatch_record *record)
{
	pack_array(buf, 6);
	pack_str(buf, record->topic);
	pack_i64(buf, record->partition);
	pack_bin(buf, record->key);
	pack_bin(buf, record->value);
	pack_raw_or_nil(buf, record->headers);
	pack_array(buf, 2);
	pack_u64(buf, record->src);
	pack_i64(buf, record->offset);
}

static struct slice
take_headers(struct cursor *cursor)
{
	if (cursor_peek(cursor) != MP_NIL)
		return cursor_raw(cursor);
	cursor_nil(cursor);
	return (struct slice){NULL, 0};
}

/* After a record was taken from the cursor: is it of its kind's form, is its
 * source one of the batch's? */
static int
check(struct batch *batch, uint32_t src, int64_t offset, const char *form,
    struct err *err)
{
	const struct range *range;

	if (batch->rec.bad)
		return err_set(err, EX_DATAERR,
		    "input: batch %llu: record %lu isn't of the form %s",
		    (unsigned long long)batch->head.number,
		    (unsigned long)batch->rec_taken, form);
	if (src >= batch->head.src_count)
		return err_set(err, EX_DATAERR,
		    "input: batch %llu: a record of source %lu, the batch has "
		    "%lu",
		    (unsigned long long)batch->head.number, (unsigned long)src,
		    (unsigned long)batch->head.src_count);
	range = &batch->head.src[src];
	if (offset < range->from || offset >= range->next)
		return err_set(err, EX_DATAERR,
		    "input: batch %llu: offset %lld outside its range %lld to "
		    "%lld",
		    (unsigned long long)batch->head.number, (long long)offset,
		    (long long)range->from, (long long)range->next);
	batch->rec_count--;
	batch->rec_taken++;
	return 1;
}

int
record_next(struct batch *batch, struct record *record, struct err *err)
{
	struct cursor *cursor = &batch->rec;
	uint32_t beyond;

	if (batch->rec_count == 0)
		return 0;
	beyond = cursor_array_of(cursor, 6);
	record->src = cursor_u32(cursor);
	record->offset = cursor_i64(cursor);
	record->timestamp_ms = cursor_i64(cursor);
	record->key = cursor_bin_or_nil(cursor);
	record->value = cursor_bin_or_nil(cursor);
	record->headers = take_headers(cursor);
	cursor_skip(cursor, beyond);
	return check(batch, record->src, record->offset,
	    "[src, offset, timestamp, key, value, headers]", err);
}

int
dispatch_record_next(
    struct batch *batch, struct dispatch_record *record, struct err *err)
{
	struct cursor *cursor = &batch->rec;
	uint32_t beyond, source_beyond;

	if (batch->rec_count == 0)
		return 0;
	beyond = cursor_array_of(cursor, 6);
	record->topic = cursor_str_or_nil(cursor);
	record->partition = cursor_i32(cursor);
	record->key = cursor_bin_or_nil(cursor);
	record->value = cursor_bin_or_nil(cursor);
	record->headers = take_headers(cursor);
	source_beyond = cursor_array_of(cursor, 2);
	record->src = cursor_u32(cursor);
	record->offset = cursor_i64(cursor);
	cursor_skip(cursor, source_beyond);
	cursor_skip(cursor, beyond);
	return check(batch, record->src, record->offset,
	    "[topic, partition, key, value, headers, [src, offset]]", err);
}

static int
refuse_headers(struct err *err)
{
	return err_set(
	    err, EX_DATAERR, "input: headers aren't an array of [name, value]");
}

int
headers_open(struct slice headers, struct cursor *cursor, uint32_t *left,
    struct err *err)
{
	*left = 0;
	*cursor = (struct cursor){0};
	if (headers.data == NULL)
		return 0;
	*cursor = cursor_of(headers);
	*left = cursor_array(cursor);
	return cursor->bad ? refuse_headers(err) : 0;
}

int
headers_next(struct cursor *cursor, uint32_t *left, struct header *header,
    struct err *err)
{
	if (*left == 0)
		return 0;
	if (cursor_array(cursor) != 2)
		cursor->bad = true;
	header->name = cursor_str(cursor);
	header->value = cursor_bin_or_nil(cursor);
	if (cursor->bad)
		return refuse_headers(err);
	(*left)--;
	return 1;
}
