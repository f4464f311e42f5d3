/*
 * Audits: what is found is what a simple model finds; fields are read from
 * every form of a value, and damaged values are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "message/audit.h"
#include "message/pick.h"
#include "stream/pack.h"

#define SEED 0x5eed

static struct audit audit;
static struct err err;

static int
start(void **state)
{
	(void)state;
	audit_init(&audit, SEED);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	audit_release(&audit);
	return 0;
}

static int
add(const char *group, uint64_t seq, const char *id, int32_t partition)
{
	static int64_t offset;
	struct audit_record record = {
	    .seq = seq, .partition = partition, .offset = offset++};
	struct audit_before before;

	if (group != NULL)
		record.group = slice_of(group);
	if (id != NULL)
		record.id = slice_of(id);
	return audit_add(&audit, &record, &before, &err);
}

static void
expect_gap(const char *group, uint64_t first, uint64_t last)
{
	struct audit_gap gap;

	assert_int_equal(audit_next_gap(&audit, &gap), 1);
	assert_true(slice_is(gap.group, group));
	assert_int_equal(gap.first, first);
	assert_int_equal(gap.last, last);
}

static void
expect_no_gap(void)
{
	struct audit_gap gap;

	assert_int_equal(audit_next_gap(&audit, &gap), 0);
}

static void
test_adjacent_inversions(void **state)
{
	const uint64_t seqs[] = {1302, 1305, 1304, 1303, 1306};
	const int wanted[] = {AUDIT_FINE, AUDIT_FINE, AUDIT_INVERSION,
	    AUDIT_INVERSION, AUDIT_FINE};

	(void)state;
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(add("k", seqs[i], NULL, 0), wanted[i]);
	audit_end(&audit);
	expect_no_gap();
	assert_int_equal(audit.inversions, 2);
}

/* A batch that stands twice isn't an inversion, nor is what follows it. */
static void
test_repeated_batch(void **state)
{
	const uint64_t seqs[] = {1, 2, 3, 4, 1, 2, 5, 3};
	int result = AUDIT_FINE;

	(void)state;
	for (size_t i = 0; i < 7; i++)
		result = add("k", seqs[i], NULL, 0);
	assert_int_equal(result, AUDIT_FINE);
	assert_int_equal(audit.duplicates, 2);
	assert_int_equal(add("k", 3, NULL, 1), AUDIT_DUPLICATE);
	assert_int_equal(audit.inversions, 0);
}

/* 5, 3 (again), 4 for the first time: 4 comes after 5. */
static void
test_duplicate_hides_no_inversion(void **state)
{
	(void)state;
	assert_int_equal(add("k", 3, NULL, 0), AUDIT_FINE);
	assert_int_equal(add("k", 5, NULL, 0), AUDIT_FINE);
	assert_int_equal(add("k", 3, NULL, 0), AUDIT_DUPLICATE);
	assert_int_equal(add("k", 4, NULL, 0), AUDIT_INVERSION);
}

static void
test_groups_and_partitions(void **state)
{
	(void)state;
	assert_int_equal(add("a", 5, NULL, 0), AUDIT_FINE);
	assert_int_equal(add("b", 4, NULL, 0), AUDIT_FINE);
	assert_int_equal(add("a", 4, NULL, 1), AUDIT_FINE);
	assert_int_equal(add("a", 3, NULL, 0), AUDIT_INVERSION);
	assert_int_equal(add("", 1, NULL, 0), AUDIT_FINE);
	assert_int_equal(add(NULL, 1, NULL, 0), AUDIT_FINE);
	assert_int_equal(audit.groups.count, 4);
}

static void
test_ids(void **state)
{
	(void)state;
	assert_int_equal(add("a", 1, "x", 0), AUDIT_FINE);
	assert_int_equal(add("a", 1, "y", 0), AUDIT_FINE);
	assert_int_equal(add("a", 1, "x", 0), AUDIT_DUPLICATE);
	assert_int_equal(add("a", 1, "x", 1), AUDIT_DUPLICATE);
	assert_int_equal(add("b", 1, "x", 0), AUDIT_FINE);
	assert_int_equal(add("a", 2, "", 0), AUDIT_FINE);
	assert_int_equal(add("a", 3, "", 0), AUDIT_DUPLICATE);
}

/* Different ids stay different, whatever their groups. */
static void
test_many_short_ids(void **state)
{
	char group[16], id[16];

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		snprintf(group, sizeof(group), "%u", i % 1000);
		snprintf(id, sizeof(id), "%u", i);
		assert_int_not_equal(
		    add(group, i * 7919U % 65536, id, 0), AUDIT_DUPLICATE);
	}
	assert_int_equal(audit.groups.count, 1000);
}

static void
test_gaps(void **state)
{
	(void)state;
	add("a", 70, NULL, 0);
	add("b", 9, NULL, 0);
	add("a", 3, NULL, 1);
	add("a", 63, NULL, 0);
	add("a", 64, NULL, 0);
	add("b", AUDIT_SEQ_MAX, NULL, 0);
	audit_end(&audit);
	expect_gap("a", 4, 62);
	expect_gap("a", 65, 69);
	expect_gap("b", 10, AUDIT_SEQ_MAX - 1);
	expect_no_gap();
}

