/*
 * mailbox-apply - dispatches into the mailboxes of their recipients.
 *
 * Reads the records of a dispatch topic on stdin, writes receipts on stdout
 * and talks to Redis: a list of nodes, each with the partitions P for which
 * P mod count is its place.  A batch's receipt goes out once its marks are
 * confirmed, in the order of the batches.  Stops at the end of its input, and
 * with 75 where a node lost data.  Everything is safe to repeat, from any
 * earlier offset and by several at once: nothing is written twice.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "redis/marks.h"
#include "redis/shard.h"

static const char synopsis[] =
    "usage: mailbox-apply [-hqVv] [--check] [--connect-ms ms]\n"
    "                     [--with-parent] -r node,... [-n partitions]\n"
    "                     [-w batches] [--window-bytes bytes]\n"
    "                     [--prefix text] [--user name]\n"
    "                     [--password-file file] [--strict]\n";

#define PARTITIONS_DEFAULT 64
#define WAIT_MOST_MS 60000

/* Lines about quarantine: one for each such time at most. */
#define WARNING_PAUSE_US 1000000

static struct options {
	struct opt_common common;
	const char *redis; /* -r */
	uint64_t partitions; /* -n; 0: hello's, else PARTITIONS_DEFAULT */
	uint64_t window; /* -w */
	uint64_t window_bytes;
	const char *prefix;
	const char *user;
	const char *password_file;
	bool strict;
} options = {.window = 4, .window_bytes = 64 << 20, .prefix = "qim"};

static const struct opt table[] = {
    {'r', NULL, OPT_TEXT, &options.redis},
    {'n', NULL, OPT_NUMBER, &options.partitions, 1, MAILBOX_PARTITIONS_MAX,
	"partitions"},
    {'w', NULL, OPT_NUMBER, &options.window, 1, 1024, "batches"},
    {0, "window-bytes", OPT_NUMBER, &options.window_bytes, 1 << 20, 1 << 30,
	"bytes"},
    {0, "prefix", OPT_TEXT, &options.prefix},
    {0, "user", OPT_TEXT, &options.user},
    {0, "password-file", OPT_TEXT, &options.password_file},
    {0, "strict", OPT_FLAG, &options.strict},
    {0},
};

/* A batch, or a part of one, until its receipt is out. */
struct unit {
	struct unit *next;
	struct stream_item item; /* holds what the work points into */
	struct work work;
	uint64_t start_us;
};

static struct nodes nodes;
static struct login login;
static struct mailbox mailbox;
static struct shard *shards;
static int64_t *due; /* by partition: see work_init() */

static struct stream_in in;
static struct stream_out out;
static bool has_ended; /* no more input is taken */
static struct err input_err; /* why; code 0: the end was seen */

static struct unit *first, *last;
static uint64_t unit_batches, unit_bytes; /* batches begun, memory held */
static struct receipt receipt; /* of the batch whose parts are counted */
static uint64_t receipt_start_us;
static uint64_t total_in, total_out, total_dead;

/* That no server stands in the list under two names: it would be written to
 * as both, and then be found at the wrong place by the next start.  ids[] are
 * those of the nodes before. */
static int
check_alone(struct client *client, uint32_t place, char (*ids)[RUN_ID_BYTES],
    struct err *err)
{
	int told =
	    nodes.count == 1 ? 1 : client_run_id(client, ids[place], err);

	if (told == 0)
		msg_write(MSG_NOTICE,
		    "redis %s: doesn't tell whether it is in -r twice: INFO "
		    "is refused",
		    nodes.all[place].text);
	for (uint32_t i = 0; i < place && *ids[place] != '\0'; i++)
		if (strcmp(ids[i], ids[place]) == 0)
			return err_set(err, EX_CONFIG,
			    "-r: '%s' and '%s' are the same Redis",
			    nodes.all[i].text, nodes.all[place].text);
	return told < 0 ? -1 : 0;
}

