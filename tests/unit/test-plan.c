/*
 * Planning: every recipient exactly once, where it belongs, in chunks within
 * the limits, the same bytes whatever order the recipients came in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_recipient_once_where_it_belongs),
	    cmocka_unit_test(a_dispatch_over_the_limit_is_refused_before_any),
	    cmocka_unit_test(all_dispatches_together_are_limited),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	outbox_init(&outbox);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	outbox_release(&outbox);
	return failed;
}
