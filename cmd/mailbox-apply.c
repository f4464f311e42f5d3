/*
 * mailbox-apply - dispatches into the mailboxes of their recipients.
 *
 * Reads the records of a dispatch topic on stdin, writes receipts on stdout
 * and talks to Redis: a list of nodes, each with the partitions P for which
 * P mod count is its place.  A batch's receipt goes out once its marks are
 * confirmed, in the order of the batches.  Stops at the end of its input, and
 * with 75 where a node lost data.  Everything is safe to repeat, from any
 * earlier offset and by several at once: nothing is written twice.
 * With --set-mark it reads nothing: an operator moves watermarks.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "redis/check.h"
#include "redis/figures.h"
#include "redis/marks.h"
#include "redis/queue.h"
#include "redis/shard.h"
#include "stream/figures.h"

static const char synopsis[] =
    "usage: mailbox-apply [-hqVv] [--check] [--connect-ms ms]\n"
    "                     [--with-parent] -r node,... [-n partitions]\n"
    "                     [-w batches] [--window-bytes bytes]\n"
    "                     [--connections count] [--prefix text]\n"
    "                     [--user name] [--password-file file] [--strict]\n"
    "                     [--wait-replicas count] [--wait-ms ms]\n"
    "                     [--set-mark topic:partitions=offset] ...\n"
    "                     [--stats file] [--prom folder] [--chain name]\n";

#define PARTITIONS_DEFAULT 64
#define WAIT_MOST_MS 60000
#define CONNECTIONS_MAX 16
#define REPLICAS_MAX 100

static struct figure *const figures[] = {&stage_batches, &stage_records,
    &stage_bytes_out, &stage_progress, &stage_batches_in, &stage_records_in,
    &stage_bytes_in, &stage_in_flight_batches, &stage_in_flight_bytes,
    &step_apply, MAILBOX_FIGURES, NULL};

static struct options {
	struct opt_common common;
	const char *redis; /* -r */
	uint64_t partitions; /* -n; 0: hello's, else PARTITIONS_DEFAULT */
	uint64_t window; /* -w */
	uint64_t window_bytes;
	uint64_t connections; /* to each node */
	const char *prefix;
	const char *user;
	const char *password_file;
	bool strict;
	uint64_t wait_replicas;
	uint64_t wait_ms;
	struct opt_list set_mark;
} options = {.common.figures.table = figures,
    .window = 16,
    .window_bytes = 64 << 20,
    .connections = 2,
    .prefix = "qim",
    .wait_ms = 1000};

static const struct opt table[] = {
    {'r', NULL, OPT_TEXT, &options.redis},
    {'n', NULL, OPT_NUMBER, &options.partitions, 1, MAILBOX_PARTITIONS_MAX,
	"partitions"},
    {'w', NULL, OPT_NUMBER, &options.window, 1, 1024, "batches"},
    {0, "window-bytes", OPT_NUMBER, &options.window_bytes, 1 << 20, 1 << 30,
	"bytes"},
    {0, "connections", OPT_NUMBER, &options.connections, 1, CONNECTIONS_MAX,
	"connections"},
    {0, "prefix", OPT_TEXT, &options.prefix},
    {0, "user", OPT_TEXT, &options.user},
    {0, "password-file", OPT_TEXT, &options.password_file},
    {0, "strict", OPT_FLAG, &options.strict},
    {0, "wait-replicas", OPT_NUMBER, &options.wait_replicas, 0, REPLICAS_MAX,
	"replicas"},
    {0, "wait-ms", OPT_NUMBER, &options.wait_ms, 10, 600000, "ms"},
    {0, "set-mark", OPT_LIST, &options.set_mark},
    {0},
};

static struct nodes nodes;
static struct login login;
static struct mailbox mailbox;
static struct mark_moves moves;
static struct shard *shards; /* mailbox_shares() */
static uint32_t shard_count;
static struct told *told; /* by node */
static int64_t *due; /* by partition: see work_init() */

static struct stream_in in;
static struct stream_out out;
static bool has_ended; /* no more input is taken */
static struct err input_err; /* why; code 0: the end was seen */

static struct queue queue = {.mailbox = &mailbox};

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

/* No more connections to a node than it has partitions. */
static uint32_t
choose_connections(void)
{
	uint32_t most = mailbox.partitions / nodes.count;

	if (most < 1)
		most = 1;
	return options.connections < most ? (uint32_t)options.connections
					  : most;
}