static void
test_gaps_from_a_number(void **state)
{
	(void)state;
	audit.has_first = true;
	audit.first = 5;
	add("a", 1, NULL, 0);
	add("a", 3, NULL, 0);
	add("b", 7, NULL, 0);
	add("c", 5, NULL, 0);
	add("d", 2, NULL, 0);
	add("d", 6, NULL, 0);
	audit_end(&audit);
	expect_gap("b", 5, 6);
	expect_gap("d", 5, 5);
	expect_no_gap();
}

static void
test_long_names_are_cut(void **state)
{
	char name[AUDIT_NAME_BYTES + 46], other[AUDIT_NAME_BYTES + 46];
	struct audit_gap gap;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memcpy(other, name, sizeof(name));
	other[sizeof(other) - 2] = 'o';
	add(name, 1, NULL, 0);
	add(name, 3, NULL, 0);
	assert_int_equal(add(other, 3, NULL, 0), AUDIT_FINE);
	assert_int_equal(audit.groups.count, 2);
	audit_end(&audit);
	assert_int_equal(audit_next_gap(&audit, &gap), 1);
	assert_int_equal(gap.group.bytes, AUDIT_NAME_BYTES);
}

static void
test_nothing(void **state)
{
	(void)state;
	audit_end(&audit);
	expect_no_gap();
}

#define MODEL_GROUPS 40
#define MODEL_SEQS 300
#define MODEL_PARTITIONS 3

/* What a record is by the plainest of means. */
static int
model_add(uint32_t group, uint32_t seq, uint32_t partition)
{
	static bool seen[MODEL_GROUPS][MODEL_SEQS];
	static uint32_t last[MODEL_GROUPS][MODEL_PARTITIONS];
	uint32_t before = last[group][partition];

	if (seen[group][seq])
		return AUDIT_DUPLICATE;
	seen[group][seq] = true;
	last[group][partition] = seq;
	return seq < before ? AUDIT_INVERSION : AUDIT_FINE;
}

static void
test_against_a_model(void **state)
{
	char name[16];
	uint64_t missing = 0, lowest[MODEL_GROUPS], highest[MODEL_GROUPS] = {0};
	uint64_t fine = 0;
	struct audit_gap gap;

	(void)state;
	memset(lowest, 0xff, sizeof(lowest));
	srand(1);
	for (int i = 0; i < 8000; i++) {
		uint32_t group = (uint32_t)rand() % MODEL_GROUPS;
		uint32_t seq = (uint32_t)rand() % MODEL_SEQS;
		uint32_t partition = (uint32_t)rand() % MODEL_PARTITIONS;
		int wanted = model_add(group, seq, partition);

		snprintf(name, sizeof(name), "g%u", group);
		assert_int_equal(
		    add(name, seq, NULL, (int32_t)partition), wanted);
		fine += wanted != AUDIT_DUPLICATE;
		if (seq < lowest[group])
			lowest[group] = seq;
		if (seq > highest[group])
			highest[group] = seq;
	}
	audit_end(&audit);
	while (audit_next_gap(&audit, &gap) == 1)
		missing += gap.last - gap.first + 1;
	for (int i = 0; i < MODEL_GROUPS; i++)
		fine -= highest[i] - lowest[i] + 1;
	assert_int_equal(missing, 0 - fine);
	assert_true(missing > 0);
}

static struct pick pick;
static struct pick_field fields[2] = {{"seq"}, {"by"}};

static int
pick_from(const void *data, size_t bytes)
{
	return pick_fields(&pick, (struct slice){data, bytes}, fields, 2, &err);
}

static int
pick_text(const char *text)
{
	return pick_from(text, strlen(text));
}

static void
expect_fields(const char *seq, const char *by)
{
	assert_true(slice_is(fields[0].bytes, seq));
	assert_true(slice_is(fields[1].bytes, by));
}

static void
test_pick_forms(void **state)
{
	struct buf value;

	(void)state;
	buf_init(&value);
	assert_int_equal(
	    pick_text(" {\"x\":{\"seq\":9},\"by\":\"\\u0061\",\"seq\":7}\n"),
	    0);
	expect_fields("7", "a");
	assert_int_equal(pick_text("{\"seq\":-7,\"by\":\"\",\"seq\":8}"), 0);
	expect_fields("-7", "");
	assert_int_equal(
	    pick_text("level=info by=a=b seq=00012 seq=3 =x tail"), 0);
	expect_fields("00012", "a=b");
	assert_int_equal(pick_text("seq= by="), 0);
	expect_fields("", "");
	pack_map(&value, 4);
	pack_u64(&value, 1);
	pack_text(&value, "a key that isn't text");
	pack_text(&value, "seq");
	pack_u64(&value, UINT64_MAX);
	pack_nil(&value);
	pack_array(&value, 1);
	pack_text(&value, "seq");
	pack_text(&value, "by");
	pack_bin(&value, slice_of("b"));
	assert_int_equal(pick_from(value.data, value.bytes), 0);
	expect_fields("18446744073709551615", "b");
	buf_release(&value);
}

