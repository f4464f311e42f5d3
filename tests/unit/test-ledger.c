/*
 * The ledger: a small world of messages, dispatches and mailboxes has nothing
 * wrong, however often it is told; each fact that is left out or changed is
 * found, and what can't be known any more is not.
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
#include "message/ledger-outbox.h"
#include "stream/pack.h"

#define SEED 0x5eed
#define PARTITIONS 4
#define MESSAGES 40
#define USERS 30
#define COPIES (MESSAGES * PARTITIONS * 4)

/* A dispatch in the topic. */
struct copy {
	uint32_t partition;
	int64_t offset;
	struct buf value;
	bool is_repeat; /* of another one before */
	int64_t first; /* offset of that */
};

/* What is left out or changed when the world is told. */
static struct change {
	int skip_entry, skip_claim, move_entry, other_digest; /* by number */
	int own_entry, skip_conv, late_top, extra_entry;
	int skip_copy, skip_plan;
	bool trimmed; /* all boxes, by their floors */
	bool old; /* claims may have gone */
	int64_t low;
	uint64_t mark; /* UINT64_MAX: at the end */
	bool undue;
} change;

static struct ledger ledger;
static struct outbox decoder;
static struct plan plan;
static struct ledger_outbox planner;
static struct buf messages[MESSAGES];
static struct copy copies[COPIES];
static size_t copy_count;
static int64_t ends[PARTITIONS];
static struct err err;
static enum ledger_kind last_kind;

static int
note(const struct finding *finding, struct err *ignored)
{
	(void)ignored;
	assert_non_null(finding->why);
	last_kind = finding->kind;
	return 0;
}

static void
pack_message(struct buf *buf, unsigned number)
{
	char text[32];
	struct outbox_message message = {
	    .conversation_seq = number / 4 + 1, .created_at_ms = 1000 + number};
	static struct ident to[USERS];
	static char names[USERS][16];

	snprintf(text, sizeof(text), "c%u", number % 4);
	message.conversation.bytes = slice_of(text);
	message.message.bytes = slice_of("m");
	for (unsigned i = 0; i < USERS; i++) {
		snprintf(names[i], sizeof(names[i]), "u%02u", i);
		to[i].bytes = slice_of(names[i]);
	}
	message.sender = to[number % USERS];
	message.payload = slice_of("\xc0");
	message.recipients = to + number % 7;
	message.recipient_count = number % 11 + 1;
	buf_init(buf);
	outbox_pack(buf, &message);
}

static void
add_copy(uint32_t partition, const struct buf *value, int64_t first)
{
	struct copy *copy = &copies[copy_count++];

	assert_true(copy_count <= COPIES);
	*copy = (struct copy){.partition = partition,
	    .offset = ends[partition]++,
	    .is_repeat = first >= 0,
	    .first = first};
	if (first < 0)
		copy->first = copy->offset;
	buf_init(&copy->value);
	buf_append(&copy->value, value->data, value->bytes);
}

/* Plans a message, and puts each dispatch into the topic. */
static void
dispatch_number(unsigned number)
{
	struct outbox_message message;
	struct buf value;
	uint32_t partition;

	buf_init(&value);
	assert_int_equal(outbox_decode(&decoder,
			     slice_of_buf(&messages[number]), &message, &err),
	    0);
	assert_int_equal(plan_message(&plan, &message, 0, &err), 0);
	while (plan_next(&plan, &partition, &value, &err) == 1) {
		add_copy(partition, &value, -1);
		buf_reset(&value);
	}
	buf_release(&value);
}

static int
start(void **state)
{
	size_t count;

	(void)state;
	outbox_init(&decoder);
	assert_int_equal(plan_init(&plan, PARTITIONS, 2, 1000000, &err), 0);
	assert_int_equal(
	    ledger_outbox_init(&planner, PARTITIONS, 2, 1000000, &err), 0);
	for (unsigned i = 0; i < MESSAGES; i++) {
		pack_message(&messages[i], i);
		dispatch_number(i);
	}
	/* Every third once more. */
	count = copy_count;
	for (size_t i = 0; i < count; i += 3)
		add_copy(
		    copies[i].partition, &copies[i].value, copies[i].first);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < copy_count; i++)
		buf_release(&copies[i].value);
	for (size_t i = 0; i < MESSAGES; i++)
		buf_release(&messages[i]);
	outbox_release(&decoder);
	plan_release(&plan);
	ledger_outbox_release(&planner);
	return 0;
}

