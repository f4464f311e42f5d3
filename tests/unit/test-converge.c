/*
 * The mailbox's modules together against a model of Redis (converge/model.h).
 *
 * Two dispatch partitions on one node, of which a writer names one first and
 * the other at any time; several writers, of one connection or two, that each
 * go in offset order from any point at or below the marks, killed and started
 * again between any two commands; a Redis whose data set may at any moment be
 * replaced by an older one, with the connections dropped or kept, and which
 * now and then says "not now"; a replica that is waited for, away at times,
 * and made the master; topics in which dispatches stand more than once, some
 * copies conflict and some can't be decoded; devices that take batches and
 * acknowledge them, and trims, with anything else between two of their
 * commands; days that pass.
 *
 * At the end all must be what one writer gives without any of this (above the
 * floors), no receipt may have promised what a replica lacked, and no device
 * may have missed or got twice an entry.
 *
 * The same must go wrong when a part of the protocol is taken out (model.h,
 * enum flaw), or else nothing was shown.
 *
 * The seed of a failure is printed.  QIM_SEEDS= sets how many there are,
 * QIM_FIRST_SEED= the first.  QIM_SERVERS=1 runs them on a real redis-server
 * instead, one with RDB files and one with an AOF, compared with the model's
 * plain run; the order of its scans is its own, so that a seed is not the same
 * run each time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "converge/dice.h"
#include "converge/phone.h"
#include "converge/server.h"
#include "converge/world.h"
#include "converge/writer.h"

#define SEEDS_DEFAULT 2000

/* From so many on everything that may happen has. */
#define SEEDS_SURE 1000

#define WRITERS_MAX 3
#define PHONES 3
#define STEPS_MAX 8000
#define FAULT_STEPS 400

/* What may be within what: an operation's command waits for others'. */
#define DEPTH_MOST 2

struct world world;

static struct model plain;
static struct writer memory[WRITERS_MAX];
static struct writer *writers[WRITERS_MAX]; /* those in use come first */
static size_t writer_count;
static struct phone phones[PHONES];
static int depth;

static bool
is_right(void)
{
	return *world.wrong == '\0';
}

static void
drop_writer(size_t i)
{
	struct writer *writer = writers[i];

	writer_end(writer);
	writers[i] = writers[--writer_count];
	writers[writer_count] = writer;
}

static void
add_writer(bool below)
{
	writer_begin(writers[writer_count++], &world.model, below);
}

/* kill -9, and another one. */
static void
replace_writer(size_t i, bool below)
{
	writer_end(writers[i]);
	writer_begin(writers[i], &world.model, below);
}

static void
move_writer(void)
{
	size_t i;

	if (writer_count == 0)
		return;
	i = random_below((uint32_t)writer_count);
	switch (writer_turn(writers[i], world.faults)) {
	case TURN_DONE:
		drop_writer(i);
		return;
	case TURN_LOST:
		replace_writer(i, false);
		return;
	default:
		return;
	}
}

static bool
is_stopping(void)
{
	return world.faults && chance(3);
}

static void
run_trim(void)
{
	static const struct login login;
	struct node node = {.text = (char *)"model"};
	struct client client;
	struct trim trim = {.client = &client,
	    .mailbox = &mailbox,
	    .rules = &world.rules,
	    .done = &world.tally.trims,
	    .stopping = is_stopping};
	struct err err;

	client_init(&client, &node, &login, 0, &err);
	if (trim_node(&trim, &err) < 0 && err.code != EX_UNAVAILABLE)
		complain("a trim: %s", err.text);
	client_release(&client);
}

static uint32_t days_passed;

/* Kafka's retention: claims go once no copy can come any more, and then
 * nothing that was before comes back. */
static void
pass_days(void)
{
	uint32_t days = 1 + random_below(4);
	size_t marks[PARTITIONS];

	model_read(&world.model);
	/* No device is silent for as long as a rule that is never to pass. */
	if (days_passed + days >= TRIM_DAYS_MAX)
		return;
	for (size_t i = 0; i < PARTITIONS; i++) {
		marks[i] = mark_of(&world.model, &topics[i]);
		if (!topic_is_settled(&topics[i], marks[i]))
			return;
	}
	for (size_t i = 0; i < PARTITIONS; i++)
		topics[i].start = marks[i];
	model_pass_days(&world.model, days);
	days_passed += days;
	world.tally.days += days;
}

