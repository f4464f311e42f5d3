/*
 * mailbox-trim - retention of the mailboxes.
 *
 * Reads nothing on stdin, talks to Redis, one node after the other, and
 * writes one line of JSON on stdout: what it removed.  Stops when all keys
 * were passed, or between two steps when asked to.  Safe to repeat, at any
 * moment and beside everything else; common/redis/trim.h says why.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/signals.h"
#include "base/topic.h"
#include "redis/trim.h"

static const char synopsis[] =
    "usage: mailbox-trim [-hqVv] [--check] [--connect-ms ms]\n"
    "                    [--with-parent] -r node,... [-n partitions]\n"
    "                    -t topic [--prefix text] [--user name]\n"
    "                    [--password-file file] [--box-count entries]\n"
    "                    [--box-days days] [--bodies messages]\n"
    "                    [--retention-days days] [--device-days days]\n"
    "                    [--dry-run]\n";

/* A connection's counter lives a day: a writer that was held up can still
 * write for so long what it has read. */
#define RETENTION_DAYS_LEAST 2

#define BOX_COUNT_MAX 100000000
#define BODIES_MAX 1000000

static struct options {
	struct opt_common common;
	const char *redis; /* -r */
	uint64_t partitions; /* -n */
	const char *topic; /* -t */
	const char *prefix;
	const char *login_user; /* --user */
	const char *password_file;
	struct trim_rules rules;
} options = {.partitions = 64,
    .prefix = "qim",
    .rules = {TRIM_NONE, TRIM_NONE, TRIM_NONE, TRIM_NONE, 30, false}};

static const struct opt table[] = {
    {'r', NULL, OPT_TEXT, &options.redis},
    {'n', NULL, OPT_NUMBER, &options.partitions, 1, MAILBOX_PARTITIONS_MAX,
	"partitions"},
    {'t', NULL, OPT_TEXT, &options.topic},
    {0, "prefix", OPT_TEXT, &options.prefix},
    {0, "user", OPT_TEXT, &options.login_user},
    {0, "password-file", OPT_TEXT, &options.password_file},
    {0, "box-count", OPT_NUMBER, &options.rules.box_count, 1, BOX_COUNT_MAX,
	"entries"},
    {0, "box-days", OPT_NUMBER, &options.rules.box_days, 1, TRIM_DAYS_MAX,
	"days"},
    {0, "bodies", OPT_NUMBER, &options.rules.bodies, 1, BODIES_MAX, "messages"},
    {0, "retention-days", OPT_NUMBER, &options.rules.retention_days,
	RETENTION_DAYS_LEAST, TRIM_DAYS_MAX, "days"},
    {0, "device-days", OPT_NUMBER, &options.rules.device_days, 1, TRIM_DAYS_MAX,
	"days"},
    {0, "dry-run", OPT_FLAG, &options.rules.dry_run},
    {0},
};

static struct nodes nodes;
static struct login login;
static struct trim_done done;

static int
check_rules(struct err *err)
{
	const struct trim_rules *rules = &options.rules;

	if (rules->retention_days != TRIM_NONE && rules->bodies == TRIM_NONE)
		return err_set(err, EX_USAGE,
		    "--retention-days: wants --bodies too: a claim goes only "
		    "after its body");
	if (rules->box_count == TRIM_NONE && rules->box_days == TRIM_NONE &&
	    rules->bodies == TRIM_NONE)
		return err_set(err, EX_USAGE,
		    "nothing to do: wants --box-count, --box-days or "
		    "--bodies");
	return 0;
}

static int
check_settings(struct err *err)
{
	if (opt_required("-r", options.redis, err) < 0 ||
	    opt_required("-t", options.topic, err) < 0 ||
	    topic_check("-t", options.topic, err) < 0 || check_rules(err) < 0 ||
	    mailbox_check_prefix(options.prefix, err) < 0 ||
	    nodes_parse(options.redis, &nodes, err) < 0)
		return -1;
	return login_init(
	    &login, options.login_user, options.password_file, err);
}

static int
trim_place(const struct mailbox *mailbox, uint32_t place, struct err *err)
{
	struct client client;
	struct trim trim = {.client = &client,
	    .mailbox = mailbox,
	    .place = place,
	    .rules = &options.rules,
	    .done = &done,
	    .stopping = signals_stopping};
	int result = client_init(
	    &client, &nodes.all[place], &login, options.common.connect_ms, err);

	if (result == 0)
		result = trim_node(&trim, err);
	client_release(&client);
	return result;
}

/* What was removed before an error is told too. */
static int
print_done(bool complete, struct err *err)
{
	char line[512];
	struct iovec piece = {line, 0};

	piece.iov_len = (size_t)snprintf(line, sizeof(line),
	    "{\"boxes\":%llu,\"entries\":%llu,\"held\":%llu,\"bodies\":%llu,"
	    "\"claims\":%llu,\"dry_run\":%s,\"complete\":%s}\n",
	    (unsigned long long)done.boxes, (unsigned long long)done.entries,
	    (unsigned long long)done.held, (unsigned long long)done.bodies,
	    (unsigned long long)done.claims,
	    options.rules.dry_run ? "true" : "false",
	    complete ? "true" : "false");
	if (io_write_all(STDOUT_FILENO, &piece, 1, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

static int
trim_nodes(struct err *err)
{
	struct mailbox mailbox = {options.prefix, options.topic,
	    (uint32_t)options.partitions, nodes.count};
	struct err ignored;
	int result = 0;

	for (uint32_t i = 0; i < nodes.count && result == 0; i++)
		if (!signals_stopping())
			result = trim_place(&mailbox, i, err);
	if (result == 0)
		return print_done(!signals_stopping(), err);
	print_done(false, &ignored);
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
	if (result < 0 || check_settings(&err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	if (options.common.check)
		result = client_check_nodes(
		    &nodes, &login, options.common.connect_ms, &err);
	else
		result = trim_nodes(&err);
	login_release(&login);
	nodes_release(&nodes);
	return result < 0 ? msg_fail(&err) : EX_OK;
}
