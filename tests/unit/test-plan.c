/*
 * Planning: every recipient exactly once, where it belongs, in chunks within
 * the limits, the same bytes whatever order the recipients came in; and dead
 * letters that surely fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/msg.h"
#include "message/dead.h"
#include "message/hash.h"
#include "message/plan.h"
#include "stream/pack.h"

#define RECIPIENTS_MOST 5000

static struct outbox outbox;

/* The message `seq` to users first, first + 1, ...; where `shuffled`, in
 * another order and some of them twice. */
static void
pack_message(struct buf *value, uint64_t seq, uint32_t first, uint32_t count,
    bool shuffled)
{
	static uint32_t users[RECIPIENTS_MOST];
	uint32_t again = shuffled && count > 1 ? count / 2 : 0, other;
	char name[32];

	for (uint32_t i = 0; i < count; i++)
		users[i] = first + i;
	for (uint32_t i = count; shuffled && i-- > 1;) {
		uint32_t k = (uint32_t)rand() % (i + 1);

		other = users[i];
		users[i] = users[k];
		users[k] = other;
	}
	buf_reset(value);
	pack_map(value, 7);
	pack_text(value, "message_id");
	pack_text(value, "m");
	pack_text(value, "conversation_id");
	pack_text(value, "c");
	pack_text(value, "conversation_seq");
	pack_u64(value, seq);
	pack_text(value, "sender");
	pack_text(value, "ann");
	pack_text(value, "created_at");
	pack_u64(value, 1);
	pack_text(value, "payload");
	pack_text(value, "hello");
	pack_text(value, "recipients");
	pack_array(value, count + again);
	for (uint32_t i = 0; i < count + again; i++) {
		snprintf(name, sizeof(name), "user-%u", users[i % count]);
		pack_text(value, name);
	}
}

/* Plans a value; all its dispatches with their partitions go to `out`. */
static int
plan_value(
    struct plan *plan, struct slice value, struct buf *out, struct err *err)
{
	struct outbox_message message;
	struct buf dispatch;
	uint32_t partition;
	int taken;

	buf_reset(out);
	if (outbox_decode(&outbox, value, &message, err) < 0 ||
	    plan_message(plan, &message, 0, err) < 0)
		return -1;
	buf_init(&dispatch);
	while (buf_reset(&dispatch),
	    (taken = plan_next(plan, &partition, &dispatch, err)) == 1) {
		pack_u64(out, partition);
		pack_bin(out, slice_of_buf(&dispatch));
	}
	buf_release(&dispatch);
	return taken;
}

/* Takes a user's number out of its name and marks it; each only once. */
static void
mark_user(struct ident user, uint32_t first, uint32_t count, bool *seen)
{
	char name[32] = {0};
	uint32_t number;

	assert_true(user.bytes.bytes < sizeof(name));
	memcpy(name, user.bytes.data, user.bytes.bytes);
	number = (uint32_t)strtoul(name + 5, NULL, 10) - first;
	assert_true(number < count);
	assert_false(seen[number]);
	seen[number] = true;
}

struct place {
	int64_t partition;
	uint32_t chunk, chunk_count;
};

/* One dispatch against the one before: order, chunks, recipients. */
static uint32_t
check_dispatch(const struct plan *plan, struct slice value, struct place *place,
    uint32_t partition, uint32_t first, uint32_t count, bool *seen)
{
	uint8_t id[HASH_BYTES];
	struct dispatch dispatch;
	struct ident user, last = {.bytes = {(const uint8_t *)"", 0}};
	struct buf scratch;
	struct err err;
	uint32_t users;

	assert_int_equal(dispatch_decode(value, &dispatch, &err), 0);
	if (partition == place->partition) {
		assert_int_equal(dispatch.chunk, place->chunk + 1);
		assert_int_equal(dispatch.chunk_count, place->chunk_count);
	} else {
		assert_true(partition > place->partition);
		assert_int_equal(place->chunk, place->chunk_count);
		assert_int_equal(dispatch.chunk, 1);
	}
	*place =
	    (struct place){partition, dispatch.chunk, dispatch.chunk_count};
	buf_init(&scratch);
	hash_dispatch_id(dispatch.conversation.bytes, dispatch.conversation_seq,
	    partition, dispatch.chunk, &scratch, id, &err);
	buf_release(&scratch);
	assert_memory_equal(id, dispatch.id, HASH_BYTES);
	users = dispatch.to_count;
	assert_true(users <= plan->recipients_max);
	if (dispatch.chunk < dispatch.chunk_count)
		assert_int_equal(users, plan->recipients_max);
	while (dispatch_next_recipient(&dispatch, &user) == 1) {
		assert_true(slice_compare(last.bytes, user.bytes) < 0);
		assert_int_equal(
		    hash_partition(user.bytes, plan->partitions), partition);
		mark_user(user, first, count, seen);
		last = user;
	}
	return users;
}

static void
check_plan(
    struct plan *plan, const struct buf *out, uint32_t first, uint32_t count)
{
	static bool seen[RECIPIENTS_MOST];
	struct cursor cursor = cursor_of(slice_of_buf(out));
	struct place place = {.partition = -1};
	uint32_t partition, users = 0;

