/*
 * mailbox-read - conversations, history and box of a user, the next batch of
 * a device; positions and quarantine of all partitions.
 *
 * Reads nothing on stdin, writes JSON lines (positions: text lines) on stdout
 * and talks to Redis, where it changes nothing but what a device was given.
 * No entry above the mark of the user's partition is shown.  Stops when all
 * was shown; all of it is safe to repeat.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "message/hash.h"
#include "redis/device.h"
#include "redis/marks.h"
#include "redis/quarantine.h"
#include "redis/reader.h"
#include "stream/jsonl.h"
#include "stream/view.h"

static const char synopsis[] =
    "usage: mailbox-read [-hqVv] [--check] [--connect-ms ms]\n"
    "                    [--with-parent] -r node,... [-n partitions]\n"
    "                    [--prefix text] [--user name]\n"
    "                    [--password-file file] [-u user] [-d device]\n"
    "                    [-t topic] [--conversation id] [--from seq]\n"
    "                    [--reverse] [-c entries]\n"
    "                    conversations | history | box | batch | positions |\n"
    "                    quarantine\n";

#define ENTRIES_MAX 10000
#define TOPIC_BYTES_MAX 249

static struct options {
	struct opt_common common;
	const char *redis; /* -r */
	uint64_t partitions; /* -n */
	const char *prefix;
	const char *login_user; /* --user */
	const char *password_file;
	const char *user; /* -u */
	const char *device; /* -d */
	const char *topic; /* -t */
	const char *conversation;
	uint64_t from; /* 0: not given */
	bool reverse;
	uint64_t count; /* -c; 0: not given */
} options = {.partitions = 64, .prefix = "qim"};

static const struct opt table[] = {
    {'r', NULL, OPT_TEXT, &options.redis},
    {'n', NULL, OPT_NUMBER, &options.partitions, 1, MAILBOX_PARTITIONS_MAX,
	"partitions"},
    {0, "prefix", OPT_TEXT, &options.prefix},
    {0, "user", OPT_TEXT, &options.login_user},
    {0, "password-file", OPT_TEXT, &options.password_file},
    {'u', NULL, OPT_TEXT, &options.user},
    {'d', NULL, OPT_TEXT, &options.device},
    {'t', NULL, OPT_TEXT, &options.topic},
    {0, "conversation", OPT_TEXT, &options.conversation},
    {0, "from", OPT_NUMBER, &options.from, 1, SEQ_MAX, NULL},
    {0, "reverse", OPT_FLAG, &options.reverse},
    {'c', NULL, OPT_NUMBER, &options.count, 1, ENTRIES_MAX, "entries"},
    {0},
};

/* What is shown, and which options it takes beside those of all. */
struct command {
	const char *name;
	int (*print)(struct err *err);
	bool takes_user, takes_topic, takes_conversation, takes_from;
	bool takes_device;
};

#define COUNT_DEFAULT 50

static struct nodes nodes;
static struct login login;
static struct mailbox mailbox;
static struct reader reader;
static struct jsonl output;

static int
print_conversation(const struct conversation *conversation, struct err *err)
{
	json_t *unread = conversation->unread > READER_UNREAD_MOST
	    ? json_sprintf("%d+", READER_UNREAD_MOST)
	    : json_integer((json_int_t)conversation->unread);

	return jsonl_print(&output,
	    json_pack("{s:o,s:I,s:I,s:I,s:o}", "conversation_id",
		view_bytes(conversation->id, "base64"), "created_at",
		(json_int_t)conversation->created_at_ms, "last_seq",
		(json_int_t)conversation->last_seq, "read_seq",
		(json_int_t)conversation->read_seq, "unread", unread),
	    err);
}

static json_t *
view_payload(const struct claim *claim)
{
	struct cursor cursor = cursor_of(claim->payload);

	return claim->has_body ? view_msgpack(&cursor, VIEW_BIN_BASE64)
			       : json_null();
}

static int
print_message(const struct message *message, struct err *err)
{
	const struct claim *claim = &message->claim;

	return jsonl_print(&output,
	    json_pack("{s:I,s:o,s:I,s:o,s:o,s:o,s:o}", "mailbox_seq",
		(json_int_t)message->mailbox_seq, "conversation_id",
		view_bytes(message->conversation, "base64"), "conversation_seq",
		(json_int_t)message->seq, "message_id",
		view_bytes(claim->message, "base64"), "sender",
		view_bytes(claim->sender, "base64"), "created_at",
		claim->has_body ? json_integer((json_int_t)claim->created_at_ms)
				: json_null(),
		"payload", view_payload(claim)),
	    err);
}