static void
lose_data(void)
{
	bool may_be_empty = topics[0].start == 0 && topics[1].start == 0;

	model_lose(&world.model, may_be_empty, chance(50));
	memset(world.promised, 0, sizeof(world.promised));
	world.losses++;
	world.tally.losses++;
}

/* The replica becomes the master, and has what receipts have promised. */
static void
fail_over(void)
{
	model_fail_over(&world.model, chance(50));
	world.losses++;
	for (size_t i = 0; i < PARTITIONS; i++)
		if (mark_of(&world.model, &topics[i]) < world.promised[i])
			complain("the replica lacks what was promised");
}

static bool may_lose, may_pass_days, may_fail_over;

/* One thing that may happen, at any moment. */
static void
happen(void)
{
	uint32_t dice = random_below(1000);

	if (dice < 15 && writer_count < WRITERS_MAX)
		add_writer(true);
	else if (dice < 30 && writer_count > 0)
		replace_writer(random_below((uint32_t)writer_count), true);
	else if (dice < 55 && may_lose)
		lose_data();
	else if (dice < 58 && may_pass_days)
		pass_days();
	else if (dice < 68 && may_fail_over)
		fail_over();
	else if (dice < 70 && may_fail_over)
		world.model.is_replica_away ^= true;
	else if (dice < 125 && depth < DEPTH_MOST)
		phone_use(&phones[random_below(PHONES)]);
	else if (dice < 140 && depth < DEPTH_MOST && world.has_trims)
		run_trim();
}

void
world_between(void)
{
	if (!world.faults)
		return;
	depth++;
	while (chance(25)) {
		happen();
		move_writer();
	}
	depth--;
}

/* Several writers and all that can happen. */
static void
run_together(void)
{
	add_writer(false);
	for (int step = 0; step < STEPS_MAX && writer_count > 0 && is_right();
	     step++) {
		world.faults = step < FAULT_STEPS;
		if (world.faults)
			happen();
		else
			world.model.is_replica_away = false;
		move_writer();
	}
	world.faults = world.model.is_replica_away = false;
	while (writer_count > 0)
		drop_writer(0);
}

/* One writer until it is done. */
static void
run_alone(struct model *model, bool below)
{
	enum turn turn = TURN_ON;

	writer_begin(&memory[0], model, below);
	for (int step = 0; step < STEPS_MAX && turn == TURN_ON; step++)
		turn = writer_turn(&memory[0], false);
	writer_end(&memory[0]);
	if (turn != TURN_DONE)
		complain("a writer alone: %d", (int)turn);
}

static void
choose_rules(void)
{
	struct trim_rules *rules = &world.rules;

	world.has_trims = chance(70);
	*rules = (struct trim_rules){
	    TRIM_NONE, TRIM_NONE, TRIM_NONE, TRIM_NONE, TRIM_DAYS_MAX, false};
	if (chance(70))
		rules->box_count = 1 + random_below(4);
	if (chance(30))
		rules->box_days = 1 + random_below(3);
	if (chance(60))
		rules->bodies = 1 + random_below(3);
	if (rules->bodies != TRIM_NONE && chance(70))
		rules->retention_days = 2;
	if (chance(30))
		rules->device_days = 1;
}

static void
begin_seed(uint64_t seed, enum flaw flaw, struct server *server)
{
	static const char *const names[PHONES] = {"phone", "tablet", "desk"};

	dice_seed(seed);
	for (size_t p = 0; p < PARTITIONS; p++)
		topic_make(&topics[p]);
	choose_rules();
	for (size_t i = 0; i < PHONES; i++)
		phone_init(&phones[i], names[i]);
	for (size_t i = 0; i < WRITERS_MAX; i++)
		writers[i] = &memory[i];
	may_lose = chance(60);
	may_pass_days = chance(50);
	may_fail_over = server == NULL && chance(50);
	world.replicas = may_fail_over && flaw != FLAW_NO_WAIT;
	mailbox.connections = 1 + random_below(LANES_MAX);
	world.losses = days_passed = 0;
	*world.wrong = '\0';
	model_init(&plain, FLAW_NONE, NULL);
	model_init(&world.model, flaw, server);
}

