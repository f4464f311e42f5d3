/*
 * The mailbox protocol (round.h) against a model of Redis.
 *
 * Two dispatch partitions on one node, of which a writer names one first and
 * the other at any time; several writers that each go in offset order from
 * any point at or below the marks, killed and started again anywhere; a Redis
 * whose data set may at any moment be replaced by an older one, with the
 * connections dropped or kept, and which now and then says "not now"; topics
 * in which dispatches stand more than once, some copies conflict and some
 * can't be decoded.  At the end all must be what one writer gives without any
 * of this.  The same must go wrong when the model doesn't notice a replaced
 * data set (no WATCH), or says of each counter what is expected.
 *
 * In half of the seeds a replica is waited for, which may be away and may
 * become the master: what had a receipt must then be there.  It isn't where
 * none is waited for.
 *
 * The seed of a failure is printed.  ROUND_SEEDS= sets how many there are,
 * ROUND_FIRST= the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis-model.h"
#include "redis/round.h"
#include "stream/pack.h"

#define SEEDS_DEFAULT 2000
#define BROKEN_SEEDS 300
#define PARTITIONS 2
#define TOPIC_COUNT 64
#define WRITERS_MAX 3
#define WORKS_MAX 4
#define STEPS_MAX 6000
#define FAULT_STEPS 400

/* How far below a mark a writer may start. */
#define BACK_MOST 3

/* Of this seed: replicas that are waited for, and the marks that receipts
 * have promised since data was lost otherwise. */
static struct round_wait wait;
static bool fails_over;
static uint64_t promised[2];

static uint64_t state;

static uint32_t
random_below(uint32_t limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % limit;
}

static bool
chance(uint32_t percent)
{
	return random_below(100) < percent;
}

/* What a record says; seq 0: it can't be decoded (digest 0: there is none). */
struct said {
	uint32_t seq, chunk;
	uint8_t digest;
	uint8_t users; /* one bit each */
};

/* What stands in a partition, offset by offset. */
static struct topic {
	uint32_t partition;
	const char *users[4]; /* that belong to it; the first sends */
	struct said said[TOPIC_COUNT];
	struct buf values[TOPIC_COUNT];
	size_t count;
} topics[PARTITIONS] = {
    {.partition = 0, .users = {"ann", "bob", "cid", "eve"}},
    {.partition = 1, .users = {"dan", "gus", "joy", "kim"}},
};

static const struct mailbox mailbox = {"qim", "topic", PARTITIONS, 1};

static struct slice
conversation_of(const struct said *said)
{
	return slice_of(said->seq % 3 == 0 ? "c" : "d");
}

static void
pack_value(struct buf *buf, const struct topic *topic, struct said said)
{
	struct dispatch dispatch = {.conversation_seq = said.seq,
	    .created_at_ms = 100 + said.digest,
	    .chunk = said.chunk,
	    .chunk_count = 2,
	    .conversation.bytes = conversation_of(&said),
	    .message.bytes = slice_of("m"),
	    .sender.bytes = slice_of(topic->users[0]),
	    .payload = slice_of("\x01")};
	struct buf to = {0};

	memset(dispatch.id, (int)(said.seq + said.chunk), HASH_BYTES);
	memset(dispatch.digest, said.digest, HASH_BYTES);
	for (int i = 0; i < 4; i++)
		if ((said.users & 1 << i) != 0) {
			pack_text(&to, topic->users[i]);
			dispatch.to_count++;
		}
	dispatch.to = cursor_of(slice_of_buf(&to));
	dispatch_pack(buf, &dispatch);
	buf_release(&to);
}

static void
add_record(struct topic *topic, struct said said)
{
	struct buf *buf = &topic->values[topic->count];

	topic->said[topic->count++] = said;

	buf_reset(buf);
	if (said.seq > 0)
		pack_value(buf, topic, said);
	else if (said.digest > 0)
		buf_append(buf, &said.digest, 1);
}