static uint64_t
mark_of(uint32_t partition)
{
	return change.mark < (uint64_t)ends[partition]
	    ? change.mark
	    : (uint64_t)ends[partition];
}

static void
tell_entries(const struct copy *copy, struct dispatch *message, int *number)
{
	struct ident user;

	while (dispatch_next_recipient(message, &user) == 1) {
		bool own = slice_equal(user.bytes, message->sender.bytes);
		uint64_t seq = (uint64_t)copy->offset + 1;
		int n = (*number)++;

		if (n != change.skip_entry && !change.trimmed)
			assert_int_equal(
			    ledger_entry(&ledger, copy->partition, user.bytes,
				message->conversation.bytes,
				message->conversation_seq,
				own != (n == change.own_entry),
				seq + (n == change.move_entry), &err),
			    0);
		if (n == change.extra_entry)
			assert_int_equal(
			    ledger_entry(&ledger, copy->partition, user.bytes,
				message->conversation.bytes, 999, own, seq,
				&err),
			    0);
		if (n != change.skip_conv)
			assert_int_equal(ledger_conv(&ledger, user.bytes,
					     message->conversation.bytes,
					     message->created_at_ms, &err),
			    0);
		if (change.trimmed)
			assert_int_equal(
			    ledger_floor(&ledger, user.bytes, SEQ_MAX, &err),
			    0);
	}
}

/* What mailbox-apply makes of it. */
static void
tell_mailboxes(void)
{
	struct dispatch message;
	int number = 0;

	for (size_t i = 0; i < copy_count; i++) {
		const struct copy *copy = &copies[i];
		uint8_t digest[HASH_BYTES];

		if (copy->is_repeat ||
		    (uint64_t)copy->offset >= mark_of(copy->partition))
			continue;
		assert_int_equal(
		    dispatch_decode(slice_of_buf(&copy->value), &message, &err),
		    0);
		memcpy(digest, message.digest, HASH_BYTES);
		digest[0] ^= (int)i == change.other_digest;
		if ((int)i != change.skip_claim)
			assert_int_equal(
			    ledger_claim(&ledger, copy->partition,
				message.conversation.bytes,
				message.conversation_seq, message.chunk,
				copy->offset, digest, true, &err),
			    0);
		assert_int_equal(ledger_top(&ledger, copy->partition,
				     message.conversation.bytes,
				     message.conversation_seq +
					 ((int)i == change.late_top ? 999 : 0),
				     &err),
		    0);
		tell_entries(copy, &message, &number);
	}
}

static void
tell_message(unsigned number)
{
	struct ledger_source source = {0, number, !change.undue};
	struct record record = {.value = slice_of_buf(&messages[number])};

	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
}

/* All of it; returns how much was found. */
static uint64_t
tell(int times)
{
	uint64_t all = 0;

	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		ledger.parts[p].mark = mark_of(p);
		ledger.parts[p].old = change.old ? UINT64_MAX : 0;
	}
	for (int i = 0; i < times; i++)
		tell_mailboxes();
	for (uint32_t p = 0; p < PARTITIONS; p++)
		ledger.parts[p].low = change.low;
	for (size_t i = 0; i < copy_count; i++)
		if (copies[i].offset >= change.low &&
		    (int)i != change.skip_copy)
			assert_int_equal(
			    ledger_copy(&ledger, copies[i].partition,
				copies[i].offset,
				slice_of_buf(&copies[i].value), &err),
			    0);
	ledger.has_outbox = ledger.is_whole = true;
	for (unsigned i = 0; i < MESSAGES; i++)
		if ((int)i != change.skip_plan)
			tell_message(i);
	assert_int_equal(ledger_end(&ledger, &err), 0);
	for (int i = 0; i < LEDGER_KINDS; i++)
		all += ledger.kinds[i];
	return all;
}

static struct change
no_change(void)
{
	return (struct change){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, false,
	    false, 0, UINT64_MAX, false};
}

static void
test_nothing_is_wrong(void **state)
{
	uint64_t entries;

	(void)state;
	change = no_change();
	assert_int_equal(tell(1), 0);
	entries = ledger.counts.entries;
	assert_true(entries > 150);
	assert_true(ledger.counts.repeats > 30);
	assert_int_equal(ledger.counts.unchecked, 0);
	assert_int_equal(ledger.counts.messages, MESSAGES);
	ledger_release(&ledger);
	/* A scan may give a member twice. */
	assert_int_equal(tell(2), 0);
	assert_int_equal(ledger.counts.entries, entries);
	ledger_release(&ledger);
}

