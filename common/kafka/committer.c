#include "kafka/committer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/msg.h"
#include "kafka/answer.h"
#include "kafka/figures.h"
#include "stream/figures.h"

#define BACKOFF_FIRST_US 100000
#define BACKOFF_MOST_US 2000000

#define GONE_US 10000000
#define GONE_PAUSE_US 500000

#define WAIT_MOST_MS 3600000

int
committer_open(struct committer *committer, struct kafka_client *client,
    const struct committer_settings *settings, struct err *err)
{
	const uint64_t one = 1;

	*committer = (struct committer){.settings = *settings,
	    .client = client,
	    .backoff_us = BACKOFF_FIRST_US,
	    .renew_us = clock_us() + settings->renew_us};
	committer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (committer->wake_fd < 0)
		return err_set(err, EX_OSERR, "eventfd: %s", strerror(errno));
	committer->queue = rd_kafka_queue_new(client->handle);
	committer->main = rd_kafka_queue_get_main(client->handle);
	rd_kafka_queue_io_event_enable(
	    committer->queue, committer->wake_fd, &one, sizeof(one));
	rd_kafka_queue_io_event_enable(
	    committer->main, committer->wake_fd, &one, sizeof(one));
	return 0;
}

void
committer_release(struct committer *committer)
{
	if (committer->queue != NULL) {
		rd_kafka_queue_io_event_enable(committer->queue, -1, NULL, 0);
		rd_kafka_queue_io_event_enable(committer->main, -1, NULL, 0);
		rd_kafka_queue_destroy(committer->queue);
		rd_kafka_queue_destroy(committer->main);
		close(committer->wake_fd);
	}
	commits_release(&committer->commits);
	*committer = (struct committer){0};
}

/* One line in a run: two chains would tell it at each commit. */
static void
warn_others(struct committer *committer, size_t index)
{
	const struct commits *commits = &committer->commits;

	if (committer->warned)
		return;
	committer->warned = true;
	msg_write(MSG_WARNING,
	    "%s[%d]: committed is %" PRId64 ", and not by this program: "
	    "somebody else commits for this group",
	    commits->coverage.all[index].topic,
	    (int)commits->coverage.all[index].partition,
	    commits->all[index].committed);
}

static int
take_committed(
    struct committer *committer, size_t index, int64_t offset, struct err *err)
{
	struct commits *commits = &committer->commits;
	int result;

	/* A dry run takes for committed what it would have committed. */
	if (committer->settings.dry_run &&
	    offset < commits->all[index].committed)
		offset = commits->all[index].committed;
	result = commits_set_committed(commits, index, offset, err);
	if (result == 1)
		warn_others(committer, index);
	return result < 0 ? -1 : 0;
}

int
committer_read(
    struct committer *committer, uint64_t deadline_us, struct err *err)
{
	struct commits *commits = &committer->commits;
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new((int)commits->coverage.count);
	int result;

	for (size_t i = 0; i < commits->coverage.count; i++)
		rd_kafka_topic_partition_list_add(list,
		    commits->coverage.all[i].topic,
		    commits->coverage.all[i].partition);
	result =
	    kafka_client_committed(committer->client, list, deadline_us, err);
	for (size_t i = 0; result == 0 && i < commits->coverage.count; i++)
		result =
		    take_committed(committer, i, list->elems[i].offset, err);
	rd_kafka_topic_partition_list_destroy(list);
	return result;
}

static int
refuse_late(const struct committer *committer, const char *why, struct err *err)
{
	bool no_topic =
	    committer->last_error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	char moves[ERR_TEXT_BYTES - 100];

	commits_describe(&committer->commits, moves, sizeof(moves));
	return err_set(err, no_topic ? EX_UNAVAILABLE : EX_TEMPFAIL,
	    "not committed within %llu ms: %s: %s",
	    (unsigned long long)committer->settings.deadline_us / 1000, why,
	    moves);
}

