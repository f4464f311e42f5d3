/*
 * stream-make - JSON lines as stream-dump prints them, back into a stream.
 *
 * Each line of stdin is the map of one frame; it is written with the right
 * length and checksum, whatever it says: a test can ask for a frame that no
 * stage would write, and for damage.  Talks to nothing, stops at the end of
 * its input, is safe to repeat.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/lines.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "stream/base64.h"
#include "stream/pack.h"
#include "stream/stream.h"
#include "stream/view.h"

static const char synopsis[] =
    "usage: stream-make [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                   [--unchecked] [--flip bit] [--cut bytes]\n"
    "                   [--dribble]\n";

#define NOT_GIVEN UINT64_MAX

/* The JSON of the longest frame, escapes included. */
#define LINE_BYTES_MAX ((size_t)128 << 20)

static struct options {
	struct opt_common common;
	bool unchecked;
	uint64_t flip; /* bit of the whole stream, 0 the highest of byte 0 */
	uint64_t cut; /* length after which the stream stops */
	bool dribble;
} options = {.flip = NOT_GIVEN, .cut = NOT_GIVEN};

static const struct opt table[] = {
    {0, "unchecked", OPT_FLAG, &options.unchecked},
    {0, "flip", OPT_NUMBER, &options.flip, 0, UINT64_MAX - 1, "bit"},
    {0, "cut", OPT_NUMBER, &options.cut, 0, UINT64_MAX - 1, "bytes"},
    {0, "dribble", OPT_FLAG, &options.dribble},
    {0},
};

static struct {
	enum stream_kind kind; /* of the last hello */
	uint64_t written; /* bytes */
} state;

