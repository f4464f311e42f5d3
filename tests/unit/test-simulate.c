/*
 * The fan-out's modules together, without Kafka (simulate/world.h).
 *
 * From an outbox with holes, records that can't be planned, and a partition
 * that joins late, through gather, the stream, planning, flight, window and
 * letters to commits, each as it is; main loops and broker are the test's.
 * Stages step in any order, frames come in pieces of any size.  What may
 * happen: any stage killed between any two steps, its last frame torn; frames
 * lost, doubled, swapped or changed; records reported in any order, late,
 * failed before or after the append, unproven, refused for their own fault;
 * commits that fail, land late or moved by a second chain; starts below what is
 * committed, and above.
 *
 * R1 is checked at each commit, what receipts say at each receipt, and at the
 * end all must be there and committed.  The same must go wrong when a rule is
 * taken out (enum flaw).
 *
 * The seed of a failure is printed, and `test-simulate SEED` runs it again.
 * QIM_SEEDS= sets how many there are, QIM_FIRST_SEED= the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "simulate/world.h"

#define SEEDS_DEFAULT 2000

/* From so many on everything that may happen has. */
#define SEEDS_SURE 1000

#define STEPS_MAX 20000
#define FAULT_STEPS 600

uint64_t dice_state;
struct world world;

static struct chain chains[CHAINS];

void
complain(const char *format, ...)
{
	va_list arguments;

	if (*world.wrong != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(world.wrong, sizeof(world.wrong), format, arguments);
	va_end(arguments);
}

static bool
is_finished(void)
{
	for (uint32_t s = 0; s < world.source_count; s++)
		if (world.source[s].committed != world.source[s].end)
			return false;
	return true;
}

static bool
is_over(const struct chain *chain)
{
	for (int s = 0; s < STAGES; s++)
		if (chain->stage[s] == ALIVE)
			return false;
	return true;
}

/* A step of a chain, which is started again when it is over. */
static void
move(struct chain *chain)
{
	if (chain->is_up && is_over(chain))
		chain_end(chain);
	if (!chain->is_up)
		chain_begin(chain);
	chain_turn(chain);
}

static void
happen(void)
{
	struct chain *chain = &chains[random_below(world.has_second ? 2 : 1)];

	if (fault(5))
		chain_kill(chain, (enum stage)random_below(STAGES));
	if (fault(5))
		world.source_count = SOURCES;
	group_happen();
}

static void
begin_seed(uint64_t seed, enum flaw flaw)
{
	dice_seed(seed);
	*world.wrong = '\0';
	world.flaw = flaw;
	world.faults = true;
	world.ordered = chance(50);
	world.has_second = chance(50);
	world.overtaken = false;
	world.source_count = chance(50) ? SOURCES : SOURCES - 1;
	group_begin();
	outbox_make();
}

static void
check_end(void)
{
	if (!is_finished())
		complain("not all is committed in the end");
	for (uint32_t i = 0; i < world.item_count; i++)
		if (!world.items[i].durable)
			complain("something isn't there in the end");
}

/* True when all is as it must be. */
static bool
try_seed(uint64_t seed, enum flaw flaw)
{
	begin_seed(seed, flaw);
	for (int step = 0; step < STEPS_MAX && *world.wrong == '\0' &&
	     (step <= FAULT_STEPS || !is_finished());
	     step++) {
		if (step == FAULT_STEPS) {
			world.faults = false;
			world.source_count = SOURCES;
			chain_end(&chains[1]);
		}
		happen();
		move(&chains[world.faults && world.has_second ? random_below(2)
							      : 0]);
	}
	if (*world.wrong == '\0')
		check_end();
	for (int i = 0; i < CHAINS; i++)
		chain_end(&chains[i]);
	outbox_forget();
	return *world.wrong == '\0';
}

static uint64_t
setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void
show_tally(uint64_t seeds, clock_t took)
{
	const struct tally *tally = &world.tally;

	print_message(
	    "# %llu seeds, %llu a second of CPU: %llu kills, %llu records "
	    "failed, %llu unproven, %llu letters, %llu torn, %llu "
	    "damaged, %llu joins, %llu rewinds, %llu starts refused, "
	    "%llu commits, %llu late\n",
	    (unsigned long long)seeds,
	    (unsigned long long)(seeds * CLOCKS_PER_SEC / (uint64_t)(took + 1)),
	    (unsigned long long)tally->kills, (unsigned long long)tally->failed,
	    (unsigned long long)tally->unproven,
	    (unsigned long long)tally->letters, (unsigned long long)tally->torn,
	    (unsigned long long)tally->damaged,
	    (unsigned long long)tally->joins,
	    (unsigned long long)tally->rewinds,
	    (unsigned long long)tally->refused,
	    (unsigned long long)tally->commits,
	    (unsigned long long)tally->late);
}

static void
test_all_is_delivered(void **unused)
{
	uint64_t first = setting("QIM_FIRST_SEED", 0);
	uint64_t seeds = setting("QIM_SEEDS", SEEDS_DEFAULT);
	clock_t start = clock();
	const struct tally *tally = &world.tally;

	(void)unused;
	for (uint64_t seed = first; seed < first + seeds; seed++)
		if (!try_seed(seed, FLAW_NONE))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
			    world.wrong);
	show_tally(seeds, clock() - start);
	assert_true(seeds < SEEDS_SURE ||
	    (tally->kills > seeds && tally->failed > seeds / 4 &&
		tally->unproven > 0 && tally->letters > 0 && tally->torn > 0 &&
		tally->damaged > 0 && tally->joins > 0 && tally->rewinds > 0 &&
		tally->refused > 0 && tally->late > 0 && tally->parts > 0));
}

/* A rule taken out must be missed within so many seeds. */
static void
expect_wrong(enum flaw flaw, uint64_t seeds)
{
	uint64_t seed = 0;

	while (seed < seeds && try_seed(seed, flaw))
		seed++;
	assert_true(seed < seeds);
	print_message(
	    "# seed %llu: %s\n", (unsigned long long)seed, world.wrong);
}

static void
test_acks_before_the_append(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_EARLY_ACKS, 300);
}

static void
test_unproven_is_delivered(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_UNPROVEN, 300);
}

static void
test_start_above_is_taken(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_START_ABOVE, 300);
}

static void
test_record_is_forgotten(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_FORGOTTEN, 300);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_is_delivered),
	    cmocka_unit_test(test_acks_before_the_append),
	    cmocka_unit_test(test_unproven_is_delivered),
	    cmocka_unit_test(test_start_above_is_taken),
	    cmocka_unit_test(test_record_is_forgotten),
	};

	if (argc > 1) {
		setenv("QIM_FIRST_SEED", argv[1], 1);
		setenv("QIM_SEEDS", "1", 1);
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
