/*
 * mailbox-audit - the Outbox, the dispatch topic and the mailboxes, one
 * against the other.
 *
 * Reads all three while they may go on, prints what one has and another lacks
 * as JSON lines, the counts last.  Talks to Redis and to Kafka, writes and
 * commits nothing: always safe to repeat.  In which order it reads, and what
 * must be so: common/message/ledger.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/signals.h"
#include "base/topic.h"
#include "kafka/logs.h"
#include "message/ledger-view.h"
#include "redis/marks.h"
#include "redis/survey.h"
#include "stream/jsonl.h"

static const char synopsis[] =
    "usage: mailbox-audit [-hqVv] [--check] [--connect-ms ms]\n"
    "                     [--with-parent] -b brokers -t topic -r node,...\n"
    "                     [-F file] [-X name=value] ... [-p partitions]\n"
    "                     [--prefix text] [--user name]\n"
    "                     [--password-file file] [--outbox topic]\n"
    "                     [-g group] [--dead-letter topic]\n"
    "                     [--max-recipients count] [--max-bytes bytes]\n"
    "                     [--list count] [--drained]\n";

/* What was found where nothing should be. */
#define EX_FOUND 1

static struct options {
	struct opt_common common;
	struct kafka_options kafka;
	const char *topic; /* -t */
	const char *redis; /* -r */
	const char *partitions; /* -p */
	const char *prefix;
	const char *login_user; /* --user */
	const char *password_file;
	const char *outbox;
	const char *group; /* -g */
	const char *dead_letter;
	uint64_t max_recipients;
	uint64_t max_bytes;
	uint64_t list;
	bool drained;
} options = {
    .prefix = "qim", .max_recipients = 1000, .max_bytes = 1000000, .list = 20};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.kafka.brokers},
    {'X', NULL, OPT_LIST, &options.kafka.properties},
    {'F', NULL, OPT_TEXT, &options.kafka.file},
    {'t', "topic", OPT_TEXT, &options.topic},
    {'r', NULL, OPT_TEXT, &options.redis},
    {'p', "partitions", OPT_TEXT, &options.partitions},
    {0, "prefix", OPT_TEXT, &options.prefix},
    {0, "user", OPT_TEXT, &options.login_user},
    {0, "password-file", OPT_TEXT, &options.password_file},
    {0, "outbox", OPT_TEXT, &options.outbox},
    {'g', "group", OPT_TEXT, &options.group},
    {0, "dead-letter", OPT_TEXT, &options.dead_letter},
    {0, "max-recipients", OPT_NUMBER, &options.max_recipients, 1, 100000,
	"recipients"},
    {0, "max-bytes", OPT_NUMBER, &options.max_bytes, 1000, 15 << 20, "bytes"},
    {0, "list", OPT_NUMBER, &options.list, 0, UINT64_MAX, "lines of a kind"},
    {0, "drained", OPT_FLAG, &options.drained},
    {0},
};

static struct logs logs;
static struct nodes nodes;
static struct login login;
static struct mailbox mailbox;
static struct ledger ledger;
static struct ledger_outbox planner;
static struct jsonl output;
static uint64_t started_us;

static int
needs_outbox(const char *option, bool given, struct err *err)
{
	if (!given || options.outbox != NULL)
		return 0;
	return err_set(err, EX_USAGE, "%s: wants --outbox too", option);
}

static int
check_topics(struct err *err)
{
	if (opt_required("-t", options.topic, err) < 0 ||
	    topic_check("-t", options.topic, err) < 0)
		return -1;
	if (options.outbox != NULL &&
	    topic_check("--outbox", options.outbox, err) < 0)
		return -1;
	if (options.dead_letter != NULL &&
	    topic_check("--dead-letter", options.dead_letter, err) < 0)
		return -1;
	if (needs_outbox("-g", options.group != NULL, err) < 0)
		return -1;
	return needs_outbox("--dead-letter", options.dead_letter != NULL, err);
}

static int
check_options(struct err *err)
{
	struct source *source = &logs.dispatches.scan.source;

	if (opt_required("-b", options.kafka.brokers, err) < 0 ||
	    check_topics(err) < 0 ||
	    opt_required("-r", options.redis, err) < 0 ||
	    mailbox_check_prefix(options.prefix, err) < 0)
		return -1;
	source->chosen_text = options.partitions;
	if (options.partitions != NULL &&
	    opt_ranges("-p", options.partitions, INT32_MAX, &source->chosen,
		&source->chosen_count, err) < 0)
		return -1;
	if (nodes_parse(options.redis, &nodes, err) < 0)
		return -1;
	return login_init(
	    &login, options.login_user, options.password_file, err);
}