static void
make_topic(struct topic *topic)
{
	uint32_t messages = 3 + random_below(9);
	struct said all[16];

	topic->count = 0;
	for (uint32_t i = 0; i < messages; i++) {
		all[i] = (struct said){i + 1, 1 + random_below(2), 1,
		    (uint8_t)(1 + random_below(15))};
		add_record(topic, all[i]);
		if (chance(30))
			add_record(topic, all[random_below(i + 1)]);
		if (chance(10)) {
			struct said other = all[random_below(i + 1)];

			other.digest++;
			add_record(topic, other);
		}
		if (chance(10))
			add_record(topic, (struct said){0}); /* no record */
		if (chance(5))
			add_record(topic, (struct said){.digest = 0x91});
	}
}

/* A chain: what mailbox-apply is, without its pipes. */
struct writer {
	struct round round;
	struct model_conn conn;
	struct commands commands;
	const uint8_t *at; /* the next command that Redis takes */
	struct work works[WORKS_MAX];
	struct buf frames[WORKS_MAX]; /* what they point into */
	size_t first, count; /* works in use, a ring */
	size_t next[PARTITIONS]; /* offsets that the next batch begins with */
	int64_t due[PARTITIONS];
	uint64_t number; /* of connections, for their ids */
};

static size_t
mark_of(const struct model *model, uint32_t partition)
{
	char key[32];
	size_t i = 0;

	snprintf(key, sizeof(key), "qim:{%u}:mark", (unsigned)partition);
	for (; i < model->data.count; i++)
		if (slice_is(model->data.rows[i]->key, key))
			return (size_t)model->data.rows[i]->score;
	return 0;
}

/* Starts at the marks, or up to `back` below them. */
static void
begin_writer(struct writer *writer, struct model *model, uint32_t back)
{
	struct err err;

	*writer = (struct writer){.conn.model = model};
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		size_t mark = mark_of(model, p), less = random_below(back + 1);

		writer->next[p] = mark < less ? 0 : mark - less;
	}
	assert_int_equal(
	    round_init(&writer->round, &mailbox, 0, wait, &err), 0);
}

static void
end_writer(struct writer *writer)
{
	for (; writer->count > 0; writer->count--)
		work_release(&writer->works[writer->first++ % WORKS_MAX]);
	for (size_t i = 0; i < WORKS_MAX; i++)
		buf_release(&writer->frames[i]);
	commands_release(&writer->commands);
	round_release(&writer->round);
}

static bool
has_read_all(const struct writer *writer)
{
	for (size_t p = 0; p < PARTITIONS; p++)
		if (writer->next[p] < topics[p].count)
			return false;
	return true;
}

/* Appends the next records of a partition; returns how many. */
static uint32_t
read_records(struct writer *writer, struct buf *frame, uint32_t src,
    struct range *range, size_t most)
{
	const struct topic *topic = &topics[range->partition];
	size_t *next = &writer->next[range->partition];
	struct record record = {.src = src};
	uint32_t count = 0;

	range->topic = slice_of("topic");
	range->from = (int64_t)*next;
	for (; most > 0 && *next < topic->count; most--, ++*next) {
		record.offset = (int64_t)*next;
		record.value = slice_of_buf(&topic->values[*next]);
		if (record.value.bytes == 0)
			continue;
		record_pack(frame, &record);
		count++;
	}
	range->next = (int64_t)*next;
	return count;
}

/* A batch of one partition or of both. */
static void
add_batch(struct writer *writer, bool is_first)
{
	size_t slot = (writer->first + writer->count++) % WORKS_MAX;
	struct buf *frame = &writer->frames[slot];
	uint32_t which = 1 + random_below((1 << PARTITIONS) - 1);
	struct range ranges[PARTITIONS] = {0};
	struct batch batch = {.head.src = ranges};
	struct err err;

	buf_reset(frame);
	for (int32_t p = 0; p < PARTITIONS; p++) {
		uint32_t src = batch.head.src_count;

		if ((which & 1U << p) == 0)
			continue;
		ranges[src].partition = p;
		batch.rec_count += read_records(writer, frame, src,
		    &ranges[src], is_first ? 0 : 1 + random_below(4));
		batch.head.src_count++;
	}
	batch.rec = cursor_of(slice_of_buf(frame));
	assert_int_equal(work_init(&writer->works[slot], &batch, &mailbox,
			     writer->due, &err),
	    0);
	round_add(&writer->round, &writer->works[slot].shares[0]);
}

