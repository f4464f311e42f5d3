/*
 * mailbox-ack - moves a device's cursor, or a user's read mark.
 *
 * Reads nothing on stdin, writes nothing on stdout and talks to Redis.  A
 * cursor moves only from where it stands to the end of the batch that
 * mailbox-read gave the device; a read mark only upwards.  Stops when that is
 * done.  Safe to repeat: a cursor that has moved already is told, and stays.
 */
#include <stdlib.h>

#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "redis/device.h"

static const char synopsis[] =
    "usage: mailbox-ack [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                   -r node,... [-n partitions] [--prefix text]\n"
    "                   [--user name] [--password-file file] -u user\n"
    "                   [-d device] [--from seq] [--to seq] [--read]\n"
    "                   [--conversation id] [--seq seq]\n";

#define NOT_GIVEN UINT64_MAX

static struct options {
	struct opt_common common;
	const char *redis; /* -r */
	uint64_t partitions; /* -n */
	const char *prefix;
	const char *login_user; /* --user */
	const char *password_file;
	const char *user; /* -u */
	const char *device; /* -d */
	uint64_t from, to;
	bool read;
	const char *conversation;
	uint64_t seq;
} options = {.partitions = 64,
    .prefix = "qim",
    .from = NOT_GIVEN,
    .to = NOT_GIVEN,
    .seq = NOT_GIVEN};

static const struct opt table[] = {
    {'r', NULL, OPT_TEXT, &options.redis},
    {'n', NULL, OPT_NUMBER, &options.partitions, 1, MAILBOX_PARTITIONS_MAX,
	"partitions"},
    {0, "prefix", OPT_TEXT, &options.prefix},
    {0, "user", OPT_TEXT, &options.login_user},
    {0, "password-file", OPT_TEXT, &options.password_file},
    {'u', NULL, OPT_TEXT, &options.user},
    {'d', NULL, OPT_TEXT, &options.device},
    {0, "from", OPT_NUMBER, &options.from, 0, SEQ_MAX, NULL},
    {0, "to", OPT_NUMBER, &options.to, 0, SEQ_MAX, NULL},
    {0, "read", OPT_FLAG, &options.read},
    {0, "conversation", OPT_TEXT, &options.conversation},
    {0, "seq", OPT_NUMBER, &options.seq, 1, SEQ_MAX, NULL},
    {0},
};

static struct nodes nodes;
static struct login login;
static struct reader reader;

/* An option belongs to one of both uses, and is needed there. */
static int
check_use(const char *option, bool given, bool of_read, struct err *err)
{
	if (given == (of_read == options.read))
		return 0;
	if (given)
		return err_set(err, EX_USAGE, "%s: %s --read", option,
		    of_read ? "wants" : "not with");
	return err_set(err, EX_USAGE, "%s: missing", option);
}

static int
check_settings(struct err *err)
{
	if (opt_required("-u", options.user, err) < 0 ||
	    check_use("-d", options.device != NULL, false, err) < 0 ||
	    check_use("--from", options.from != NOT_GIVEN, false, err) < 0 ||
	    check_use("--to", options.to != NOT_GIVEN, false, err) < 0 ||
	    check_use("--conversation", options.conversation != NULL, true,
		err) < 0 ||
	    check_use("--seq", options.seq != NOT_GIVEN, true, err) < 0 ||
	    mailbox_check_id("-u", options.user, err) < 0 ||
	    mailbox_check_id("-d", options.device, err) < 0 ||
	    mailbox_check_id("--conversation", options.conversation, err) < 0 ||
	    opt_required("-r", options.redis, err) < 0 ||
	    mailbox_check_prefix(options.prefix, err) < 0 ||
	    nodes_parse(options.redis, &nodes, err) < 0)
		return -1;
	return login_init(
	    &login, options.login_user, options.password_file, err);
}

static int
acknowledge(struct err *err)
{
	struct mailbox mailbox = {
	    options.prefix, "", (uint32_t)options.partitions, nodes.count};

	if (reader_init(&reader, &nodes, &login, options.common.connect_ms,
		&mailbox, slice_of(options.user), err) < 0)
		return -1;
	if (options.read)
		return device_read(
		    &reader, slice_of(options.conversation), options.seq, err);
	return device_ack(
	    &reader, slice_of(options.device), options.from, options.to, err);
}

static void
release(void)
{
	reader_release(&reader);
	login_release(&login);
	nodes_release(&nodes);
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
	result = options.common.check ? client_check_nodes(&nodes, &login,
					    options.common.connect_ms, &err)
				      : acknowledge(&err);
	release();
	return result < 0 ? msg_fail(&err) : EX_OK;
}
