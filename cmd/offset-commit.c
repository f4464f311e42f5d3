/*
 * offset-commit - commits the offsets of a group as receipts come.
 *
 * Reads receipts on stdin and talks to Kafka's group coordinator; writes
 * nothing on stdout.  It stops when its input ends, after a last commit of
 * what was acknowledged: also when the input is torn.  A commit that is late
 * or lost is safe, the records are read again; none is early.
 *
 * With --set it reads nothing: an operator moves a group while the chain is
 * stopped, and gets a line per partition on stdout.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/signals.h"
#include "kafka/committer.h"
#include "kafka/figures.h"
#include "kafka/locks.h"
#include "kafka/move.h"
#include "stream/figures.h"
#include "stream/stream.h"

static const char synopsis[] =
    "usage: offset-commit [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                     -b brokers -g group [-F file] [-X name=value] ...\n"
    "                     [--interval ms] [--every-batch] [--dry-run]\n"
    "                     [--lock-dir folder] [--ready fd]\n"
    "                     [--set topic[:partitions]=where] ...\n"
    "                     [--stats file] [--prom folder] [--chain name]\n";

#define INTERVAL_MS 100

/* Kafka forgets the offset of a partition 7 days after its last commit
 * (offsets.retention.minutes), though the group is read: commit each again
 * long before. */
#define RENEW_US (UINT64_C(4) * 3600 * 1000000)

#define NOT_GIVEN UINT64_MAX

static struct figure *const figures[] = {&stage_batches, &stage_records,
    &stage_progress, &stage_bytes_in, &step_commit, &stage_retries,
    &kafka_acknowledged, &kafka_committed, KAFKA_ERRORS_FIGURES, NULL};

static struct options {
	struct opt_common common;
	struct kafka_options kafka;
	uint64_t interval_ms;
	bool every_batch;
	bool dry_run;
	const char *lock_dir;
	uint64_t ready_fd;
	struct opt_list set;
} options = {.common.figures.table = figures,
    .interval_ms = NOT_GIVEN,
    .ready_fd = NOT_GIVEN};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.kafka.brokers},
    {'X', NULL, OPT_LIST, &options.kafka.properties},
    {'F', NULL, OPT_TEXT, &options.kafka.file},
    {'g', "group", OPT_TEXT, &options.kafka.group},
    {0, "interval", OPT_NUMBER, &options.interval_ms, 0, 60000, "ms"},
    {0, "every-batch", OPT_FLAG, &options.every_batch},
    {0, "dry-run", OPT_FLAG, &options.dry_run},
    {0, "lock-dir", OPT_TEXT, &options.lock_dir},
    {0, "ready", OPT_NUMBER, &options.ready_fd, 3, 65535, "fd"},
    {0, "set", OPT_LIST, &options.set},
    {0},
};

static struct lock_folder lock_folder;
static struct kafka_client client;
static struct locks locks;
static struct committer committer;
static struct stream_in input;
static struct moves moves;

static uint64_t
deadline_us(void)
{
	return clock_us() + options.common.connect_ms * 1000;
}

static int
check_options(struct err *err)
{
	if (opt_required("-g", options.kafka.group, err) < 0)
		return -1;
	if (options.set.count > 0 && options.every_batch)
		return err_set(
		    err, EX_CONFIG, "--every-batch: --set reads no batches");
	if (options.set.count > 0 && options.interval_ms != NOT_GIVEN)
		return err_set(
		    err, EX_CONFIG, "--interval: --set reads no batches");
	if (options.set.count > 0 && options.ready_fd != NOT_GIVEN)
		return err_set(
		    err, EX_CONFIG, "--ready: --set reads no batches");
	if (options.interval_ms == NOT_GIVEN)
		options.interval_ms = INTERVAL_MS;
	if (options.set.count > 0)
		return moves_parse(&moves, &options.set, err);
	return 0;
}