/* A line for every partition: where no mark stands the chain has to start at
 * 0, whatever was committed. */
static int
print_positions(struct err *err)
{
	uint64_t *marks = calloc(mailbox.partitions, sizeof(*marks));
	char line[MARK_TEXT_BYTES];
	int result;

	if (marks == NULL)
		return err_memory(err, "positions");
	result = marks_read(
	    &nodes, &login, options.common.connect_ms, &mailbox, marks, err);
	for (uint32_t p = 0; p < mailbox.partitions && result == 0; p++) {
		snprintf(line, sizeof(line), "%s %lu %llu\n", mailbox.topic,
		    (unsigned long)p, (unsigned long long)marks[p]);
		result = jsonl_text(&output, line, err);
	}
	free(marks);
	return result;
}

static int
open_reader(struct err *err)
{
	if (options.count == 0)
		options.count = COUNT_DEFAULT;
	return reader_init(&reader, &nodes, &login, options.common.connect_ms,
	    &mailbox, slice_of(options.user), err);
}

static int
print_conversations(struct err *err)
{
	if (open_reader(err) < 0)
		return -1;
	return reader_conversations(
	    &reader, options.count, print_conversation, err);
}

static int
print_history(struct err *err)
{
	if (open_reader(err) < 0)
		return -1;
	return reader_history(&reader, slice_of(options.conversation),
	    options.from, options.reverse, options.count, print_message, err);
}

static int
print_box(struct err *err)
{
	if (open_reader(err) < 0)
		return -1;
	return reader_box(
	    &reader, options.from, options.count, print_message, err);
}

/* First of all, so that whoever reads knows how many lines must follow before
 * the batch is whole and may be acknowledged. */
static int
print_given(const struct given *given, struct err *err)
{
	return jsonl_print(&output,
	    json_pack("{s:o,s:I,s:I,s:I}", "device",
		view_bytes(given->device, "base64"), "from",
		(json_int_t)given->from, "to", (json_int_t)given->to, "count",
		(json_int_t)given->count),
	    err);
}

static int
print_batch(struct err *err)
{
	if (open_reader(err) < 0)
		return -1;
	return device_batch(&reader, slice_of(options.device), options.count,
	    print_given, print_message, err);
}

static int
print_quarantine_head(const struct quarantine *quarantine, struct err *err)
{
	return jsonl_print(&output,
	    json_pack("{s:I,s:I,s:I}", "partition",
		(json_int_t)quarantine->partition, "copies",
		(json_int_t)quarantine->copies, "dropped",
		(json_int_t)quarantine->dropped),
	    err);
}

static json_t *
view_hash(struct slice hash)
{
	char text[2 * HASH_BYTES + 1] = "";

	for (size_t i = 0; i < hash.bytes && i < HASH_BYTES; i++)
		snprintf(&text[2 * i], 3, "%02x", hash.data[i]);
	return json_string(text);
}

static int
print_quarantined(const struct quarantined *copy, struct err *err)
{
	return jsonl_print(&output,
	    json_pack("{s:I,s:I,s:o,s:o,s:o,s:o,s:b}", "partition",
		(json_int_t)copy->partition, "offset", (json_int_t)copy->offset,
		"reason", view_bytes(copy->reason, "base64"), "dispatch_id",
		view_hash(copy->id), "digest", view_hash(copy->digest), "value",
		view_bin(copy->value, VIEW_BIN_DECODE), "cut",
		copy->value.bytes >= QUARANTINE_VALUE_BYTES),
	    err);
}

/* All partitions of a node; a mark says that they are this topic's. */
static int
print_node_quarantine(struct client *client, uint32_t place, struct err *err)
{
	struct stem stem;
	uint64_t mark;

	if (marks_check_place(client, &mailbox, place, err) < 0)
		return -1;
	for (uint32_t p = place; p < mailbox.partitions; p += mailbox.nodes) {
		stem_init(&stem, mailbox.prefix, p);
		mark_ask(&client->commands, &stem);
		if (client_call(client, err) < 0 ||
		    mark_take(&client->replies[0], &stem, &mailbox, place,
			&mark, err) < 0 ||
		    quarantine_read(client, &stem, p, print_quarantine_head,
			print_quarantined, err) < 0)
			return -1;
	}
	return 0;
}

static int
print_quarantine(struct err *err)
{
	struct client client;
	int result = 0;

	for (uint32_t i = 0; i < nodes.count && result == 0; i++) {
		result = client_init(&client, &nodes.all[i], &login,
		    options.common.connect_ms, err);
		if (result == 0)
			result = print_node_quarantine(&client, i, err);
		client_release(&client);
	}
	return result;
}