static int
open_shards(struct err *err)
{
	struct round_wait wait = {0};

	if (options.wait_replicas > 0)
		wait = (struct round_wait){
		    (uint32_t)options.wait_replicas, (uint32_t)options.wait_ms};
	mailbox.connections = choose_connections();
	shards = calloc(mailbox_shares(&mailbox), sizeof(*shards));
	told = calloc(nodes.count, sizeof(*told));
	if (shards == NULL || told == NULL)
		return err_memory(err, "nodes");
	for (; shard_count < mailbox_shares(&mailbox); shard_count++)
		if (shard_init(&shards[shard_count],
			&nodes.all[shard_count % nodes.count],
			&told[shard_count % nodes.count], &login,
			options.common.connect_ms, &mailbox, shard_count, wait,
			err) < 0)
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

static int
take_batch(struct stream_item *item, struct err *err)
{
	struct work *work = queue_add(&queue, item, due, err);

	if (work == NULL)
		return -1;
	for (uint32_t i = 0; i < shard_count; i++)
		round_add(&shards[i].round, &work->shares[i]);
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
	return queue.first == NULL ||
	    (queue.bytes < options.window_bytes &&
		(in.part > 0 || queue.batches < options.window));
}

static int
timeout_ms(void)
{
	uint64_t wake_us = UINT64_MAX;

	for (uint32_t i = 0; i < shard_count; i++)
		if (shard_wake_us(&shards[i]) < wake_us)
			wake_us = shard_wake_us(&shards[i]);
	return clock_left_ms(wake_us, WAIT_MOST_MS);
}

/* polls[]: what poll(2) said of each; NULL: nothing. */
static int
move_shards(const struct pollfd *polls, struct err *err)
{
	for (uint32_t i = 0; i < shard_count; i++)
		if (shard_move(&shards[i], polls == NULL ? 0 : polls[i].revents,
			err) < 0)
			return -1;
	return 0;
}

/* polls[]: input, output, then the connections.  Nodes come first: one that
 * has answered has nothing to do until it gets its next round. */
static int
step(struct pollfd *polls, struct err *err)
{
	polls[0] =
	    (struct pollfd){wants_input() ? STDIN_FILENO : -1, POLLIN, 0};
	polls[1] = (struct pollfd){STDOUT_FILENO, 0, 0};
	for (uint32_t i = 0; i < shard_count; i++)
		polls[2 + i] = (struct pollfd){
		    shard_fd(&shards[i]), shard_events(&shards[i]), 0};
	if (poll(polls, 2 + (nfds_t)shard_count, timeout_ms()) < 0) {
		if (errno == EINTR)
			return 0;
		return err_set(err, EX_OSERR, "poll: %s", strerror(errno));
	}
	if ((polls[1].revents & POLLERR) != 0)
		return err_set(err, EX_TEMPFAIL, "output: the reader is gone");
	if (move_shards(polls + 2, err) < 0)
		return -1;
	if (polls[0].revents != 0) {
		take_input();
		if (move_shards(NULL, err) < 0)
			return -1;
	}
	return queue_finish(&queue, &out, err);
}

/* A batch whose later parts will not come is left alone: it has no receipt,
 * and is done again. */
static bool
is_drained(void)
{
	return has_ended && queue.first == NULL;
}

static int
run(struct err *err)
{
	struct pollfd *polls = calloc(2 + (size_t)shard_count, sizeof(*polls));
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
	    (unsigned long long)queue.in, (unsigned long long)queue.out,
	    (unsigned long long)queue.dead);
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
	queue_release(&queue);
	for (uint32_t i = 0; i < shard_count; i++)
		shard_release(&shards[i]);
	free(shards);
	free(told);
	free(due);
	free((char *)(uintptr_t)mailbox.topic);
	stream_in_release(&in);
	stream_out_release(&out);
}

static int
look_at_nodes(struct err *err)
{
	const struct check_rules rules = {
	    options.common.connect_ms, options.wait_replicas, options.strict};

	return check_nodes(&nodes, &login, &mailbox, &rules, err);
}

static int
apply(struct err *err)
{
	int result = -1;

	stream_in_init(&in, STDIN_FILENO, STREAM_RECORDS);
	stream_out_init(&out, STDOUT_FILENO);
	queue.strict = options.strict;
	if (look_at_nodes(err) == 0 && begin(err) == 0)
		result = run(err);
	release();
	return result;
}

/* A line for each partition, on stdout and as a notice. */
static int
report_moves(struct err *err)
{
	char line[400];
	struct iovec piece = {line, 0};

	for (size_t i = 0; i < moves.count; i++) {
		const struct mark_move *move = &moves.all[i];

		snprintf(line, sizeof(line), "%s[%lu] %llu -> %llu\n",
		    moves.topic, (unsigned long)move->partition,
		    (unsigned long long)move->old,
		    (unsigned long long)move->offset);
		piece.iov_len = strlen(line);
		if (io_write_all(STDOUT_FILENO, &piece, 1, err) < 0)
			return -1;
		line[piece.iov_len - 1] = '\0';
		msg_write(MSG_NOTICE, "set the mark of %s", line);
	}
	return io_close_output(STDOUT_FILENO, err);
}

static int
set_marks(struct err *err)
{
	mailbox.topic = moves.topic;
	mailbox.partitions = (uint32_t)options.partitions;
	if (mailbox.partitions == 0)
		mailbox.partitions = PARTITIONS_DEFAULT;
	if (marks_set(&nodes, &login, options.common.connect_ms, &mailbox,
		&moves, err) < 0)
		return -1;
	return report_moves(err);
}

static int
check_settings(struct err *err)
{
	if (opt_required("-r", options.redis, err) < 0 ||
	    mailbox_check_prefix(options.prefix, err) < 0 ||
	    nodes_parse(options.redis, &nodes, err) < 0 ||
	    mark_moves_parse("--set-mark", &options.set_mark, &moves, err) < 0)
		return -1;
	if (options.wait_replicas > 0 &&
	    options.wait_ms >= options.common.connect_ms)
		return err_set(err, EX_CONFIG,
		    "--wait-ms: %llu, wants less than the %llu of --connect-ms",
		    (unsigned long long)options.wait_ms,
		    (unsigned long long)options.common.connect_ms);
	mailbox.prefix = options.prefix;
	mailbox.nodes = nodes.count;
	return login_init(&login, options.user, options.password_file, err);
}

static int
work(struct err *err)
{
	if (options.common.check)
		return look_at_nodes(err);
	if (program_signals(&options.common, err) < 0)
		return -1;
	return moves.count > 0 ? set_marks(err) : apply(err);
}

int
main(int argc, char **argv)
{
	struct err err;
	int result;

	result = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (result == OPT_SHOWN)
		return EX_OK;
	if (result < 0 || check_settings(&err) < 0)
		return program_end(-1, &err);
	result = work(&err);
	mark_moves_release(&moves);
	login_release(&login);
	nodes_release(&nodes);
	return program_end(result, &err);
}