/* Changes the number at `at` through all its values; each is found, as
 * `kind`. */
static void
find_each(int *at, int count, enum ledger_kind kind)
{
	for (int i = 0; i < count; i++) {
		*at = i;
		assert_true(tell(1) > 0);
		assert_true(ledger.kinds[kind] > 0);
		ledger_release(&ledger);
	}
	*at = -1;
}

static void
test_each_change_is_found(void **state)
{
	int first_copies = 0;

	(void)state;
	change = no_change();
	while (!copies[first_copies].is_repeat)
		first_copies++;
	find_each(&change.skip_entry, 150, LEDGER_MISSING);
	find_each(&change.move_entry, 150, LEDGER_SEQ);
	find_each(&change.own_entry, 150, LEDGER_OWN);
	find_each(&change.extra_entry, 150, LEDGER_EXTRA);
	find_each(&change.skip_claim, first_copies, LEDGER_MISSING);
	find_each(&change.other_digest, first_copies, LEDGER_DIGEST);
	find_each(&change.late_top, first_copies, LEDGER_ORDER);
	find_each(&change.skip_plan, MESSAGES, LEDGER_EXTRA);
}

/* Only where the newest one is left out. */
static void
test_conv_behind(void **state)
{
	uint64_t found = 0;

	(void)state;
	change = no_change();
	for (change.skip_conv = 0; change.skip_conv < 150; change.skip_conv++) {
		tell(1);
		found += ledger.kinds[LEDGER_ORDER];
		ledger_release(&ledger);
	}
	assert_true(found > 10);
}

/* Where no repeat takes its place: found at both ends. */
static void
test_undispatched(void **state)
{
	(void)state;
	change = no_change();
	change.skip_copy = 1;
	assert_true(tell(1) > 0);
	assert_int_equal(ledger.kinds[LEDGER_UNDISPATCHED], 1);
	assert_true(ledger.kinds[LEDGER_EXTRA] > 0);
	ledger_release(&ledger);
	change.undue = true;
	tell(1);
	assert_int_equal(ledger.kinds[LEDGER_UNDISPATCHED], 0);
	assert_int_equal(ledger.counts.pending, 1);
	ledger_release(&ledger);
}

/* Above the mark nothing is missing, and what stands there is no finding. */
static void
test_marks(void **state)
{
	(void)state;
	change = no_change();
	for (change.mark = 0; change.mark < 60; change.mark++) {
		assert_int_equal(tell(1), 0);
		assert_true(change.mark > 0 || ledger.counts.entries == 0);
		ledger_release(&ledger);
	}
	/* The applier is ahead of its mark. */
	change.mark = UINT64_MAX;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	tell_mailboxes();
	assert_int_equal(ledger_end(&ledger, &err), 0);
	assert_true(ledger.counts.above > 150);
	ledger_release(&ledger);
}

/* Kafka has deleted what it held first: entries are compared with the Outbox
 * and their claims. */
static void
test_retention(void **state)
{
	(void)state;
	change = no_change();
	for (change.low = 0; change.low < 60; change.low += 5) {
		assert_int_equal(tell(1), 0);
		ledger_release(&ledger);
	}
	change.low = 1000;
	find_each(&change.skip_entry, 150, LEDGER_MISSING);
	find_each(&change.move_entry, 150, LEDGER_SEQ);
	find_each(&change.other_digest, 50, LEDGER_DIGEST);
}

/* Without the whole Outbox nobody knows. */
static void
test_unchecked(void **state)
{
	(void)state;
	change = no_change();
	change.low = 1000;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		ledger.parts[p] =
		    (struct ledger_part){.mark = mark_of(p), .low = 1000};
	tell_mailboxes();
	assert_int_equal(ledger_end(&ledger, &err), 0);
	assert_int_equal(ledger.counts.unchecked, ledger.counts.entries);
	ledger_release(&ledger);
}

static void
test_trimmed(void **state)
{
	(void)state;
	change = no_change();
	change.trimmed = true;
	assert_int_equal(tell(1), 0);
	assert_true(ledger.counts.trimmed > 150);
	ledger_release(&ledger);
	change.trimmed = false;
	change.old = true;
	change.skip_claim = 3;
	assert_int_equal(tell(1), 0);
	assert_int_equal(ledger.counts.trimmed, 1);
	ledger_release(&ledger);
}