/* That a node answers, is at its place in the list, and keeps what it is
 * given. */
static int
check_node(uint32_t place, char (*ids)[RUN_ID_BYTES], struct err *err)
{
	const struct node *node = &nodes.all[place];
	struct client client;
	char text[256];
	int told = -1;

	if (client_init(
		&client, node, &login, options.common.connect_ms, err) == 0 &&
	    check_alone(&client, place, ids, err) == 0 &&
	    marks_check_place(&client, &mailbox, place, err) == 0)
		told = client_check_durable(&client, text, sizeof(text), err);
	client_release(&client);
	if (told < 0)
		return -1;
	if (told == 0)
		msg_write(MSG_NOTICE,
		    "redis %s: doesn't tell whether it keeps its data: "
		    "CONFIG GET is refused",
		    node->text);
	else if (*text != '\0' && options.strict)
		return err_set(
		    err, EX_CONFIG, "redis %s: %s", node->text, text);
	else if (*text != '\0')
		msg_write(MSG_WARNING, "redis %s: %s", node->text, text);
	return 0;
}

static int
check_nodes(struct err *err)
{
	char(*ids)[RUN_ID_BYTES] = calloc(nodes.count, sizeof(*ids));
	int result = ids == NULL ? err_memory(err, "nodes") : 0;

	mailbox.prefix = options.prefix;
	mailbox.nodes = nodes.count;
	for (uint32_t i = 0; i < nodes.count && result == 0; i++)
		result = check_node(i, ids, err);
	free(ids);
	return result;
}

static int
choose_partitions(const struct hello *hello, struct err *err)
{
	uint64_t given = options.partitions;

	mailbox.partitions = (uint32_t)given;
	if (given == 0)
		mailbox.partitions = hello->partitions > 0 ? hello->partitions
							   : PARTITIONS_DEFAULT;
	else if (hello->partitions > 0 && hello->partitions != given)
		return err_set(err, EX_CONFIG,
		    "-n: %llu, but the stream is of %lu partitions",
		    (unsigned long long)given,
		    (unsigned long)hello->partitions);
	if (mailbox.partitions > MAILBOX_PARTITIONS_MAX)
		return err_set(err, EX_CONFIG,
		    "input: %lu partitions, takes at most %d",
		    (unsigned long)mailbox.partitions, MAILBOX_PARTITIONS_MAX);
	return 0;
}

static int
open_shards(struct err *err)
{
	shards = calloc(nodes.count, sizeof(*shards));
	if (shards == NULL)
		return err_memory(err, "nodes");
	for (uint32_t i = 0; i < nodes.count; i++)
		if (shard_init(&shards[i], &nodes.all[i], &login,
			options.common.connect_ms, &mailbox, i, err) < 0)
			return -1;
	return 0;
}

/* The hello in and out, and what follows from it. */
static int
begin(struct err *err)
{
	struct stream_item item;
	struct hello hello;

	if (stream_in_wait(&in, &item, err) < 0)
		return -1;
	hello = in.hello;
	mailbox.topic = slice_dup(hello.topic);
	if (mailbox.topic == NULL)
		return err_memory(err, "topic");
	if (choose_partitions(&hello, err) < 0 || open_shards(err) < 0)
		return -1;
	due = calloc(mailbox.partitions, sizeof(*due));
	if (due == NULL)
		return err_memory(err, "partitions");
	hello.kind = STREAM_RECEIPTS;
	hello.partitions = mailbox.partitions;
	hello.durable = true;
	return stream_out_hello(&out, &hello, err);
}

static uint64_t
bytes_of(const struct unit *unit)
{
	return unit->item.frame.map.bytes + work_bytes(&unit->work);
}