static int
check_hello(const struct hello *hello, struct err *err)
{
	if (!hello->durable)
		return err_set(err, EX_PROTOCOL,
		    "input: receipts from %.*s aren't durable: nothing may be "
		    "committed for them",
		    (int)hello->from.bytes, (const char *)hello->from.data);
	if (hello->group.data == NULL)
		return err_set(err, EX_CONFIG,
		    "-g %s: outbox-read had no -g, so it didn't start from "
		    "what this group has committed",
		    options.kafka.group);
	if (!slice_is(hello->group, options.kafka.group))
		return err_set(err, EX_CONFIG,
		    "-g %s: the input is of group %.*s", options.kafka.group,
		    (int)hello->group.bytes, (const char *)hello->group.data);
	return 0;
}

/* A --dry-run takes no locks: it may run beside the chain. */
static int
open_locks(struct err *err)
{
	return locks_open(&locks, options.dry_run ? NULL : &lock_folder,
	    &client, options.kafka.group, deadline_us(), err);
}

static int
add_start(const struct start *start, struct err *err)
{
	if (locks_take(&locks, start->topic, start->partition, err) < 0)
		return -1;
	return commits_add(&committer.commits, start->topic, start->partition,
	    start->offset,
	    slice_is(start->how, "stored") || slice_is(start->how, "file"),
	    err);
}

static int
begin(struct err *err)
{
	const struct committer_settings settings = {
	    .interval_us = options.every_batch ? 0 : options.interval_ms * 1000,
	    .deadline_us = options.common.connect_ms * 1000,
	    .renew_us = RENEW_US,
	    .dry_run = options.dry_run};
	const struct hello *hello = &input.hello;
	struct stream_item item;

	if (stream_in_wait(&input, &item, err) < 0)
		return -1;
	if (check_hello(hello, err) < 0 || open_locks(err) < 0 ||
	    committer_open(&committer, &client, &settings, err) < 0)
		return -1;
	for (uint32_t i = 0; i < hello->start_count; i++)
		if (add_start(&hello->start[i], err) < 0)
			return -1;
	return committer_read(&committer, deadline_us(), err);
}

static int
take_range(const struct range *range, struct err *err)
{
	struct commits *commits = &committer.commits;
	bool is_new = coverage_find(&commits->coverage, range->topic,
			  range->partition) == commits->coverage.count;

	if (is_new &&
	    locks_take(&locks, range->topic, range->partition, err) < 0)
		return -1;
	return commits_acknowledge(commits, range->topic, range->partition,
	    range->from, range->next, err);
}

