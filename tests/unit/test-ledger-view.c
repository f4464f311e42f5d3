/*
 * What a ledger has found, as lines of JSON and as a verdict.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "message/ledger-view.h"

static void
expect_line(json_t *line, const char *text)
{
	char *got;

	assert_non_null(line);
	got = json_dumps(line, JSON_COMPACT);
	assert_string_equal(got, text);
	free(got);
	json_decref(line);
}

static void
test_finding(void **state)
{
	struct finding finding = {
	    .kind = LEDGER_MISSING, .partition = 3, .offset = -1, .why = "no"};

	(void)state;
	expect_line(ledger_view_finding(&finding),
	    "{\"found\":\"missing\",\"partition\":3,\"why\":\"no\"}");
	finding.offset = 0;
	finding.user = slice_of("lou");
	finding.conversation = slice_of("\xff");
	finding.seq = 1;
	expect_line(ledger_view_finding(&finding),
	    "{\"found\":\"missing\",\"partition\":3,\"offset\":0,"
	    "\"user\":\"lou\",\"conversation_id\":{\"base64\":\"/w==\"},"
	    "\"conversation_seq\":1,\"why\":\"no\"}");
}

/* Its place is one of the Outbox. */
static void
test_lost(void **state)
{
	const struct finding finding = {
	    .kind = LEDGER_LOST, .partition = 1, .offset = 5, .why = "no"};

	(void)state;
	expect_line(ledger_view_finding(&finding),
	    "{\"found\":\"lost\",\"outbox_partition\":1,\"outbox_offset\":5,"
	    "\"why\":\"no\"}");
}

/* Each count by its own name. */
static void
test_counts(void **state)
{
	struct ledger ledger = {.counts = {.messages = 1,
				    .dead = 2,
				    .pending = 3,
				    .dispatches = 4,
				    .repeats = 5,
				    .conflicts = 6,
				    .undecodable = 7,
				    .unapplied = 8,
				    .entries = 9,
				    .claims = 10,
				    .above = 11,
				    .trimmed = 12,
				    .unchecked = 13}};

	(void)state;
	for (unsigned i = 0; i < LEDGER_KINDS; i++)
		ledger.kinds[i] = 20 + i;
	expect_line(ledger_view_counts(&ledger),
	    "{\"messages\":1,\"dead\":2,\"pending\":3,\"dispatches\":4,"
	    "\"repeats\":5,\"conflicts\":6,\"undecodable\":7,\"unapplied\":8,"
	    "\"entries\":9,\"claims\":10,\"above\":11,\"trimmed\":12,"
	    "\"unchecked\":13,\"missing\":20,\"extra\":21,\"twice\":22,"
	    "\"digest\":23,\"seq\":24,\"own\":25,\"order\":26,\"conflict\":27,"
	    "\"undispatched\":28,\"lost\":29}");
}

static void
test_verdict(void **state)
{
	struct ledger ledger = {
	    .counts = {.pending = 4, .unapplied = 5, .above = 6, .dead = 7}};
	char text[LEDGER_VERDICT_BYTES];

	(void)state;
	assert_false(ledger_view_verdict(&ledger, false, text));
	assert_string_equal(text, "");
	assert_true(ledger_view_verdict(&ledger, true, text));
	assert_string_equal(text, "4 pending, 5 unapplied, 6 above");
	ledger.kinds[LEDGER_MISSING] = 2;
	ledger.kinds[LEDGER_LOST] = 1;
	assert_true(ledger_view_verdict(&ledger, false, text));
	assert_string_equal(text, "2 missing, 1 lost");
}

/* The longest has room. */
static void
test_longest_verdict(void **state)
{
	struct ledger ledger = {.counts = {.pending = UINT64_MAX,
				    .unapplied = UINT64_MAX,
				    .above = UINT64_MAX}};
	char text[LEDGER_VERDICT_BYTES];

	(void)state;
	for (int i = 0; i < LEDGER_KINDS; i++)
		ledger.kinds[i] = UINT64_MAX;
	assert_true(ledger_view_verdict(&ledger, true, text));
	assert_string_equal(
	    text + strlen(text) - strlen("15 above"), "15 above");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_finding),
	    cmocka_unit_test(test_lost),
	    cmocka_unit_test(test_counts),
	    cmocka_unit_test(test_verdict),
	    cmocka_unit_test(test_longest_verdict),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