static int
take_batch(struct stream_item *item, struct err *err)
{
	struct unit *unit = calloc(1, sizeof(*unit));

	if (unit == NULL)
		return err_memory(err, "batch");
	if (work_init(&unit->work, &item->batch, &mailbox, due, err) < 0) {
		free(unit);
		return -1;
	}
	unit->item = *item;
	unit->start_us = clock_us();
	unit_batches += item->batch.part <= 1;
	unit_bytes += bytes_of(unit);
	if (first == NULL)
		first = unit;
	else
		last->next = unit;
	last = unit;
	for (uint32_t i = 0; i < nodes.count; i++)
		round_add(&shards[i].round, &unit->work.shares[i]);
	return 0;
}

/* Takes input up to the next batch.  After an error what was read before is
 * still brought to its receipts. */
static void
take_input(void)
{
	struct stream_item item;
	int event;

	do
		event = stream_in_next(&in, &item, &input_err);
	while (event == STREAM_AGAIN &&
	    io_wait_readable(STDIN_FILENO, 0, &input_err) == 1);
	if (event == STREAM_BATCH && take_batch(&item, &input_err) < 0) {
		stream_item_release(&item);
		event = -1;
	}
	has_ended = event == STREAM_END || event < 0;
	if (event >= 0)
		input_err.code = 0;
}

static bool
wants_input(void)
{
	if (has_ended)
		return false;
	return first == NULL ||
	    (unit_bytes < options.window_bytes &&
		(in.part > 0 || unit_batches < options.window));
}

/* What went to quarantine is for a person to look at: where it stands, not
 * what it says. */
static void
report_dead(const struct work *work)
{
	static uint64_t count, next_us;

	for (size_t i = 0; i < work->count; i++) {
		const struct entry *entry = &work->entries[i];
		bool conflict = entry->state == ENTRY_CONFLICT;

		if (!conflict && entry->state != ENTRY_BAD)
			continue;
		count++;
		if (clock_us() < next_us)
			continue;
		next_us = clock_us() + WARNING_PAUSE_US;
		if (conflict)
			msg_write(MSG_WARNING,
			    "%s[%lu] offset %lld: another digest than that of "
			    "offset %lld, which has its place: both are in "
			    "quarantine (%llu so far)",
			    mailbox.topic, (unsigned long)entry->partition,
			    (long long)entry->offset, (long long)entry->first,
			    (unsigned long long)count);
		else
			msg_write(MSG_WARNING,
			    "%s[%lu] offset %lld: not a dispatch: in "
			    "quarantine (%llu so far)",
			    mailbox.topic, (unsigned long)entry->partition,
			    (long long)entry->offset,
			    (unsigned long long)count);
	}
}

static int
write_receipt(const struct unit *unit, struct err *err)
{
	struct step step = {"apply", receipt_start_us, clock_us()};

	receipt.head = unit->item.batch.head;
	if (stream_out_receipt(&out, &receipt, &step, 1, err) < 0)
		return -1;
	total_in += receipt.in;
	total_out += receipt.out;
	total_dead += receipt.dead;
	receipt = (struct receipt){0};
	receipt_start_us = 0;
	unit_batches--;
	return 0;
}

/* The units at the head that are done: their receipts, in order. */
static int
finish_units(struct err *err)
{
	while (first != NULL && work_is_done(&first->work)) {
		struct unit *unit = first;
		uint64_t joined, dead;
		int result = 0;

		work_count(&unit->work, &joined, &dead);
		receipt.in += unit->work.count;
		receipt.out += joined;
		receipt.dead += dead;
		receipt.bytes += unit->work.value_bytes;
		if (receipt_start_us == 0)
			receipt_start_us = unit->start_us;
		if (dead > 0)
			report_dead(&unit->work);
		if (!unit->item.batch.more)
			result = write_receipt(unit, err);
		first = unit->next;
		unit_bytes -= bytes_of(unit);
		work_release(&unit->work);
		stream_item_release(&unit->item);
		free(unit);
		if (result < 0)
			return -1;
	}
	return 0;
}