static int
check_ready_fd(struct err *err)
{
	if (options.ready_fd != NOT_GIVEN &&
	    fcntl((int)options.ready_fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, EX_CONFIG, "--ready: %d: %s",
		    (int)options.ready_fd, strerror(errno));
	return 0;
}

/* The first receipt: every stage before this one is connected.  Whoever wanted
 * to know may have gone; that is no reason to stop. */
static void
say_ready(void)
{
	ssize_t ignored;

	if (options.ready_fd == NOT_GIVEN)
		return;
	ignored = write((int)options.ready_fd, "ready\n", 6);
	(void)ignored;
	close((int)options.ready_fd);
	options.ready_fd = NOT_GIVEN;
}

static int
take_receipt(const struct item_head *head, struct err *err)
{
	for (uint32_t i = 0; i < head->src_count; i++)
		if (take_range(&head->src[i], err) < 0)
			return -1;
	say_ready();
	return 0;
}

/* One read of the input: 1 go on, 0 the end, -1. */
static int
take_input(struct err *err)
{
	struct stream_item item;
	int event = stream_in_next(&input, &item, err);
	int result = 0;

	if (event < 0)
		return -1;
	if (event == STREAM_RECEIPT)
		result = take_receipt(&item.receipt.head, err);
	figure_set(&stage_batches, input.batches);
	figure_set(&stage_records, input.records);
	stream_item_release(&item);
	return result < 0 ? -1 : event != STREAM_END;
}

/* With --every-batch nothing is read before the last receipt is committed. */
static bool
must_hold(void)
{
	return options.every_batch && !commits_are_done(&committer.commits);
}

/* Reads receipts until they end: 0, or -1 with the error of the input in
 * *input_err or of a commit in *err. */
static int
run(struct err *input_err, struct err *err)
{
	int more = 1;

	while (more == 1) {
		struct pollfd wait[2] = {
		    {.fd = committer.wake_fd, .events = POLLIN},
		    {.fd = must_hold() ? -1 : STDIN_FILENO, .events = POLLIN}};

		if (poll(wait, 2, committer_wait_ms(&committer)) < 0 &&
		    errno != EINTR)
			return err_set(
			    err, EX_OSERR, "poll: %s", strerror(errno));
		if (wait[1].revents != 0)
			more = take_input(input_err);
		if (committer_work(&committer, err) < 0 ||
		    committer_show(&committer, err) < 0)
			return -1;
	}
	return 0;
}

/* The whole of a chain's life.  What was acknowledged before the input broke
 * is committed; then its error is the program's, whatever became of the
 * commit, for it came first. */
static int
commit_receipts(struct err *err)
{
	struct err input_err = {0};
	int result;

	if (begin(err) < 0)
		return -1;
	result = run(&input_err, err);
	if (result == 0)
		result = committer_finish(&committer, err);
	if (input_err.code == 0)
		return result;
	if (result < 0)
		msg_write(MSG_WARNING, "%s", err->text);
	*err = input_err;
	return -1;
}

static void
format_offset(int64_t offset, char *text, size_t bytes)
{
	if (offset < 0)
		snprintf(text, bytes, "none");
	else
		snprintf(text, bytes, "%" PRId64, offset);
}

/* A line per partition, on stdout and as a notice. */
static int
report_moves(struct err *err)
{
	char line[400], old[24];
	struct iovec piece;

	for (int i = 0; i < moves.to->cnt; i++) {
		const rd_kafka_topic_partition_t *to = &moves.to->elems[i];

		format_offset(moves.from->elems[i].offset, old, sizeof(old));
		snprintf(line, sizeof(line), "%s[%d] %s -> %" PRId64 "\n",
		    to->topic, (int)to->partition, old, to->offset);
		piece = (struct iovec){line, strlen(line)};
		if (io_write_all(STDOUT_FILENO, &piece, 1, err) < 0)
			return -1;
		line[strlen(line) - 1] = '\0';
		msg_write(MSG_NOTICE, "%s: group %s: %s",
		    options.dry_run ? "dry run: would set" : "set",
		    options.kafka.group, line);
	}
	return io_close_output(STDOUT_FILENO, err);
}

static int
move_group(struct err *err)
{
	if (moves_resolve(&moves, &client, deadline_us(), err) < 0 ||
	    open_locks(err) < 0 || moves_lock(&moves, &locks, err) < 0 ||
	    moves_read(&moves, &client, deadline_us(), err) < 0)
		return -1;
	if (!options.dry_run &&
	    moves_commit(&moves, &client, deadline_us(), err) < 0)
		return -1;
	return report_moves(err);
}

static int
work(struct err *err)
{
	int result;

	if (!options.dry_run &&
	    lock_folder_open(&lock_folder, options.lock_dir, err) < 0)
		return err_prefix(err, "--lock-dir");
	if (kafka_client_open(&client, &options.kafka, KAFKA_COMMITTER,
		options.common.connect_ms, err) < 0)
		return -1;
	/* A chain drains after a first signal; these have nothing to drain. */
	if (options.common.check || options.set.count > 0)
		client.give_up = signals_stopping;
	if (options.common.check)
		return kafka_client_reach(&client, deadline_us(), err);
	if (options.set.count > 0)
		return move_group(err);
	stream_in_init(&input, STDIN_FILENO, STREAM_RECEIPTS);
	result = commit_receipts(err);
	stream_in_release(&input);
	committer_release(&committer);
	return result;
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
	if (result < 0 || check_options(&err) < 0 || check_ready_fd(&err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return program_end(-1, &err);
	result = work(&err);
	moves_release(&moves);
	locks_release(&locks);
	lock_folder_release(&lock_folder);
	_exit(program_end(result, &err)); /* see kafka/client.h */
}