static void
say_done(const struct committer *committer, uint64_t took_us)
{
	bool dry_run = committer->settings.dry_run;
	enum msg_level level = dry_run ? MSG_NOTICE : MSG_INFO;
	char moves[MSG_LINE_BYTES - 100];

	if (level > msg_get_level())
		return;
	commits_describe(&committer->commits, moves, sizeof(moves));
	if (dry_run)
		msg_write(level, "dry run: would commit: %s", moves);
	else
		msg_write(level, "committed in %.1f ms: %s",
		    (double)took_us / 1000, moves);
}

static void
take_success(struct committer *committer)
{
	uint64_t now_us = clock_us();

	FAILPOINT("after-commit");
	say_done(committer, now_us - committer->sent_us);
	figure_observe(&step_commit, now_us - committer->sent_us);
	figure_set(&stage_progress, now_us);
	commits_succeed(&committer->commits);
	committer->trouble_us = 0;
	committer->backoff_us = BACKOFF_FIRST_US;
	committer->last_error = RD_KAFKA_RESP_ERR_NO_ERROR;
}

static int
take_result(
    struct committer *committer, rd_kafka_resp_err_t error, struct err *err)
{
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
		take_success(committer);
		return 0;
	}
	if (answer_judge(error, err) < 0)
		return -1;
	msg_write(MSG_INFO, "commit: %s: again in %llu ms",
	    rd_kafka_err2str(error),
	    (unsigned long long)committer->backoff_us / 1000);
	commits_fail(&committer->commits);
	figure_add(&stage_retries, 1);
	kafka_error_count(error);
	committer->last_error = error;
	committer->due_us = clock_us() + committer->backoff_us;
	if (committer->backoff_us < BACKOFF_MOST_US)
		committer->backoff_us *= 2;
	return 0;
}

static rd_kafka_topic_partition_list_t *
list_sent(const struct commits *commits, uint32_t count)
{
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new((int)count);

	for (size_t i = 0; i < commits->coverage.count; i++)
		if (commits->all[i].sent >= 0)
			rd_kafka_topic_partition_list_add(list,
			    commits->coverage.all[i].topic,
			    commits->coverage.all[i].partition)
			    ->offset = commits->all[i].sent;
	return list;
}

static int
send_commit(struct committer *committer, struct err *err)
{
	uint32_t count = commits_begin(&committer->commits);
	rd_kafka_topic_partition_list_t *list;
	rd_kafka_resp_err_t error;

	committer->sent_us = clock_us();
	committer->due_us =
	    committer->sent_us + committer->settings.interval_us;
	if (committer->settings.dry_run) {
		take_success(committer);
		return 0;
	}
	list = list_sent(&committer->commits, count);
	FAILPOINT("before-commit");
	error = rd_kafka_commit_queue(
	    committer->client->handle, list, committer->queue, NULL, NULL);
	FAILPOINT("after-commit-sent");
	rd_kafka_topic_partition_list_destroy(list);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return take_result(committer, error, err);
	return 0;
}

static int
take_events(struct committer *committer, struct err *err)
{
	rd_kafka_event_t *event;
	uint64_t count;
	ssize_t ignored;
	int result = 0;

	/* First the descriptor, then the queues: what comes in between is
	 * seen by the next poll(2). */
	ignored = read(committer->wake_fd, &count, sizeof(count));
	(void)ignored;
	if (kafka_client_poll(committer->client, err) < 0)
		return -1;
	while (result == 0 &&
	    (event = rd_kafka_queue_poll(committer->queue, 0)) != NULL) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_OFFSET_COMMIT)
			result =
			    take_result(committer, answer_error(event), err);
		rd_kafka_event_destroy(event);
	}
	return result;
}

/* Before each commit, within its deadline: what is committed may be of
 * another chain by now, and the broker takes lower offsets too. */
static int
read_again(struct committer *committer, struct err *err)
{
	struct err why;

	if (committer_read(committer,
		committer->trouble_us + committer->settings.deadline_us,
		&why) == 0) {
		committer->gone_us = 0;
		return 0;
	}
	if (why.code == EX_UNAVAILABLE)
		return refuse_late(committer, why.text, err);
	*err = why;
	return -1;
}

/* A broker that has just become the coordinator may tell what was committed
 * long ago, or nothing: what is gone for GONE_US is.  True: ask again. */