static uint64_t connections;

static void
open_connection(struct writer *writer)
{
	char id[ROUND_ID_BYTES];

	snprintf(id, sizeof(id), "%llx", (unsigned long long)++connections);
	writer->conn.restarts = writer->conn.model->restarts;
	writer->conn.counted = 0;
	commands_reset(&writer->commands);
	round_open(&writer->round, id, &writer->commands);
	writer->at = writer->commands.bytes.data;
}

enum turn {
	TURN_ON,
	TURN_DONE, /* all of the topic is in the mailboxes */
	TURN_LOST, /* 75: to be started again at the mark */
	TURN_WRONG, /* what can't be */
};

static enum turn
give(struct writer *writer, struct reply reply)
{
	struct err err;
	int result = round_take(&writer->round, &reply, &err);

	reply_release(&reply);
	if (result == ROUND_TAKEN)
		return TURN_ON;
	if (result == ROUND_RETRY) {
		round_close(&writer->round);
		return TURN_ON;
	}
	return err.code == EX_TEMPFAIL ? TURN_LOST : TURN_WRONG;
}

/* MULTI to EXEC is one step of Redis; inner[] are the commands between. */
static enum turn
run_transaction(struct writer *writer, bool refused)
{
	struct model *model = writer->conn.model;
	struct model_command command;
	struct reply exec = {.type = REPLY_ARRAY};
	const uint8_t *inner = writer->at;
	size_t count = 0;
	enum turn turn = give(writer, model_status("OK"));

	for (;; count++) {
		model_parse(&writer->at, &command);
		if (slice_is(command.argument[0], "EXEC"))
			break;
		if (refused && count == 0)
			return give(writer,
			    model_text(REPLY_ERROR, slice_of("OOM full")));
		turn = give(writer, model_status("QUEUED"));
	}
	if (writer->conn.watched != model->generation && !model->ignores_watch)
		return give(writer, (struct reply){0});
	exec.items = calloc(count, sizeof(*exec.items));
	for (exec.count = 0; exec.count < count; exec.count++) {
		model_parse(&inner, &command);
		exec.items[exec.count] = model_run(&writer->conn, &command);
	}
	model_remember(model);
	return turn == TURN_ON ? give(writer, exec) : turn;
}

static enum turn
run_command(struct writer *writer, bool faults)
{
	struct model_command command;
	bool refused = faults && random_below(1000) < 8;

	if (writer->conn.restarts != writer->conn.model->restarts) {
		round_close(&writer->round);
		return TURN_ON;
	}
	model_parse(&writer->at, &command);
	if (slice_is(command.argument[0], "MULTI"))
		return run_transaction(writer, refused);
	if (refused)
		return give(
		    writer, model_text(REPLY_ERROR, slice_of("LOADING now")));
	return give(writer, model_run(&writer->conn, &command));
}

static void
note_promises(const struct work *work)
{
	const struct share *share = &work->shares[0];

	for (size_t i = 0; i < share->advance_count; i++) {
		const struct advance *advance = &share->advances[i];

		if (promised[advance->partition] < (uint64_t)advance->next)
			promised[advance->partition] = (uint64_t)advance->next;
	}
}

static void
finish_works(struct writer *writer)
{
	while (writer->count > 0 &&
	    work_is_done(&writer->works[writer->first % WORKS_MAX])) {
		note_promises(&writer->works[writer->first % WORKS_MAX]);
		work_release(&writer->works[writer->first++ % WORKS_MAX]);
		writer->count--;
	}
}