/* Writes a piece of the stream with the damage that falls into it. */
static int
emit(uint8_t *data, size_t bytes, struct err *err)
{
	uint64_t bit = options.flip - 8 * state.written;
	size_t step = options.dribble ? 1 : bytes;

	if (options.flip != NOT_GIVEN && options.flip >= 8 * state.written &&
	    bit < 8 * (uint64_t)bytes)
		data[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
	if (state.written + bytes > options.cut)
		bytes = options.cut > state.written
		    ? (size_t)(options.cut - state.written)
		    : 0;
	for (size_t at = 0; at < bytes; at += step) {
		struct iovec piece = {
		    data + at, step < bytes - at ? step : bytes - at};

		if (io_write_all(STDOUT_FILENO, &piece, 1, err) < 0)
			return -1;
	}
	state.written += bytes;
	return 0;
}

/* Keys and values are bin, and in a record these stand at fixed places. */
static bool
is_bin_place(size_t i)
{
	if (state.kind == STREAM_RECORDS)
		return i == 3 || i == 4;
	return state.kind == STREAM_DISPATCHES && (i == 2 || i == 3);
}

static int
pack_headers(struct buf *buf, const json_t *headers)
{
	if (!json_is_array(headers))
		return view_pack(buf, headers);
	pack_array(buf, (uint32_t)json_array_size(headers));
	for (size_t i = 0; i < json_array_size(headers); i++) {
		const json_t *header = json_array_get(headers, i);

		if (json_array_size(header) != 2)
			return -1;
		pack_array(buf, 2);
		if (view_pack(buf, json_array_get(header, 0)) < 0 ||
		    view_pack_bin(buf, json_array_get(header, 1)) < 0)
			return -1;
	}
	return 0;
}

static int
pack_record(struct buf *buf, const json_t *record)
{
	size_t headers_place = state.kind == STREAM_RECORDS ? 5 : 4;
	int result = 0;

	if (!json_is_array(record))
		return view_pack(buf, record);
	pack_array(buf, (uint32_t)json_array_size(record));
	for (size_t i = 0; i < json_array_size(record) && result == 0; i++) {
		const json_t *item = json_array_get(record, i);

		if (is_bin_place(i))
			result = view_pack_bin(buf, item);
		else if (i == headers_place)
			result = pack_headers(buf, item);
		else
			result = view_pack(buf, item);
	}
	return result;
}

static int
pack_records(struct buf *buf, const json_t *records)
{
	int result = 0;

	if (!json_is_array(records))
		return view_pack(buf, records);
	pack_array(buf, (uint32_t)json_array_size(records));
	for (size_t i = 0; i < json_array_size(records) && result == 0; i++)
		result = pack_record(buf, json_array_get(records, i));
	return result;
}

static void
note_kind(const json_t *frame)
{
	const char *kind = json_string_value(json_object_get(frame, "kind"));

	if (kind == NULL)
		return;
	for (state.kind = STREAM_RECORDS; state.kind < STREAM_ANY; state.kind++)
		if (strcmp(kind, stream_kind_name(state.kind)) == 0)
			return;
}

static int
pack_frame(struct buf *buf, json_t *frame)
{
	const char *key;
	json_t *value;
	int result = 0;

	note_kind(frame);
	pack_map(buf, (uint32_t)json_object_size(frame));
	json_object_foreach(frame, key, value)
	{
		pack_text(buf, key);
		if (strcmp(key, "rec") == 0)
			result = pack_records(buf, value);
		else
			result = view_pack(buf, value);
		if (result < 0)
			break;
	}
	return result;
}

static int
emit_frame(json_t *frame, struct err *err)
{
	struct buf map, whole;
	int result;

	buf_init(&map);
	buf_init(&whole);
	result = pack_frame(&map, frame);
	if (result < 0)
		err_set(err, EX_DATAERR, "a value that can't be packed");
	else if (map.failed)
		result = err_memory(err, "frame");
	else
		result = frame_pack(
		    &whole, slice_of_buf(&map), !options.unchecked, err);
	if (result == 0)
		result = emit(whole.data, whole.bytes, err);
	buf_release(&map);
	buf_release(&whole);
	return result;
}

/* {"raw": base64}: these bytes, without a frame around them. */
static int
emit_raw(const char *text, struct err *err)
{
	struct buf bytes;
	int result;

	buf_init(&bytes);
	if (base64_decode(slice_of(text), &bytes) < 0)
		result = err_set(err, EX_DATAERR, "raw: not base64");
	else
		result = emit(bytes.data, bytes.bytes, err);
	buf_release(&bytes);
	return result;
}

static int
make_line(const char *line, size_t bytes, struct err *err)
{
	json_error_t why;
	json_t *frame = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &why);
	const json_t *raw = json_object_get(frame, "raw");
	int result;

	if (frame == NULL)
		return err_set(err, EX_DATAERR, "%s", why.text);
	if (!json_is_object(frame))
		result = err_set(err, EX_DATAERR, "not a JSON object");
	else if (json_is_string(raw))
		result = emit_raw(json_string_value(raw), err);
	else
		result = emit_frame(frame, err);
	json_decref(frame);
	return result;
}

static int
run(struct line_reader *lines, struct err *err)
{
	struct slice line;
	int got;

	while ((got = line_read(lines, &line, err)) != LINE_EOF) {
		if (got == LINE_TOO_LONG)
			got = err_set(err, EX_DATAERR, "longer than %zu bytes",
			    lines->bytes_max);
		else if (got == LINE_READY && line.bytes > 0)
			got =
			    make_line((const char *)line.data, line.bytes, err);
		if (got < 0)
			return err_prefix(err, "line %llu",
			    (unsigned long long)lines->number);
	}
	return io_close_output(STDOUT_FILENO, err);
}

int
main(int argc, char **argv)
{
	struct line_reader lines;
	struct err err;
	int parsed, result;

	json_set_alloc_funcs(program_alloc, free);
	parsed = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (parsed == OPT_SHOWN)
		return EX_OK;
	if (parsed < 0)
		return msg_fail(&err);
	if (options.common.check)
		return EX_OK;
	if (program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	line_reader_init(&lines, STDIN_FILENO, LINE_BYTES_MAX);
	result = run(&lines, &err);
	line_reader_release(&lines);
	return result < 0 ? msg_fail(&err) : EX_OK;
}
