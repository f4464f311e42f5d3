/*
 * What the ledger keeps things in: a name has one number, and a key one item,
 * however many there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "message/names.h"
#include "message/table.h"

#define SEED 0x5eed

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
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_table_walk),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