static bool
must_ask_again(struct committer *committer, const struct err *err)
{
	uint64_t now_us = clock_us();

	if (err->code != EX_CONFIG || !commits_miss_some(&committer->commits))
		return false;
	if (committer->gone_us == 0)
		committer->gone_us = now_us;
	committer->due_us = now_us + GONE_PAUSE_US;
	return now_us - committer->gone_us < GONE_US;
}

int
committer_work(struct committer *committer, struct err *err)
{
	struct commits *commits = &committer->commits;
	uint64_t now_us;

	if (take_events(committer, err) < 0)
		return -1;
	now_us = clock_us();
	if (commits->in_flight) {
		if (now_us - committer->trouble_us <
		    committer->settings.deadline_us)
			return 0;
		return refuse_late(committer,
		    committer->last_error == RD_KAFKA_RESP_ERR_NO_ERROR
			? "no answer"
			: rd_kafka_err2str(committer->last_error),
		    err);
	}
	if (now_us >= committer->renew_us) {
		commits_renew(commits);
		committer->renew_us = now_us + committer->settings.renew_us;
	}
	if (committer->trouble_us != 0 &&
	    now_us - committer->trouble_us >= committer->settings.deadline_us)
		return refuse_late(
		    committer, rd_kafka_err2str(committer->last_error), err);
	if (now_us < committer->due_us)
		return 0;
	if (committer->trouble_us == 0)
		committer->trouble_us = now_us;
	if (commits_must_read(commits) && read_again(committer, err) < 0)
		return must_ask_again(committer, err) ? 0 : -1;
	if (commits_are_due(commits))
		return send_commit(committer, err);
	committer->trouble_us = 0;
	return 0;
}

int
committer_wait_ms(const struct committer *committer)
{
	const struct commits *commits = &committer->commits;

	if (commits->in_flight)
		return clock_left_ms(
		    committer->trouble_us + committer->settings.deadline_us,
		    WAIT_MOST_MS);
	if (commits_must_read(commits) || commits_are_due(commits))
		return clock_left_ms(committer->due_us, WAIT_MOST_MS);
	return clock_left_ms(committer->renew_us, WAIT_MOST_MS);
}

int
committer_finish(struct committer *committer, struct err *err)
{
	struct pollfd wait = {.fd = committer->wake_fd, .events = POLLIN};

	/* The interval is over; a back-off isn't. */
	committer->settings.interval_us = 0;
	if (committer->backoff_us == BACKOFF_FIRST_US)
		committer->due_us = 0;
	for (;;) {
		if (committer_work(committer, err) < 0)
			return -1;
		if (commits_are_done(&committer->commits))
			return committer_show(committer, err);
		poll(&wait, 1, committer_wait_ms(committer));
	}
}

static int
begin_showing(
    const struct covered *covered, struct commits_entry *entry, struct err *err)
{
	char number[16];
	const char *labels[] = {covered->topic, number};

	snprintf(number, sizeof(number), "%d", (int)covered->partition);
	entry->shown[0] = figure_add_series(&kafka_acknowledged, labels,
	    covered->partition, FIGURE_UNKNOWN, err);
	if (entry->shown[0] == NULL)
		return -1;
	entry->shown[1] = figure_add_series(
	    &kafka_committed, labels, covered->partition, FIGURE_UNKNOWN, err);
	return entry->shown[1] == NULL ? -1 : 0;
}

int
committer_show(struct committer *committer, struct err *err)
{
	struct commits *commits = &committer->commits;

	for (size_t i = 0; figures_are_on() && i < commits->coverage.count;
	     i++) {
		const struct covered *covered = &commits->coverage.all[i];
		struct commits_entry *entry = &commits->all[i];

		if (entry->shown[1] == NULL &&
		    begin_showing(covered, entry, err) < 0)
			return -1;
		figure_set(entry->shown[0], (uint64_t)covered->next);
		/* -1 is FIGURE_UNKNOWN. */
		figure_set(entry->shown[1], (uint64_t)entry->committed);
	}
	return 0;
}
