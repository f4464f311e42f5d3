/*
 * Random damage behind good checksums, which a hostile or broken writer sends:
 * streams whose frames are whole and whose maps aren't, messages and dispatches
 * that aren't ones.  All is taken or refused with its code; nothing is read
 * beyond its end (make check-asan), no memory is taken for what is declared.
 *
 * The golden streams are what is damaged.  QIM_SEEDS= sets how many times,
 * QIM_FIRST_SEED= the first; the seed of a failure is printed.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "message/outbox.h"
#include "message/plan.h"
#include "stream/pack.h"
#include "stream/record.h"

#define SEEDS_DEFAULT 2000
#define MEMORY_MOST ((rlim_t)256 << 20)
#define MAPS_MAX 32
#define VALUES_MAX 32

static const char *const golden[] = {"records", "dispatches", "receipts"};
#define STREAMS (sizeof(golden) / sizeof(golden[0]))

/* Maps of frames, and the values of records in them. */
static struct {
	struct slice maps[MAPS_MAX];
	size_t count;
} streams[STREAMS];
static struct slice values[2][VALUES_MAX]; /* messages, dispatches */
static size_t value_count[2];

static struct outbox outbox;
static uint64_t random_state;
static unsigned long taken_count, refused_count;

/* splitmix64 */
static uint64_t
random_number(uint64_t below)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % below;
}

static uint64_t
setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* What msgpack's heads begin with, and the ends of ranges. */
static uint8_t
telling_byte(void)
{
	static const uint8_t bytes[] = {0x00, 0x01, 0x7f, 0x80, 0x8f, 0x90,
	    0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc4, 0xc6, 0xca, 0xcb, 0xcf, 0xd3,
	    0xd4, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xe0, 0xff, '{', '"',
	    '\\', ','};

	return bytes[random_number(sizeof(bytes))];
}

/* One thing is other than it was; an empty buffer stays as it is. */
static void
damage_once(struct buf *buf)
{
	size_t at, bytes;

	if (buf->bytes == 0)
		return;
	at = random_number(buf->bytes);
	bytes = 1 + random_number(8);
	if (bytes > buf->bytes - at)
		bytes = buf->bytes - at;
	switch (random_number(6)) {
	case 0:
		buf->data[at] ^= (uint8_t)(1U << random_number(8));
		break;
	case 1:
		buf->data[at] = telling_byte();
		break;
	case 2:
		memset(buf->data + at, 0xff, bytes);
		break;
	case 3: /* a piece is missing */
		memmove(buf->data + at, buf->data + at + bytes,
		    buf->bytes - at - bytes);
		buf->bytes -= bytes;
		break;
	case 4: /* a piece comes twice */
		buf_reserve(buf, bytes);
		memmove(
		    buf->data + at + bytes, buf->data + at, buf->bytes - at);
		buf->bytes += bytes;
		break;
	default:
		buf->bytes = at;
	}
}

/* A copy of its own, so that a byte beyond it is noticed. */
static uint8_t *
damaged(struct slice good, size_t *bytes)
{
	struct buf buf;
	uint8_t *copy;

	buf_init(&buf);
	buf_append(&buf, good.data, good.bytes);
	for (uint64_t n = random_number(4); n > 0; n--)
		damage_once(&buf);
	copy = malloc(buf.bytes + 1);
	assert_non_null(copy);
	if (buf.bytes > 0)
		memcpy(copy, buf.data, buf.bytes);
	*bytes = buf.bytes;
	buf_release(&buf);
	return realloc(copy, *bytes > 0 ? *bytes : 1);
}

static void
check_code(uint64_t seed, const char *what, int result, const struct err *err)
{
	taken_count += result >= 0;
	refused_count += result < 0;
	if (result < 0 && err->code != EX_DATAERR && err->code != EX_TEMPFAIL &&
	    err->code != EX_PROTOCOL)
		fail_msg("seed %llu: %s: exit code %d: %s",
		    (unsigned long long)seed, what, err->code, err->text);
}

/* --- streams ----------------------------------------------------------------
 */

static int
take_records(struct stream_item *item, enum stream_kind kind, struct err *err)
{
	struct dispatch_record dispatch;
	struct record record;
	int more;

	do
		more = kind == STREAM_DISPATCHES
		    ? dispatch_record_next(&item->batch, &dispatch, err)
		    : record_next(&item->batch, &record, err);
	while (more == 1);
	return more;
}

static int
read_stream(int fd, struct err *err)
{
	struct stream_in in;
	struct stream_item item;
	int event, result = 0;

	stream_in_init(&in, fd, STREAM_ANY);
	do {
		event = stream_in_wait(&in, &item, err);
		if (event == STREAM_BATCH)
			result = take_records(&item, in.hello.kind, err);
		if (event >= 0)
			stream_item_release(&item);
	} while (event >= 0 && event != STREAM_END && result == 0);
	stream_in_release(&in);
	return event < 0 ? event : result;
}