static void
test_letters(void **state)
{
	const struct ledger_source source = {2, 7, true}, other = {2, 8, true};

	(void)state;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	assert_int_equal(ledger_letter(&ledger, 2, 7, &err), 0);
	assert_int_equal(ledger_unplanned(&ledger, &source, "no", &err), 0);
	assert_int_equal(ledger.counts.dead, 1);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 0);
	assert_int_equal(ledger_unplanned(&ledger, &other, "no", &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 1);
	assert_int_equal(last_kind, LEDGER_LOST);
	ledger_release(&ledger);
}

/* Found where it is due, unless it is dead; other headers than Kafka's can't
 * be planned either. */
static void
test_unplannable(void **state)
{
	const struct ledger_source source = {2, 7, true};
	struct record record = {.value = slice_of("{\"message_id\":\"1\"}")};

	(void)state;
	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 1);
	record.value = slice_of_buf(&messages[0]);
	record.headers = slice_of("\x91\x01");
	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 2);
	assert_int_equal(ledger.counts.messages, 0);
	assert_int_equal(ledger_letter(&ledger, 2, 7, &err), 0);
	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
	assert_int_equal(ledger.kinds[LEDGER_LOST], 2);
	assert_int_equal(ledger.counts.dead, 1);
	ledger_release(&ledger);
}

/* What is planned for a part that isn't looked at isn't told. */
static void
test_skipped_parts(void **state)
{
	uint64_t all = 0;

	(void)state;
	change = no_change();
	for (uint32_t skip = 0; skip <= PARTITIONS; skip++) {
		assert_int_equal(
		    ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
		for (uint32_t p = 0; p < skip; p++)
			ledger.parts[p].skip = true;
		for (unsigned i = 0; i < MESSAGES; i++)
			tell_message(i);
		assert_int_equal(ledger.counts.messages, MESSAGES);
		assert_true(
		    skip == 0 || ledger.kinds[LEDGER_UNDISPATCHED] < all);
		all = ledger.kinds[LEDGER_UNDISPATCHED];
		assert_true((all == 0) == (skip == PARTITIONS));
		ledger_release(&ledger);
	}
}

/* A topic that was planned for another count of partitions. */
static void
test_other_count(void **state)
{
	int result = 0;

	(void)state;
	assert_int_equal(ledger_init(&ledger, 3, SEED, note, &err), 0);
	for (size_t i = 0; i < copy_count && result == 0; i++)
		result = ledger_copy(&ledger, copies[i].partition % 3,
		    copies[i].offset, slice_of_buf(&copies[i].value), &err);
	assert_int_equal(result, -1);
	assert_int_equal(err.code, EX_CONFIG);
	ledger_release(&ledger);
}

static void
test_names(void **state)
{
	struct names names;
	char text[32];

	(void)state;
	names_init(&names, SEED);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++) {
			snprintf(text, sizeof(text), "%u", i);
			assert_int_equal(
			    names_take(&names,
				i == 0 ? (struct slice){0} : slice_of(text)),
			    i + 1);
		}
	for (uint32_t i = 1; i < 5000; i++) {
		snprintf(text, sizeof(text), "%u", i);
		assert_true(slice_is(names_get(&names, i + 1), text));
	}
	assert_int_equal(names_get(&names, 1).bytes, 0);
	names_release(&names);
}

static void
test_table_walk(void **state)
{
	struct table table;
	struct table_key key = {1, 0}, *at;
	uint64_t sum = 0;
	size_t i = 0;
	bool added;

	(void)state;
	table_init(&table, sizeof(key), SEED);
	assert_null(table_find(&table, key));
	assert_null(table_next(&table, &i));
	for (; key.low < 1000; key.low++)
		assert_non_null(table_take(&table, key, &added));
	assert_null(table_find(&table, key));
	key.low = 999;
	assert_non_null(table_find(&table, key));
	while ((at = table_next(&table, &i)) != NULL)
		sum += at->low;
	assert_int_equal(sum, 999 * 1000 / 2);
	table_release(&table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing_is_wrong),
	    cmocka_unit_test(test_each_change_is_found),
	    cmocka_unit_test(test_conv_behind),
	    cmocka_unit_test(test_undispatched),
	    cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_retention),
	    cmocka_unit_test(test_unchecked),
	    cmocka_unit_test(test_trimmed),
	    cmocka_unit_test(test_letters),
	    cmocka_unit_test(test_unplannable),
	    cmocka_unit_test(test_skipped_parts),
	    cmocka_unit_test(test_other_count),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_table_walk),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, start, stop);
}
