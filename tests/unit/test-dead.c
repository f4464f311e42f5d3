/*
 * Dead letters: where they come from, the way back, and that they surely fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/msg.h"
#include "message/dead.h"
#include "stream/pack.h"

static const struct range source = {.topic = {(const uint8_t *)"outbox", 6},
    .partition = 3,
    .from = 0,
    .next = 100};

/* Header `index` of a letter is `name` with `value`. */
static void
expect_header(const struct dispatch_record *letter, uint32_t index,
    const char *name, const char *value)
{
	struct header header = {0};
	struct cursor cursor;
	struct err err;
	uint32_t left;

	assert_int_equal(
	    headers_open(letter->headers, &cursor, &left, &err), 0);
	assert_true(index < left);
	for (uint32_t i = 0; i <= index; i++)
		assert_int_equal(
		    headers_next(&cursor, &left, &header, &err), 1);
	assert_true(slice_is(header.name, name));
	assert_true(slice_is(header.value, value));
}

static void
a_dead_letter_says_where_it_comes_from(void **state)
{
	struct record record = {.src = 2, .offset = 42};
	struct dispatch_record letter;
	struct buf own, headers;
	struct err err;

	(void)state;
	buf_init(&own);
	buf_init(&headers);
	pack_array(&headers, 1);
	pack_array(&headers, 2);
	pack_text(&headers, "trace");
	pack_bin(&headers, slice_of("abc"));
	record.key = slice_of("k");
	record.value = slice_of("junk");
	record.headers = slice_of_buf(&headers);
	assert_int_equal(dead_make(&record, &source, "dead", "why", 1000000,
			     &own, &letter, &err),
	    0);
	assert_true(slice_is(letter.topic, "dead"));
	assert_int_equal(letter.partition, -1);
	assert_int_equal(letter.src, 2);
	assert_int_equal(letter.offset, 42);
	assert_true(slice_is(letter.key, "k"));
	assert_true(slice_is(letter.value, "junk"));
	expect_header(&letter, 0, "trace", "abc");
	expect_header(&letter, 1, "qim-topic", "outbox");
	expect_header(&letter, 2, "qim-partition", "3");
	expect_header(&letter, 3, "qim-offset", "42");
	expect_header(&letter, 4, "qim-reason", "why");
	expect_header(&letter, 5, "qim-program", "test-dead");
	/* Headers of another form are left out. */
	record.headers = (struct slice){(const uint8_t *)"\x91\x01", 2};
	assert_int_equal(dead_make(&record, &source, "dead", "why", 1000000,
			     &own, &letter, &err),
	    0);
	expect_header(&letter, 0, "qim-topic", "outbox");
	buf_release(&own);
	buf_release(&headers);
}

struct pair {
	const char *name, *value;
};

/* Headers of these pairs, up to one without a name. */
static void
pack_pairs(struct buf *headers, const struct pair *pairs)
{
	uint32_t count = 0;

	while (pairs[count].name != NULL)
		count++;
	buf_reset(headers);
	pack_array(headers, count);
	for (uint32_t i = 0; i < count; i++) {
		pack_array(headers, 2);
		pack_text(headers, pairs[i].name);
		pack_bin(headers, slice_of(pairs[i].value));
	}
}

static void
the_way_back_from_a_dead_letter(void **state)
{
	struct record record = {.offset = INT64_C(123456789012)};
	struct dispatch_record letter;
	struct slice topic;
	struct buf own;
	struct err err;
	int32_t partition;
	int64_t offset;

	(void)state;
	buf_init(&own);
	assert_int_equal(dead_make(&record, &source, "dead", "why", 1000000,
			     &own, &letter, &err),
	    0);
	assert_true(
	    dead_find_source(letter.headers, &topic, &partition, &offset));
	assert_true(slice_is(topic, "outbox"));
	assert_int_equal(partition, 3);
	assert_int_equal(offset, INT64_C(123456789012));
	/* Cut off: what stands before is seen. */
	letter.headers.bytes--;
	assert_true(
	    dead_find_source(letter.headers, &topic, &partition, &offset));
	letter.headers.bytes = 3;
	assert_false(
	    dead_find_source(letter.headers, &topic, &partition, &offset));
	assert_false(dead_find_source(
	    (struct slice){NULL, 0}, &topic, &partition, &offset));
	assert_false(
	    dead_find_source(slice_of("x"), &topic, &partition, &offset));
	buf_release(&own);
}