/* One of its frames is damaged, and has the checksum of what it is now. */
static void
try_stream(uint64_t seed)
{
	size_t which = random_number(STREAMS), bytes;
	size_t bad = random_number(streams[which].count);
	int fd = memfd_create("stream", MFD_CLOEXEC), result;
	struct buf stream;
	struct err err = {0};

	buf_init(&stream);
	for (size_t i = 0; i < streams[which].count; i++) {
		struct slice map = streams[which].maps[i];
		uint8_t *copy = NULL;

		if (i == bad) {
			copy = damaged(map, &bytes);
			map = (struct slice){copy, bytes};
		}
		assert_int_equal(frame_pack(&stream, map, true, &err), 0);
		free(copy);
	}
	assert_int_equal(
	    write(fd, stream.data, stream.bytes), (ssize_t)stream.bytes);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	result = read_stream(fd, &err);
	check_code(seed, golden[which], result, &err);
	close(fd);
	buf_release(&stream);
}

/* --- values -----------------------------------------------------------------
 */

/* All that is planned can be decoded again. */
static int
plan_all(const struct outbox_message *message, struct err *err)
{
	struct plan plan;
	struct dispatch dispatch;
	struct buf value;
	uint32_t partition;
	int more = plan_init(&plan, 8, 3, 1 << 20, err);

	assert_int_equal(more, 0);
	buf_init(&value);
	if (plan_message(&plan, message, 0, err) < 0)
		more = -1;
	while (more == 0 &&
	    (more = plan_next(&plan, &partition, &value, err)) == 1) {
		more = dispatch_decode(slice_of_buf(&value), &dispatch, err);
		assert_int_equal(more, 0);
		buf_reset(&value);
	}
	buf_release(&value);
	plan_release(&plan);
	return more;
}

static void
try_message(uint64_t seed)
{
	struct outbox_message message;
	struct err err = {0};
	size_t bytes;
	uint8_t *copy =
	    damaged(values[0][random_number(value_count[0])], &bytes);
	int result =
	    outbox_decode(&outbox, (struct slice){copy, bytes}, &message, &err);

	if (result == 0)
		result = plan_all(&message, &err);
	check_code(seed, "message", result, &err);
	free(copy);
}

static void
try_dispatch(uint64_t seed)
{
	struct dispatch dispatch;
	struct ident user;
	struct err err = {0};
	size_t bytes;
	uint8_t *copy =
	    damaged(values[1][random_number(value_count[1])], &bytes);
	int result =
	    dispatch_decode((struct slice){copy, bytes}, &dispatch, &err);

	while (result == 0 && dispatch_next_recipient(&dispatch, &user) == 1)
		assert_in_range(
		    user.bytes.bytes, IDENT_BYTES_MIN, IDENT_BYTES_MAX);
	check_code(seed, "dispatch", result, &err);
	free(copy);
}

static void
test_damage(void **state)
{
	uint64_t first = setting("QIM_FIRST_SEED", 0);
	uint64_t seeds = setting("QIM_SEEDS", SEEDS_DEFAULT);
	struct rlimit old;

	(void)state;
	getrlimit(RLIMIT_AS, &old);
#ifndef __SANITIZE_ADDRESS__
	setrlimit(RLIMIT_AS, &(struct rlimit){MEMORY_MOST, old.rlim_max});
#endif
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		random_state = seed;
		try_stream(seed);
		try_message(seed);
		try_dispatch(seed);
	}
	setrlimit(RLIMIT_AS, &old);
	printf("# %lu taken, %lu refused\n", taken_count, refused_count);
	assert_true(taken_count > seeds / 10 && refused_count > seeds / 10);
}

/* --- the golden streams -----------------------------------------------------
 */

static struct slice
keep(struct slice slice)
{
	return (struct slice){(uint8_t *)slice_dup(slice), slice.bytes};
}

static void
keep_value(int kind, struct slice value)
{
	if (value.data != NULL && value_count[kind] < VALUES_MAX)
		values[kind][value_count[kind]++] = keep(value);
}

static void
keep_values(struct slice map, enum stream_kind kind)
{
	struct batch batch;
	struct dispatch_record dispatch;
	struct record record;
	struct slice src;
	struct err err;

	if (batch_decode(map, &batch, &src, &err) < 0)
		batch.rec_count = 0; /* a hello, or an end */
	while (
	    kind == STREAM_RECORDS && record_next(&batch, &record, &err) == 1)
		keep_value(0, record.value);
	while (kind == STREAM_DISPATCHES &&
	    dispatch_record_next(&batch, &dispatch, &err) == 1)
		keep_value(1, dispatch.value);
	free(batch.head.src);
}

static void
keep_stream(size_t which)
{
	struct frame_reader reader;
	struct frame frame;
	struct err err;
	char path[64];
	int fd, result;

	snprintf(path, sizeof(path), "tests/golden/%s.qim", golden[which]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	frame_reader_init(&reader, fd);
	while ((result = frame_read(&reader, &frame, &err)) != FRAME_EOF) {
		assert_true(result >= 0);
		if (result != FRAME_READY)
			continue;
		assert_true(streams[which].count < MAPS_MAX);
		streams[which].maps[streams[which].count++] = keep(frame.map);
		keep_values(frame.map, (enum stream_kind)which);
		frame_release(&frame);
	}
	frame_reader_release(&reader);
	close(fd);
}

static int
setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < STREAMS; i++)
		keep_stream(i);
	assert_true(value_count[0] > 1 && value_count[1] > 1);
	outbox_init(&outbox);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < STREAMS; i++)
		for (size_t k = 0; k < streams[i].count; k++)
			free((uint8_t *)(uintptr_t)streams[i].maps[k].data);
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < value_count[i]; k++)
			free((uint8_t *)(uintptr_t)values[i][k].data);
	outbox_release(&outbox);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_damage)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("damage", tests, setup, teardown);
}