/* True when all is as it must be. */
static bool
try_seed(uint64_t seed, enum flaw flaw, struct server *server)
{
	begin_seed(seed, flaw, server);
	run_alone(&plain, false);
	check_state(&plain, false);
	memset(world.promised, 0, sizeof(world.promised));
	run_together();
	run_alone(&world.model, true);
	model_read(&world.model);
	check_state(&world.model, world.has_trims);
	check_same(&plain, &world.model);
	for (size_t i = 0; i < PHONES && is_right(); i++)
		phone_finish(&phones[i]);
	model_release(&plain);
	model_release(&world.model);
	return is_right();
}

static uint64_t
setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void
show_tally(const struct tally *tally, uint64_t seeds)
{
	const struct trim_done *trims = &tally->trims;

	print_message("# %llu seeds: data lost %llu times, %llu days, "
		      "%llu batches acknowledged, %llu losses told, trimmed: "
		      "%llu entries, %llu bodies, %llu claims\n",
	    (unsigned long long)seeds, (unsigned long long)tally->losses,
	    (unsigned long long)tally->days, (unsigned long long)tally->acks,
	    (unsigned long long)tally->told, (unsigned long long)trims->entries,
	    (unsigned long long)trims->bodies,
	    (unsigned long long)trims->claims);
}

static void
expect_right(struct server *server)
{
	uint64_t first = setting("QIM_FIRST_SEED", 0);
	uint64_t seeds = setting("QIM_SEEDS", SEEDS_DEFAULT);
	const struct tally *tally = &world.tally;

	world.tally = (struct tally){0};
	for (uint64_t seed = first; seed < first + seeds; seed++)
		if (!try_seed(seed, FLAW_NONE, server))
			fail_msg("seed %llu: %s", (unsigned long long)seed,
			    world.wrong);
	show_tally(tally, seeds);
	assert_true(seeds < SEEDS_SURE ||
	    (tally->losses > seeds && tally->days > seeds &&
		tally->acks > seeds && tally->told > 0 &&
		tally->trims.entries > seeds / 4 && tally->trims.held > 0 &&
		tally->trims.bodies > 0 && tally->trims.claims > 0));
}

static void
test_all_runs_end_alike(void **unused)
{
	(void)unused;
	expect_right(NULL);
}

static void
run_on_server(bool append_only)
{
	static struct server server;

	server = (struct server){.link.model = &world.model};
	model_init(&world.model, FLAW_NONE, NULL);
	world.model.server = &server;
	server_start(&server, append_only);
	expect_right(&server);
	server_end(&server);
}

static void
test_server_with_rdb(void **unused)
{
	(void)unused;
	run_on_server(false);
}

static void
test_server_with_aof(void **unused)
{
	(void)unused;
	run_on_server(true);
}

/* A part taken out must be missed within so many seeds. */
static void
expect_wrong(enum flaw flaw, uint64_t seeds)
{
	uint64_t seed = 0;

	while (seed < seeds && try_seed(seed, flaw, NULL))
		seed++;
	assert_true(seed < seeds);
	print_message(
	    "# seed %llu: %s\n", (unsigned long long)seed, world.wrong);
}

static void
test_without_watch(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_NO_WATCH, 300);
}

static void
test_without_counter(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_NO_COUNTER, 300);
}

static void
test_marks_before_joins(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_LATE_JOINS, 300);
}

static void
test_trims_that_see_no_device(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_NO_CURSORS, 300);
}

static void
test_trims_without_floor(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_NO_FLOOR, 300);
}

static void
test_trims_without_ages(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_NO_AGES, 300);
}

static void
test_without_wait(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_NO_WAIT, 300);
}

static void
test_last_claims_win(void **unused)
{
	(void)unused;
	expect_wrong(FLAW_LAST_CLAIM, 300);
}

static int
run_servers(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_server_with_rdb),
	    cmocka_unit_test(test_server_with_aof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_runs_end_alike),
	    cmocka_unit_test(test_without_watch),
	    cmocka_unit_test(test_without_counter),
	    cmocka_unit_test(test_marks_before_joins),
	    cmocka_unit_test(test_trims_that_see_no_device),
	    cmocka_unit_test(test_trims_without_floor),
	    cmocka_unit_test(test_trims_without_ages),
	    cmocka_unit_test(test_without_wait),
	    cmocka_unit_test(test_last_claims_win),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (setting("QIM_SERVERS", 0) > 0)
		return run_servers();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