#define TOPIC \
	{ \
		"qim-topic", "t" \
	}
#define PARTITION(number) \
	{ \
		"qim-partition", number \
	}
#define OFFSET(number) \
	{ \
		"qim-offset", number \
	}

static void
a_letter_that_names_no_record(void **state)
{
	static const struct {
		struct pair pairs[5];
		bool found;
	} all[] = {
	    {{TOPIC, PARTITION("0"), OFFSET("0")}, true},
	    {{OFFSET("7"), {"x", "y"}, PARTITION("2147483647"), TOPIC}, true},
	    {{TOPIC, PARTITION("1"), PARTITION("2"), OFFSET("0")}, true},
	    {{PARTITION("0"), OFFSET("0")}, false},
	    {{TOPIC, OFFSET("0")}, false},
	    {{TOPIC, PARTITION("0")}, false},
	    {{TOPIC, PARTITION("2147483648"), OFFSET("0")}, false},
	    {{TOPIC, PARTITION("-1"), OFFSET("0")}, false},
	    {{TOPIC, PARTITION(""), OFFSET("0")}, false},
	    {{TOPIC, PARTITION("0"), OFFSET("1x")}, false},
	    {{TOPIC, PARTITION("0"), OFFSET("9223372036854775808")}, false},
	    {{TOPIC, PARTITION("0"), OFFSET("99999999999999999999")}, false},
	};
	struct slice topic;
	struct buf headers;
	int32_t partition;
	int64_t offset;

	(void)state;
	buf_init(&headers);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		pack_pairs(&headers, all[i].pairs);
		assert_int_equal(dead_find_source(slice_of_buf(&headers),
				     &topic, &partition, &offset),
		    all[i].found);
		if (i == 2)
			assert_int_equal(partition, 2);
	}
	buf_release(&headers);
}

/* What the record takes of the producer's message.max.bytes, at most. */
static size_t
record_bytes(const struct dispatch_record *record)
{
	size_t around;
	struct err err;

	assert_int_equal(
	    record_around_bytes(record->key, record->headers, &around, &err),
	    0);
	return around + record->value.bytes;
}

static void
a_dead_letter_fits(void **state)
{
	static uint8_t huge[2000000];
	static const size_t limits[] = {1000, 4096, 100000, 1000000, 15 << 20};
	static const size_t sizes[] = {0, 1, 60000, 900000, 1999000};
	char reason[ERR_TEXT_BYTES];
	struct dispatch_record letter;
	struct buf own, headers;
	struct err err;

	(void)state;
	buf_init(&own);
	buf_init(&headers);
	memset(reason, 'r', sizeof(reason));
	reason[sizeof(reason) - 1] = '\0';
	for (size_t i = 0; i < 5 * 5 * 5 * 5; i++) {
		size_t limit = limits[i % 5];
		struct record record = {.key = {huge, sizes[i / 5 % 5]},
		    .value = {huge, sizes[i / 25 % 5]}};

		buf_reset(&headers);
		pack_array(&headers, 1);
		pack_array(&headers, 2);
		pack_text(&headers, "h");
		pack_bin(&headers, (struct slice){huge, sizes[i / 125 % 5]});
		record.headers = slice_of_buf(&headers);
		assert_int_equal(dead_make(&record, &source, "dead", reason,
				     limit, &own, &letter, &err),
		    0);
		assert_true(
		    record_bytes(&letter) <= (limit < 4096 ? 4096 : limit));
		assert_true(record_bytes(&letter) <= 980000);
		assert_true(letter.value.bytes <= 900000);
		if (limit >= 100000 && sizes[i / 5 % 5] <= 1 &&
		    sizes[i / 125 % 5] <= 1 && record.value.bytes <= 60000)
			assert_int_equal(
			    letter.value.bytes, record.value.bytes);
	}
	buf_release(&own);
	buf_release(&headers);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_dead_letter_says_where_it_comes_from),
	    cmocka_unit_test(the_way_back_from_a_dead_letter),
	    cmocka_unit_test(a_letter_that_names_no_record),
	    cmocka_unit_test(a_dead_letter_fits),
	};

	(void)argc;
	msg_init(argv[0]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