/* One step: something is read, sent, or taken by Redis. */
static enum turn
take_turn(struct writer *writer, bool faults)
{
	struct round *round = &writer->round;
	enum turn turn;

	if (!has_read_all(writer) && writer->count < WORKS_MAX && chance(10))
		add_batch(writer, false);
	if (round->phase == ROUND_CLOSED) {
		if (writer->count == 0)
			add_batch(writer, true);
		open_connection(writer);
		return TURN_ON;
	}
	if (round_is_waiting(round)) {
		writer->conn.model->is_replica_away = faults && chance(50);
		turn = run_command(writer, faults);
		finish_works(writer);
		return turn;
	}
	while (!has_read_all(writer) && writer->count < WORKS_MAX &&
	    (writer->count == 0 || chance(50)))
		add_batch(writer, false);
	commands_reset(&writer->commands);
	if (!round_next(round, chance(3), &writer->commands))
		return has_read_all(writer) ? TURN_DONE : TURN_ON;
	writer->at = writer->commands.bytes.data;
	return TURN_ON;
}

static bool
is_counter(const struct row *row)
{
	static const char start[] = "qim:{0}:round:";

	return row->key.bytes > sizeof(start) - 1 &&
	    memcmp(row->key.data, start, sizeof(start) - 1) == 0;
}

/* Rows of `a` that aren't the same in `b`. */
static size_t
count_missing(const struct model *a, const struct model *b)
{
	size_t missing = 0;

	for (size_t i = 0; i < a->data.count; i++) {
		const struct row *row = a->data.rows[i];
		size_t at = model_find(b, row->key, row->field);

		if (is_counter(row))
			continue;
		if (at == b->data.count ||
		    row->score != b->data.rows[at]->score ||
		    !slice_equal(row->value, b->data.rows[at]->value))
			missing++;
	}
	return missing;
}

static const struct row *
find_row(const struct model *model, const struct topic *topic, const char *kind,
    const char *id, struct slice field)
{
	char key[64];
	size_t i;

	snprintf(key, sizeof(key), "qim:{%u}:%s%s", (unsigned)topic->partition,
	    kind, id);
	i = model_find(model, slice_of(key), field);
	return i == model->data.count ? NULL : model->data.rows[i];
}

static size_t
count_kind(
    const struct model *model, const struct topic *topic, const char *kind)
{
	char start[64];
	size_t bytes = (size_t)snprintf(start, sizeof(start), "qim:{%u}:%s",
	    (unsigned)topic->partition, kind);
	size_t count = 0;

	for (size_t i = 0; i < model->data.count; i++)
		count += model->data.rows[i]->key.bytes >= bytes &&
		    memcmp(model->data.rows[i]->key.data, start, bytes) == 0;
	return count;
}

/* The offset of the first copy of what stands at `offset`. */
static size_t
first_copy(const struct topic *topic, size_t offset)
{
	size_t first = 0;

	while (topic->said[first].seq != topic->said[offset].seq)
		first++;
	return first;
}

/* The boxes of a first copy's recipients; returns how many are right. */
static size_t
count_boxes(const struct model *model, const struct topic *topic, size_t offset)
{
	const struct said *said = &topic->said[offset];
	struct buf member = {0};
	size_t right = 0;

	for (int i = 0; i < 4; i++) {
		const struct row *row;

		if ((said->users & 1 << i) == 0)
			continue;
		buf_reset(&member);
		reference_pack(
		    &member, conversation_of(said), said->seq, i == 0);
		row = find_row(model, topic, "box:", topic->users[i],
		    slice_of_buf(&member));
		right += row != NULL && row->score == offset + 1;
	}
	buf_release(&member);
	return right;
}

static bool
is_claimed(const struct model *model, const struct topic *topic, size_t offset)
{
	const struct said *said = &topic->said[offset];
	char field[FIELD_TEXT_BYTES];
	const struct row *row;
	struct claim claim;
	struct err err;

	log_field(said->seq, said->chunk, field);
	row = find_row(model, topic,
	    "log:", (const char *)conversation_of(said).data, slice_of(field));
	return row != NULL && claim_decode(row->value, &claim, &err) == 0 &&
	    claim.offset == (int64_t)offset &&
	    claim.digest.data[0] == said->digest &&
	    claim.has_body == (said->chunk == 1);
}