static int
timeout_ms(void)
{
	uint64_t wake_us = UINT64_MAX;

	for (uint32_t i = 0; i < nodes.count; i++)
		if (shard_wake_us(&shards[i]) < wake_us)
			wake_us = shard_wake_us(&shards[i]);
	return clock_left_ms(wake_us, WAIT_MOST_MS);
}

/* polls[]: input, output, then a node each. */
static int
step(struct pollfd *polls, struct err *err)
{
	polls[0] =
	    (struct pollfd){wants_input() ? STDIN_FILENO : -1, POLLIN, 0};
	polls[1] = (struct pollfd){STDOUT_FILENO, 0, 0};
	for (uint32_t i = 0; i < nodes.count; i++)
		polls[2 + i] = (struct pollfd){
		    shard_fd(&shards[i]), shard_events(&shards[i]), 0};
	if (poll(polls, 2 + (nfds_t)nodes.count, timeout_ms()) < 0) {
		if (errno == EINTR)
			return 0;
		return err_set(err, EX_OSERR, "poll: %s", strerror(errno));
	}
	if ((polls[1].revents & POLLERR) != 0)
		return err_set(err, EX_TEMPFAIL, "output: the reader is gone");
	if (polls[0].revents != 0)
		take_input();
	for (uint32_t i = 0; i < nodes.count; i++)
		if (shard_move(&shards[i], polls[2 + i].revents, err) < 0)
			return -1;
	return finish_units(err);
}

/* A batch whose later parts will not come is left alone: it has no receipt,
 * and is done again. */
static bool
is_drained(void)
{
	return has_ended && first == NULL;
}

static int
run(struct err *err)
{
	struct pollfd *polls = calloc(2 + (size_t)nodes.count, sizeof(*polls));
	int result = polls == NULL ? err_memory(err, "nodes") : 0;

	while (result == 0 && !is_drained())
		result = step(polls, err);
	free(polls);
	if (result < 0) {
		if (input_err.code == 0)
			return -1;
		/* The first cause says what is to be done. */
		msg_write(MSG_WARNING, "%s", err->text);
		*err = input_err;
		return -1;
	}
	msg_write(MSG_INFO,
	    "%llu records, %llu mailbox entries, %llu in quarantine",
	    (unsigned long long)total_in, (unsigned long long)total_out,
	    (unsigned long long)total_dead);
	if (input_err.code != 0) {
		*err = input_err;
		return -1;
	}
	if (stream_out_end(&out, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

static void
release(void)
{
	for (; first != NULL; first = last) {
		last = first->next;
		work_release(&first->work);
		stream_item_release(&first->item);
		free(first);
	}
	for (uint32_t i = 0; shards != NULL && i < nodes.count; i++)
		shard_release(&shards[i]);
	free(shards);
	free(due);
	free((char *)(uintptr_t)mailbox.topic);
	stream_in_release(&in);
	stream_out_release(&out);
	login_release(&login);
	nodes_release(&nodes);
}

static int
apply(struct err *err)
{
	int result = -1;

	stream_in_init(&in, STDIN_FILENO, STREAM_RECORDS);
	stream_out_init(&out, STDOUT_FILENO);
	if (check_nodes(err) == 0 && begin(err) == 0)
		result = run(err);
	release();
	return result;
}

static int
check_settings(struct err *err)
{
	if (opt_required("-r", options.redis, err) < 0 ||
	    mailbox_check_prefix(options.prefix, err) < 0 ||
	    nodes_parse(options.redis, &nodes, err) < 0)
		return -1;
	return login_init(&login, options.user, options.password_file, err);
}

int
main(int argc, char **argv)
{
	struct err err;
	int parsed;

	parsed = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (parsed == OPT_SHOWN)
		return EX_OK;
	if (parsed < 0 || check_settings(&err) < 0)
		return msg_fail(&err);
	if (options.common.check)
		return check_nodes(&err) < 0 ? msg_fail(&err) : EX_OK;
	if (program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	return apply(&err) < 0 ? msg_fail(&err) : EX_OK;
}