static void
expect_refused(int result, const char *text)
{
	assert_int_equal(result, -1);
	assert_int_equal(err.code, EX_DATAERR);
	if (strstr(err.text, text) == NULL)
		fail_msg("'%s' isn't in: %s", text, err.text);
}

static void
test_pick_refusals(void **state)
{
	(void)state;
	expect_refused(pick_from(NULL, 0), "no value");
	expect_refused(pick_text(""), "no field 'seq'");
	expect_refused(pick_text("seq=1"), "no field 'by'");
	expect_refused(pick_text("[1]"), "no field 'seq'");
	expect_refused(pick_text("{\"seq\":1.5,\"by\":\"a\"}"),
	    "field 'seq': wants a text or an integer");
	expect_refused(pick_text("{\"seq\":1,\"by\":null}"),
	    "field 'by': wants a text or an integer");
	expect_refused(pick_text("{\"seq\":1,"), "JSON: ");
	expect_refused(pick_from("\xdf\xff\xff\xff\xff", 5), "msgpack: ");
	expect_refused(pick_from("\x81\xa3seq", 5), "msgpack: ");
	expect_refused(pick_from("\x81\xa3seq\x01\x00", 7), "left over");
}

static int
number_of(const char *text, uint64_t *number)
{
	struct pick_field field = {"seq", slice_of(text)};

	return pick_number(&field, number, &err);
}

static void
test_pick_numbers(void **state)
{
	const char *const wrong[] = {"", "-1", "+1", "1 ", "1.0",
	    "9223372036854775808", "18446744073709551617",
	    "99999999999999999999999999999999999999999999999999"};
	uint64_t number;

	(void)state;
	assert_int_equal(number_of("00012", &number), 0);
	assert_int_equal(number, 12);
	assert_int_equal(number_of("9223372036854775807", &number), 0);
	assert_int_equal(number, INT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		expect_refused(number_of(wrong[i], &number),
		    "wants an integer from 0 to 2^63 - 1");
}

/* Every prefix, and every byte changed, is read or refused, no more. */
static void
test_pick_damaged(void **state)
{
	const char text[] = "{\"seq\":12,\"by\":\"\\u00e4\",\"a\":[1,{}]}";
	const char map[] = "\x83\xa3seq\x0c\xa2"
			   "by\xc4\x01\xff\xa1"
			   "a\x92\x01\x80";
	const struct slice values[] = {
	    {(const uint8_t *)text, sizeof(text) - 1},
	    {(const uint8_t *)map, sizeof(map) - 1}};
	uint8_t *copy;

	(void)state;
	for (int v = 0; v < 2; v++)
		for (size_t i = 0; i < values[v].bytes; i++) {
			/* Of its own size, so that a sanitizer sees more. */
			copy = malloc(i + 1);
			memcpy(copy, values[v].data, i);
			assert_int_equal(pick_from(copy, i), -1);
			free(copy);
			copy = malloc(values[v].bytes);
			memcpy(copy, values[v].data, values[v].bytes);
			for (int byte = 0; byte < 256; byte++) {
				copy[i] = (uint8_t)byte;
				pick_from(copy, values[v].bytes);
			}
			free(copy);
		}
}

static int
begin_pick(void **state)
{
	(void)state;
	pick_init(&pick);
	return 0;
}

static int
end_pick(void **state)
{
	(void)state;
	pick_release(&pick);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_adjacent_inversions, start, stop),
	    cmocka_unit_test_setup_teardown(test_repeated_batch, start, stop),
	    cmocka_unit_test_setup_teardown(
		test_duplicate_hides_no_inversion, start, stop),
	    cmocka_unit_test_setup_teardown(
		test_groups_and_partitions, start, stop),
	    cmocka_unit_test_setup_teardown(test_ids, start, stop),
	    cmocka_unit_test_setup_teardown(test_many_short_ids, start, stop),
	    cmocka_unit_test_setup_teardown(test_gaps, start, stop),
	    cmocka_unit_test_setup_teardown(
		test_gaps_from_a_number, start, stop),
	    cmocka_unit_test_setup_teardown(
		test_long_names_are_cut, start, stop),
	    cmocka_unit_test_setup_teardown(test_nothing, start, stop),
	    cmocka_unit_test_setup_teardown(test_against_a_model, start, stop),
	    cmocka_unit_test_setup_teardown(
		test_pick_forms, begin_pick, end_pick),
	    cmocka_unit_test_setup_teardown(
		test_pick_refusals, begin_pick, end_pick),
	    cmocka_unit_test_setup_teardown(
		test_pick_numbers, begin_pick, end_pick),
	    cmocka_unit_test_setup_teardown(
		test_pick_damaged, begin_pick, end_pick),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