static bool
is_quarantined(const struct model *model, const struct topic *topic,
    const uint8_t *id, uint8_t digest)
{
	uint8_t field[2 * HASH_BYTES];

	memcpy(field, id, HASH_BYTES);
	memset(field + HASH_BYTES, digest, HASH_BYTES);
	return find_row(model, topic, "quarantine", "",
		   (struct slice){field, sizeof(field)}) != NULL;
}

/* Both copies of a conflict. */
static bool
is_noted(const struct model *model, const struct topic *topic, size_t first,
    size_t offset)
{
	uint8_t id[HASH_BYTES];

	memset(id, (int)(topic->said[offset].seq + topic->said[offset].chunk),
	    HASH_BYTES);
	return is_quarantined(model, topic, id, topic->said[first].digest) &&
	    is_quarantined(model, topic, id, topic->said[offset].digest);
}

/* Against what the topic says, without any of the code under test: each
 * first copy claimed and in its recipients' boxes under its own mailbox_seq,
 * and nothing else in any box; each conflict noted. */
static bool
is_right(const struct model *model, const struct topic *topic)
{
	size_t boxes = 0, claims = 0, bad = 0, conflicts = 0;

	if (mark_of(model, topic->partition) != topic->count)
		return false;
	for (size_t i = 0; i < topic->count; i++) {
		const struct said *said = &topic->said[i];
		size_t first = first_copy(topic, i);

		if (said->seq == 0) {
			bad += said->digest > 0;
			continue;
		}
		if (first == i) {
			size_t to = (size_t)__builtin_popcount(said->users);

			if (!is_claimed(model, topic, i) ||
			    count_boxes(model, topic, i) != to)
				return false;
			claims++;
			boxes += to;
		} else if (said->digest != topic->said[first].digest) {
			if (!is_noted(model, topic, first, i))
				return false;
			conflicts++;
		}
	}
	return count_kind(model, topic, "box:") == boxes &&
	    count_kind(model, topic, "log:") == claims &&
	    (count_kind(model, topic, "quarantine") > 0) ==
	    (bad + conflicts > 0);
}

static bool
all_right(const struct model *model)
{
	for (size_t p = 0; p < PARTITIONS; p++)
		if (!is_right(model, &topics[p]))
			return false;
	return true;
}

/* One writer until it is done; false: it went wrong. */
static bool
run_alone(struct model *model, uint32_t back)
{
	static struct writer writer;
	enum turn turn;

	begin_writer(&writer, model, back);
	do
		turn = take_turn(&writer, false);
	while (turn == TURN_ON);
	end_writer(&writer);
	return turn == TURN_DONE;
}

static bool
keeps_promises(const struct model *model)
{
	for (uint32_t p = 0; p < PARTITIONS; p++)
		if (mark_of(model, p) < promised[p])
			return false;
	return true;
}

/* The replica becomes the master; false: it hasn't what was promised. */
static bool
fail_over(struct model *model)
{
	model_lose(model, &model->replica, chance(50));
	return keeps_promises(model);
}

static void
lose(struct model *model, uint64_t *losses)
{
	static const struct data_set empty;
	const struct data_set *to = &empty;

	if (model->past_count > 0 && chance(80))
		to = &model->past[random_below((uint32_t)model->past_count)];
	model_lose(model, to, chance(50));
	memset(promised, 0, sizeof(promised));
	++*losses;
}