	memset(seen, 0, sizeof(seen));
	while (!cursor_done(&cursor)) {
		partition = cursor_u32(&cursor);
		users += check_dispatch(plan, cursor_bin(&cursor), &place,
		    partition, first, count, seen);
		assert_false(cursor.bad);
	}
	assert_int_equal(place.chunk, place.chunk_count);
	assert_int_equal(users, count);
}

static void
every_recipient_once_where_it_belongs(void **state)
{
	static const uint32_t partitions[] = {1, 2, 64, 1000};
	static const uint32_t counts[] = {1, 2, 3, 50, 999, 1000, 1001, 5000};
	static const uint32_t limits[] = {1, 7, 1000};
	struct plan plan;
	struct buf value, out, again;
	struct err err;

	(void)state;
	srand(1);
	buf_init(&value);
	buf_init(&out);
	buf_init(&again);
	for (size_t i = 0; i < 4 * 8 * 3; i++) {
		uint32_t count = counts[i / 4 % 8];

		assert_int_equal(plan_init(&plan, partitions[i % 4],
				     limits[i / 32], 1000000, &err),
		    0);
		/* One planner for several messages: nothing stays behind. */
		for (uint64_t seq = 1; seq <= 3; seq++) {
			uint32_t first = (uint32_t)seq * 10000;

			pack_message(&value, seq, first, count, false);
			assert_int_equal(
			    plan_value(&plan, slice_of_buf(&value), &out, &err),
			    0);
			check_plan(&plan, &out, first, count);
			pack_message(&value, seq, first, count, true);
			assert_int_equal(plan_value(&plan, slice_of_buf(&value),
					     &again, &err),
			    0);
			assert_true(slice_equal(
			    slice_of_buf(&out), slice_of_buf(&again)));
		}
		plan_release(&plan);
	}
	buf_release(&value);
	buf_release(&out);
	buf_release(&again);
}

static void
a_dispatch_over_the_limit_is_refused_before_any(void **state)
{
	struct outbox_message message;
	struct buf value, packed;
	struct plan plan;
	struct err err;
	uint32_t partition;
	size_t least;

	(void)state;
	buf_init(&value);
	buf_init(&packed);
	pack_message(&value, 1, 0, 1, false);
	assert_int_equal(
	    outbox_decode(&outbox, slice_of_buf(&value), &message, &err), 0);
	assert_int_equal(plan_init(&plan, 64, 1000, 1000, &err), 0);
	for (least = 1000; plan_message(&plan, &message, 100, &err) == 0;)
		plan.record_bytes_max = --least;
	assert_int_equal(err.code, EX_DATAERR);
	assert_non_null(strstr(err.text, "too large: a dispatch record of"));
	plan.record_bytes_max = least + 1;
	assert_int_equal(plan_message(&plan, &message, 100, &err), 0);
	assert_int_equal(plan_next(&plan, &partition, &packed, &err), 1);
	assert_true(packed.bytes + 100 <= least + 1);
	assert_true(packed.bytes + 100 + 32 > least);
	plan_release(&plan);
	buf_release(&value);
	buf_release(&packed);
}

static void
all_dispatches_together_are_limited(void **state)
{
	static char payload[900000];
	struct outbox_message message;
	struct buf value;
	struct plan plan;
	struct err err;

	(void)state;
	buf_init(&value);
	pack_message(&value, 1, 0, 300, false);
	assert_int_equal(
	    outbox_decode(&outbox, slice_of_buf(&value), &message, &err), 0);
	memset(payload, 1, sizeof(payload));
	message.payload =
	    (struct slice){(const uint8_t *)payload, sizeof(payload)};
	assert_int_equal(plan_init(&plan, 64, 1000, 1000000, &err), 0);
	assert_int_equal(plan_message(&plan, &message, 0, &err), 0);
	plan_release(&plan);
	assert_int_equal(plan_init(&plan, 64, 1, 1000000, &err), 0);
	assert_int_equal(plan_message(&plan, &message, 0, &err), -1);
	assert_int_equal(err.code, EX_DATAERR);
	assert_string_equal(err.text,
	    "too large: dispatch records of more than 268435456 bytes "
	    "together");
	plan_release(&plan);
	buf_release(&value);
}

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
	expect_header(&letter, 5, "qim-program", "test-plan");
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
	    cmocka_unit_test(every_recipient_once_where_it_belongs),
	    cmocka_unit_test(a_dispatch_over_the_limit_is_refused_before_any),
	    cmocka_unit_test(all_dispatches_together_are_limited),
	    cmocka_unit_test(a_dead_letter_says_where_it_comes_from),
	    cmocka_unit_test(the_way_back_from_a_dead_letter),
	    cmocka_unit_test(a_letter_that_names_no_record),
	    cmocka_unit_test(a_dead_letter_fits),
	};
	int failed;

	(void)argc;
	msg_init(argv[0]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	outbox_init(&outbox);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	outbox_release(&outbox);
	return failed;
}