static const struct command commands[] = {
    {"conversations", print_conversations, .takes_user = true},
    {"history", print_history, .takes_user = true, .takes_conversation = true,
	.takes_from = true},
    {"box", print_box, .takes_user = true, .takes_from = true},
    {"batch", print_batch, .takes_user = true, .takes_device = true},
    {"positions", print_positions, .takes_topic = true},
    {"quarantine", print_quarantine, .takes_topic = true},
};

static int
show(const struct command *command, struct err *err)
{
	int result;

	jsonl_init(&output, STDOUT_FILENO);
	mailbox = (struct mailbox){options.prefix,
	    options.topic == NULL ? "" : options.topic,
	    (uint32_t)options.partitions, nodes.count};
	if (options.common.check)
		result = client_check_nodes(
		    &nodes, &login, options.common.connect_ms, err);
	else
		result = command->print(err);
	if (result == 0)
		result = jsonl_flush(&output, err);
	if (result == 0)
		result = io_close_output(STDOUT_FILENO, err);
	return result;
}

static void
release(void)
{
	reader_release(&reader);
	jsonl_release(&output);
	login_release(&login);
	nodes_release(&nodes);
}

static int
check_use(const char *option, bool given, bool takes, bool required,
    const struct command *command, struct err *err)
{
	if (given && !takes)
		return err_set(
		    err, EX_USAGE, "%s: not with %s", option, command->name);
	if (!given && takes && required)
		return err_set(err, EX_USAGE, "%s: missing: %s wants it",
		    option, command->name);
	return 0;
}

/* Topic names of Kafka: they have no blanks, so that a line of positions can
 * be read. */
static int
check_topic(struct err *err)
{
	const char *topic = options.topic;
	size_t bytes = topic == NULL ? 0 : strlen(topic);

	for (size_t i = 0; i < bytes; i++)
		if (topic[i] <= ' ' || topic[i] > '~')
			return err_set(err, EX_USAGE,
			    "-t: '%s': not a topic's name", topic);
	if (bytes > TOPIC_BYTES_MAX)
		return err_set(err, EX_USAGE,
		    "-t: %zu bytes, a topic's name has at most %d", bytes,
		    TOPIC_BYTES_MAX);
	return 0;
}

static int
check_settings(const struct command *command, struct err *err)
{
	if (check_use("-u", options.user != NULL, command->takes_user, true,
		command, err) < 0 ||
	    check_use("-d", options.device != NULL, command->takes_device, true,
		command, err) < 0 ||
	    check_use("-t", options.topic != NULL, command->takes_topic, true,
		command, err) < 0 ||
	    check_use("--conversation", options.conversation != NULL,
		command->takes_conversation, true, command, err) < 0 ||
	    check_use("--from", options.from != 0, command->takes_from, false,
		command, err) < 0 ||
	    check_use("--reverse", options.reverse, command->takes_conversation,
		false, command, err) < 0 ||
	    check_use("-c", options.count != 0, command->takes_user, false,
		command, err) < 0 ||
	    mailbox_check_id("-u", options.user, err) < 0 ||
	    mailbox_check_id("-d", options.device, err) < 0 ||
	    mailbox_check_id("--conversation", options.conversation, err) < 0 ||
	    check_topic(err) < 0 ||
	    opt_required("-r", options.redis, err) < 0 ||
	    mailbox_check_prefix(options.prefix, err) < 0 ||
	    nodes_parse(options.redis, &nodes, err) < 0)
		return -1;
	return login_init(
	    &login, options.login_user, options.password_file, err);
}

static const struct command *
find_command(const char *name, struct err *err)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (name != NULL && strcmp(name, commands[i].name) == 0)
			return &commands[i];
	err_set(err, EX_USAGE,
	    "'%s': wants conversations, history, box, batch, positions or "
	    "quarantine",
	    name == NULL ? "" : name);
	return NULL;
}

int
main(int argc, char **argv)
{
	const struct command *command;
	struct err err;
	int parsed;

	json_set_alloc_funcs(program_alloc, free);
	parsed = program_begin(
	    argc, argv, table, 1, synopsis, &options.common, &err);
	if (parsed == OPT_SHOWN)
		return EX_OK;
	if (parsed < 0)
		return msg_fail(&err);
	command = find_command(argv[optind], &err);
	if (command == NULL || check_settings(command, &err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	parsed = show(command, &err);
	release();
	return parsed < 0 ? msg_fail(&err) : EX_OK;
}