/* Several writers and all that can happen; false: one went wrong. */
static bool
run_together(struct model *model, uint64_t *losses)
{
	/* A writer stays where it is: its round points into it. */
	static struct writer memory[WRITERS_MAX];
	struct writer *writers[] = {&memory[0], &memory[1], &memory[2]};
	size_t count = 1;
	bool may_lose = chance(60), right = true;

	begin_writer(writers[0], model, 0);
	for (int step = 0; step < STEPS_MAX && count > 0 && right; step++) {
		uint32_t dice = random_below(1000);
		bool faults = step < FAULT_STEPS;
		size_t i = random_below((uint32_t)count);
		enum turn turn;

		if (faults && dice < 15 && count < WRITERS_MAX)
			begin_writer(writers[count++], model, BACK_MOST);
		else if (faults && dice < 30) {
			end_writer(writers[i]); /* kill -9, and another one */
			begin_writer(writers[i], model, BACK_MOST);
		} else if (faults && dice < 55 && may_lose)
			lose(model, losses);
		else if (faults && dice < 70 && fails_over)
			right = fail_over(model);
		turn = take_turn(writers[i], faults);
		right = right && turn != TURN_WRONG;
		if (turn == TURN_ON)
			continue;
		end_writer(writers[i]);
		if (turn == TURN_LOST)
			begin_writer(writers[i], model, 0);
		else {
			struct writer *done = writers[i];

			writers[i] = writers[--count];
			writers[count] = done;
		}
	}
	while (count > 0)
		end_writer(writers[--count]);
	return right;
}

/* True when all is as it must be. */
static bool
try_seed(
    uint64_t seed, bool ignores_watch, bool fakes_counter, uint64_t *losses)
{
	static struct model plain, model;
	bool right;

	state = seed * 0x9e3779b97f4a7c15ULL + 1;
	for (size_t p = 0; p < PARTITIONS; p++)
		make_topic(&topics[p]);
	memset(promised, 0, sizeof(promised));
	plain = (struct model){0};
	model = (struct model){
	    .ignores_watch = ignores_watch, .fakes_counter = fakes_counter};
	right = run_alone(&plain, 0) && all_right(&plain);
	memset(promised, 0, sizeof(promised));
	right = right && run_together(&model, losses) &&
	    run_alone(&model, BACK_MOST) &&
	    count_missing(&plain, &model) == 0 &&
	    count_missing(&model, &plain) == 0;
	model_release(&plain);
	model_release(&model);
	return right;
}

static uint64_t
setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void
test_all_runs_end_alike(void **unused)
{
	uint64_t first = setting("ROUND_FIRST", 0), losses = 0;
	uint64_t end = first + setting("ROUND_SEEDS", SEEDS_DEFAULT);

	(void)unused;
	for (uint64_t seed = first; seed < end; seed++) {
		fails_over = seed % 2 == 1;
		wait = (struct round_wait){fails_over ? 1 : 0, 10};
		if (!try_seed(seed, false, false, &losses))
			fail_msg("seed %llu", (unsigned long long)seed);
	}
	wait = (struct round_wait){0};
	fails_over = false;
	assert_true(losses > (end - first) / 2);
}

static void
test_it_bites_without_wait(void **unused)
{
	uint64_t wrong = 0, losses = 0;

	(void)unused;
	fails_over = true;
	for (uint64_t seed = 0; seed < BROKEN_SEEDS; seed++)
		wrong += !try_seed(seed, false, false, &losses);
	fails_over = false;
	assert_true(wrong > 0);
}

static void
test_it_bites_without_watch(void **unused)
{
	uint64_t wrong = 0, losses = 0;

	(void)unused;
	for (uint64_t seed = 0; seed < BROKEN_SEEDS; seed++)
		wrong += !try_seed(seed, true, false, &losses);
	assert_true(wrong > 0);
}

static void
test_it_bites_without_counter(void **unused)
{
	uint64_t wrong = 0, losses = 0;

	(void)unused;
	for (uint64_t seed = 0; seed < BROKEN_SEEDS; seed++)
		wrong += !try_seed(seed, false, true, &losses);
	assert_true(wrong > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_runs_end_alike),
	    cmocka_unit_test(test_it_bites_without_watch),
	    cmocka_unit_test(test_it_bites_without_wait),
	    cmocka_unit_test(test_it_bites_without_counter),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