/* How far into the run a step begins, for -v. */
static void
say(const char *step)
{
	msg_write(MSG_INFO, "%s: after %" PRIu64 " ms", step,
	    (clock_us() - started_us) / 1000);
}

static int
print_finding(const struct finding *finding, struct err *err)
{
	if (ledger.kinds[finding->kind] > options.list)
		return 0;
	return jsonl_print(&output, ledger_view_finding(finding), err);
}

static int
open_logs(uint32_t *partitions, struct err *err)
{
	logs.kafka = &options.kafka;
	logs.topic = options.topic;
	logs.dead_letter = options.dead_letter;
	logs.outbox_topic = options.outbox;
	logs.group_name = options.group;
	logs.limit_ms = options.common.connect_ms;
	logs.give_up = signals_stopping;
	logs.ledger = &ledger;
	logs.planner = &planner;
	return logs_open(&logs, partitions, err);
}

static int
begin(struct err *err)
{
	uint32_t partitions;
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return err_set(err, EX_OSERR, "getrandom: no random number");
	if (open_logs(&partitions, err) < 0)
		return -1;
	mailbox = (struct mailbox){.prefix = options.prefix,
	    .topic = options.topic,
	    .partitions = partitions,
	    .nodes = nodes.count};
	if (partitions > MAILBOX_PARTITIONS_MAX)
		return err_set(err, EX_CONFIG,
		    "topic %s has %lu partitions, mailboxes at most %d",
		    options.topic, (unsigned long)partitions,
		    MAILBOX_PARTITIONS_MAX);
	if (ledger_init(&ledger, partitions, seed, print_finding, err) < 0 ||
	    ledger_outbox_init(&planner, partitions,
		(uint32_t)options.max_recipients, options.max_bytes, err) < 0)
		return -1;
	return logs_begin(&logs, err);
}

static int
read_mailboxes(const uint64_t *marks, struct err *err)
{
	for (uint32_t p = 0; p < mailbox.partitions; p++)
		ledger.parts[p].mark = marks[p];
	return survey_all(&nodes, &login, options.common.connect_ms, &mailbox,
	    &ledger, signals_stopping, err);
}

static int
audit(uint64_t *marks, struct err *err)
{
	uint64_t limit_ms = options.common.connect_ms;

	say("marks");
	if (marks_read(&nodes, &login, limit_ms, &mailbox, marks, err) < 0)
		return -1;
	say("mailboxes");
	if (read_mailboxes(marks, err) < 0)
		return -1;
	say("dispatches");
	if (logs_tell_dispatches(&logs, err) < 0)
		return -1;
	say("Outbox");
	if (logs_tell_outbox(&logs, err) < 0)
		return -1;
	say("end");
	/* Where a node lost data, what was found missing may be on its way
	 * again. */
	if (marks_check_since(&nodes, &login, limit_ms, &mailbox, marks, err) <
	    0)
		return -1;
	return ledger_end(&ledger, err);
}

static int
print_counts(struct err *err)
{
	if (jsonl_print(&output, ledger_view_counts(&ledger), err) < 0 ||
	    jsonl_flush(&output, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

static int
judge(struct err *err)
{
	char verdict[LEDGER_VERDICT_BYTES];

	if (!ledger_view_verdict(&ledger, options.drained, verdict))
		return 0;
	return err_set(err, EX_FOUND, "%s: none expected", verdict);
}

static int
run(struct err *err)
{
	uint64_t *marks = calloc(mailbox.partitions, sizeof(*marks));
	struct err ignored;
	int result;

	if (marks == NULL)
		return err_memory(err, "marks");
	result = audit(marks, err);
	free(marks);
	if (result < 0) {
		/* What was found before an error is shown. */
		jsonl_flush(&output, &ignored);
		return -1;
	}
	return print_counts(err) < 0 ? -1 : judge(err);
}

static void
release(void)
{
	logs_release(&logs);
	ledger_release(&ledger);
	ledger_outbox_release(&planner);
	jsonl_release(&output);
	login_release(&login);
	nodes_release(&nodes);
	free(logs.dispatches.scan.source.chosen);
}

int
main(int argc, char **argv)
{
	struct err err;
	int result;

	started_us = clock_us();
	json_set_alloc_funcs(program_alloc, free);
	result = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (result == OPT_SHOWN)
		return EX_OK;
	if (result < 0 || check_options(&err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	jsonl_init(&output, STDOUT_FILENO);
	result = begin(&err);
	if (result == 0)
		result = options.common.check
		    ? client_check_nodes(
			  &nodes, &login, options.common.connect_ms, &err)
		    : run(&err);
	release();
	_exit(result < 0 ? msg_fail(&err) : EX_OK); /* see kafka/client.h */
}
