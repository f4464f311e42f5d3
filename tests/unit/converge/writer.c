#include "writer.h"

#include <stdio.h>
#include <stdlib.h>

#include "dice.h"
#include "stream/record.h"
#include "world.h"

/* In 1000 commands: an error reply, a connection that is cut before or after
 * one. */
#define REFUSED 8
#define CUT 6

static size_t
choose_start(const struct topic *topic, size_t mark)
{
	size_t least = topic->start < mark ? topic->start : mark;
	uint32_t most = (uint32_t)(mark - least);

	if (most > 3 && chance(50))
		most = 3;
	return mark - random_below(most + 1);
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
	if (work_init(
		&writer->works[slot], &batch, &mailbox, writer->due, &err) < 0)
		abort();
	for (uint32_t i = 0; i < writer->lane_count; i++)
		round_add(
		    &writer->lanes[i].round, &writer->works[slot].shares[i]);
}

void
writer_begin(struct writer *writer, struct model *model, bool below)
{
	struct round_wait wait = {world.replicas, 10};
	struct err err;

	*writer = (struct writer){.lane_count = mailbox_shares(&mailbox)};
	model_read(model);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		size_t mark = mark_of(model, &topics[p]);

		writer->next[p] = below ? choose_start(&topics[p], mark) : mark;
	}
	for (uint32_t i = 0; i < writer->lane_count; i++) {
		struct lane *lane = &writer->lanes[i];

		link_open(&lane->link, model);
		if (round_init(&lane->round, &mailbox, i, wait, &err) < 0)
			abort();
	}
	add_batch(writer, true);
}

void
writer_end(struct writer *writer)
{
	for (; writer->count > 0; writer->count--)
		work_release(&writer->works[writer->first++ % WORKS_MAX]);
	for (size_t i = 0; i < WORKS_MAX; i++)
		buf_release(&writer->frames[i]);
	for (uint32_t i = 0; i < writer->lane_count; i++) {
		struct lane *lane = &writer->lanes[i];

		commands_release(&lane->commands);
		round_release(&lane->round);
		link_close(&lane->link);
	}
}

static void
open_connection(struct lane *lane)
{
	static uint64_t connections;
	struct model *model = lane->link.model;
	char id[ROUND_ID_BYTES];

	snprintf(id, sizeof(id), "%llx", (unsigned long long)++connections);
	link_close(&lane->link);
	link_open(&lane->link, model);
	commands_reset(&lane->commands);
	round_open(&lane->round, id, &lane->commands);
	lane->at = lane->commands.bytes.data;
}

static enum turn
give(struct lane *lane, const struct reply *reply)
{
	struct err err;
	int result = round_take(&lane->round, reply, &err);

	if (result == ROUND_TAKEN)
		return TURN_ON;
	if (result == ROUND_RETRY) {
		round_close(&lane->round);
		return TURN_ON;
	}
	if (err.code == EX_TEMPFAIL)
		return TURN_LOST;
	complain("a writer: %s", err.text);
	return TURN_WRONG;
}

static enum turn
give_all(struct lane *lane, const struct reply *replies, size_t count)
{
	enum turn turn = TURN_ON;

	for (size_t i = 0; i < count && turn == TURN_ON; i++)
		if (lane->round.phase != ROUND_CLOSED)
			turn = give(lane, &replies[i]);
	return turn;
}

/* Redis takes nothing; in a transaction all is thrown away. */
static enum turn
refuse(struct lane *lane, size_t count)
{
	const struct reply replies[] = {reply_status("OK"),
	    {.type = REPLY_ERROR,
		.text = slice_of(count > 1 ? "OOM full" : "LOADING now")}};

	return count > 1 ? give_all(lane, replies, 2)
			 : give_all(lane, replies + 1, 1);
}

static enum turn
run_command(struct lane *lane, bool faults)
{
	static struct reply replies[REPLIES_MAX];
	uint32_t dice = faults ? random_below(1000) : 1000;
	struct slice bytes;
	size_t count;
	enum turn turn;

	bytes = link_next(lane->at, &count);
	if (count > REPLIES_MAX)
		abort();
	lane->at += bytes.bytes;
	if (dice < REFUSED)
		return refuse(lane, count);
	if (dice < REFUSED + CUT / 2 ||
	    !link_run(&lane->link, bytes, count, replies)) {
		round_close(&lane->round);
		return TURN_ON;
	}
	if (dice < REFUSED + CUT)
		round_close(&lane->round);
	turn = give_all(lane, replies, count);
	for (size_t i = 0; i < count; i++)
		reply_release(&replies[i]);
	return turn;
}

/* Its receipt is given. */
static void
promise(const struct work *work)
{
	for (uint32_t k = 0; k < work->share_count; k++) {
		const struct share *share = &work->shares[k];

		for (size_t i = 0; i < share->advance_count; i++) {
			uint64_t next = (uint64_t)share->advances[i].next;
			uint64_t *promised =
			    &world.promised[share->advances[i].partition];

			if (*promised < next)
				*promised = next;
		}
	}
}

static void
drop_done(struct writer *writer)
{
	while (writer->count > 0) {
		struct work *work = &writer->works[writer->first % WORKS_MAX];

		if (!work_is_done(work))
			return;
		promise(work);
		work_release(work);
		writer->first++;
		writer->count--;
	}
}

static enum turn
finish(struct writer *writer)
{
	for (uint32_t i = 0; i < writer->lane_count; i++)
		link_flush(&writer->lanes[i].link);
	return TURN_DONE;
}

enum turn
writer_turn(struct writer *writer, bool faults)
{
	struct lane *lane = &writer->lanes[random_below(writer->lane_count)];
	bool is_idle = lane->round.phase == ROUND_IDLE;

	if (lane->round.phase == ROUND_CLOSED) {
		open_connection(lane);
		return TURN_ON;
	}
	if (round_is_waiting(&lane->round)) {
		enum turn turn = run_command(lane, faults);

		drop_done(writer);
		return turn;
	}
	while (!has_read_all(writer) && writer->count < WORKS_MAX &&
	    (writer->count == 0 || chance(is_idle ? 50 : 10)))
		add_batch(writer, false);
	if (writer->count == 0)
		return finish(writer);
	commands_reset(&lane->commands);
	if (round_next(&lane->round, chance(3), &lane->commands))
		lane->at = lane->commands.bytes.data;
	return TURN_ON;
}
