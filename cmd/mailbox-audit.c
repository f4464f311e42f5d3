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
#include <stdio.h>
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
#include "kafka/scan.h"
#include "message/dead.h"
#include "message/ledger.h"
#include "message/plan.h"
#include "redis/marks.h"
#include "redis/survey.h"
#include "stream/jsonl.h"
#include "stream/view.h"

static const char synopsis[] =
    "usage: mailbox-audit [-hqVv] [--check] [--connect-ms ms]\n"
    "                     [--with-parent] -b brokers -t topic -r node,...\n"
    "                     [-F file] [-X name=value] ... [-p partitions]\n"
    "                     [--prefix text] [--user name]\n"
    "                     [--password-file file] [--outbox topic]\n"
    "                     [-g group] [--dead-letter topic]\n"
    "                     [--max-recipients count] [--max-bytes bytes]\n"
    "                     [--list count] [--drained]\n";

/* How long a signal may go unnoticed while nothing comes. */
#define IDLE_MS 100

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

typedef int take_record(const struct consumer_item *item, struct err *err);

/* A topic that is read from its beginning to its end. */
struct topic {
	struct kafka_client client;
	struct scan scan;
	take_record *take;
};

static const struct start_rule rule = {START_BEGINNING, .first = START_NONE};
static struct topic dispatches, letters, outbox;
static struct kafka_client group;
static int64_t *committed; /* of each partition of the Outbox; NULL: all */

static struct nodes nodes;
static struct login login;
static struct mailbox mailbox;
static struct ledger ledger;
static struct outbox decoder;
static struct plan plan;
static struct buf value;
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
	struct source *source = &dispatches.scan.source;

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

static uint64_t
deadline_us(void)
{
	return clock_us() + options.common.connect_ms * 1000;
}

static int
open_client(struct kafka_client *client, const char *name, struct err *err)
{
	struct kafka_options kafka = options.kafka;

	kafka.group = name;
	if (kafka_client_open(client, &kafka, KAFKA_CONSUMER,
		options.common.connect_ms, err) < 0)
		return -1;
	client->give_up = signals_stopping;
	return 0;
}

/* Makes its client and finds it; nothing where it has no name. */
static int
open_topic(struct topic *topic, const char *name, take_record *take,
    uint32_t *partitions, struct err *err)
{
	*partitions = 0;
	if (name == NULL)
		return 0;
	topic->scan.source.client = &topic->client;
	topic->scan.source.topic = name;
	topic->scan.source.rule = &rule;
	topic->take = take;
	if (open_client(&topic->client, NULL, err) < 0)
		return -1;
	return kafka_client_partitions(
	    &topic->client, name, deadline_us(), partitions, err);
}

static int
read_topic(struct topic *topic, struct err *err)
{
	struct consumer_item item;
	int event;

	for (;;) {
		if (signals_stopping())
			return err_set(err, EX_TEMPFAIL, "stopped by a signal");
		event = scan_next(&topic->scan, IDLE_MS, &item, err);
		if (event < 0 || event == SCAN_END)
			return event < 0 ? -1 : 0;
		if (event == SCAN_RECORD && topic->take(&item, err) < 0)
			return -1;
	}
}

/* What the fan-out's group has committed: up to there all must have been
 * dispatched. */
static int
read_committed(uint32_t count, struct err *err)
{
	rd_kafka_topic_partition_list_t *list;
	bool any = false;
	int result;

	committed = calloc(count, sizeof(*committed));
	if (committed == NULL)
		return err_memory(err, "partitions");
	if (open_client(&group, options.group, err) < 0)
		return -1;
	list = rd_kafka_topic_partition_list_new((int)count);
	for (uint32_t p = 0; p < count; p++)
		rd_kafka_topic_partition_list_add(
		    list, options.outbox, (int32_t)p);
	result = kafka_client_committed(&group, list, deadline_us(), err);
	for (uint32_t p = 0; p < count && result == 0; p++) {
		committed[p] = list->elems[p].offset;
		any |= committed[p] >= 0;
	}
	rd_kafka_topic_partition_list_destroy(list);
	if (result == 0 && !any)
		return err_set(err, EX_CONFIG,
		    "-g %s: has committed nothing of %s", options.group,
		    options.outbox);
	return result;
}

/* How far into the run a step begins, for -v. */
static void
say(const char *step)
{
	msg_write(MSG_INFO, "%s: after %" PRIu64 " ms", step,
	    (clock_us() - started_us) / 1000);
}

static json_t *
view_name(struct slice name)
{
	return view_bin(name, VIEW_BIN_TEXT);
}

static int
print_finding(const struct finding *finding, struct err *err)
{
	bool is_lost = finding->kind == LEDGER_LOST;
	json_t *line;

	if (ledger.kinds[finding->kind] > options.list)
		return 0;
	line = json_pack("{s:s,s:I}", "found", ledger_kind_names[finding->kind],
	    is_lost ? "outbox_partition" : "partition",
	    (json_int_t)finding->partition);
	if (finding->offset >= 0)
		json_object_set_new(line, is_lost ? "outbox_offset" : "offset",
		    json_integer((json_int_t)finding->offset));
	if (finding->user.data != NULL)
		json_object_set_new(line, "user", view_name(finding->user));
	if (finding->conversation.data != NULL)
		json_object_set_new(
		    line, "conversation_id", view_name(finding->conversation));
	if (finding->seq > 0)
		json_object_set_new(line, "conversation_seq",
		    json_integer((json_int_t)finding->seq));
	json_object_set_new(line, "why", view_name(slice_of(finding->why)));
	return jsonl_print(&output, line, err);
}

static int
take_copy(const struct consumer_item *item, struct err *err)
{
	return ledger_copy(&ledger, (uint32_t)item->partition, item->offset,
	    item->record.value, err);
}

static bool
take_number(struct slice digits, int64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < digits.bytes; i++) {
		if (digits.data[i] < '0' || digits.data[i] > '9' ||
		    *number > INT64_MAX / 10 - 9)
			return false;
		*number = 10 * *number + (digits.data[i] - '0');
	}
	return digits.bytes > 0;
}

/* A dead letter says which record of the Outbox it is of; one of another topic
 * is passed over. */
static int
take_letter(const struct consumer_item *item, struct err *err)
{
	struct cursor cursor;
	struct header header;
	struct err ignored;
	int64_t partition = -1, offset = -1;
	bool ours = false;
	uint32_t left;

	if (headers_open(item->record.headers, &cursor, &left, &ignored) < 0)
		return 0;
	while (headers_next(&cursor, &left, &header, &ignored) == 1) {
		if (slice_is(header.name, "qim-topic"))
			ours = slice_is(header.value, options.outbox);
		else if (slice_is(header.name, "qim-partition") &&
		    !take_number(header.value, &partition))
			return 0;
		else if (slice_is(header.name, "qim-offset") &&
		    !take_number(header.value, &offset))
			return 0;
	}
	if (!ours || partition < 0 || partition > INT32_MAX || offset < 0)
		return 0;
	return ledger_letter(&ledger, (int32_t)partition, offset, err);
}

static int
take_plan(const struct ledger_source *source, struct err *err)
{
	uint32_t partition;
	int taken;

	ledger.counts.messages++;
	for (;;) {
		buf_reset(&value);
		taken = plan_next(&plan, &partition, &value, err);
		if (taken <= 0)
			return taken;
		if (!ledger.parts[partition].skip &&
		    ledger_planned(
			&ledger, partition, &plan.dispatch, source, err) < 0)
			return -1;
	}
}

/* Plans a record as fanout-plan does. */
static int
take_message(const struct consumer_item *item, struct err *err)
{
	struct ledger_source source = {item->partition, item->offset,
	    committed == NULL || item->offset < committed[item->partition]};
	struct outbox_message message;
	struct err why;
	size_t around_bytes;

	if (outbox_decode(&decoder, item->record.value, &message, &why) == 0 &&
	    record_around_bytes(message.conversation.bytes,
		item->record.headers, &around_bytes, &why) == 0 &&
	    plan_message(&plan, &message, around_bytes, &why) == 0)
		return take_plan(&source, err);
	if (why.code == EX_DATAERR)
		return ledger_unplanned(&ledger, &source, why.text, err);
	*err = why;
	return -1;
}

/* -p: the other partitions aren't looked at. */
static int
choose(uint32_t partitions, struct err *err)
{
	const struct source *source = &dispatches.scan.source;

	if (source->chosen == NULL)
		return 0;
	if (source->chosen[source->chosen_count - 1] >= partitions)
		return err_set(err, EX_CONFIG,
		    "-p %s: topic %s has %lu partitions, from 0 on",
		    options.partitions, options.topic,
		    (unsigned long)partitions);
	for (uint32_t p = 0; p < partitions; p++)
		ledger.parts[p].skip = true;
	for (size_t i = 0; i < source->chosen_count; i++)
		ledger.parts[source->chosen[i]].skip = false;
	return 0;
}

static int
begin(struct err *err)
{
	uint32_t partitions, letter_partitions, outbox_partitions;
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return err_set(err, EX_OSERR, "getrandom: no random number");
	if (open_topic(
		&dispatches, options.topic, take_copy, &partitions, err) < 0 ||
	    open_topic(&letters, options.dead_letter, take_letter,
		&letter_partitions, err) < 0 ||
	    open_topic(&outbox, options.outbox, take_message,
		&outbox_partitions, err) < 0)
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
	    choose(partitions, err) < 0 ||
	    plan_init(&plan, partitions, (uint32_t)options.max_recipients,
		options.max_bytes, err) < 0)
		return -1;
	ledger.has_outbox = options.outbox != NULL;
	if (options.group != NULL)
		return read_committed(outbox_partitions, err);
	return 0;
}

static int
read_marks(uint64_t *marks, struct err *err)
{
	return marks_read(
	    &nodes, &login, options.common.connect_ms, &mailbox, marks, err);
}

static int
survey_place(uint32_t place, struct err *err)
{
	struct client client;
	struct survey survey = {.client = &client,
	    .mailbox = &mailbox,
	    .place = place,
	    .ledger = &ledger,
	    .stopping = signals_stopping};
	int result = client_init(
	    &client, &nodes.all[place], &login, options.common.connect_ms, err);

	if (result == 0)
		result = survey_node(&survey, err);
	client_release(&client);
	return result;
}

static int
read_mailboxes(const uint64_t *marks, struct err *err)
{
	for (uint32_t p = 0; p < mailbox.partitions; p++)
		ledger.parts[p].mark = marks[p];
	for (uint32_t i = 0; i < nodes.count; i++)
		if (survey_place(i, err) < 0)
			return -1;
	return 0;
}

/* The log of a partition can't end below its mark: it is another topic of the
 * same name, or records are lost. */
static int
take_bounds(struct err *err)
{
	const struct source *source = &dispatches.scan.source;

	for (uint32_t i = 0; i < source->count; i++) {
		const struct start_point *point = &source->points[i];
		struct ledger_part *part = &ledger.parts[point->partition];

		part->low = point->low;
		if ((uint64_t)point->high < part->mark)
			return err_set(err, EX_DATAERR,
			    "%s[%ld]: the log ends at %" PRId64
			    ", below the mark %" PRIu64,
			    options.topic, (long)point->partition, point->high,
			    part->mark);
	}
	return 0;
}

static int
read_dispatches(struct err *err)
{
	if (scan_start(&dispatches.scan, deadline_us(), err) < 0 ||
	    take_bounds(err) < 0)
		return -1;
	return read_topic(&dispatches, err);
}

static int
read_letters(struct err *err)
{
	if (options.dead_letter == NULL)
		return 0;
	if (scan_start(&letters.scan, deadline_us(), err) < 0)
		return -1;
	return read_topic(&letters, err);
}

static int
read_outbox(struct err *err)
{
	const struct source *source = &outbox.scan.source;

	if (options.outbox == NULL)
		return 0;
	if (scan_start(&outbox.scan, deadline_us(), err) < 0)
		return -1;
	ledger.is_whole = true;
	for (uint32_t i = 0; i < source->count; i++)
		ledger.is_whole &= source->points[i].low == 0;
	return read_topic(&outbox, err);
}

/* A mark that went back says that a node lost data meanwhile: what was found
 * missing may be on its way again. */
static int
check_marks(uint64_t *marks, struct err *err)
{
	if (read_marks(marks, err) < 0)
		return -1;
	for (uint32_t p = 0; p < mailbox.partitions; p++)
		if (marks[p] < ledger.parts[p].mark)
			return err_set(err, EX_TEMPFAIL,
			    "%s:{%lu}:mark: went from %" PRIu64
			    " back to %" PRIu64
			    " meanwhile: its node lost data",
			    options.prefix, (unsigned long)p,
			    ledger.parts[p].mark, marks[p]);
	return 0;
}

static int
audit(uint64_t *marks, struct err *err)
{
	say("marks");
	if (read_marks(marks, err) < 0)
		return -1;
	say("mailboxes");
	if (read_mailboxes(marks, err) < 0)
		return -1;
	say("dispatches");
	if (read_dispatches(err) < 0)
		return -1;
	say("Outbox");
	if (read_letters(err) < 0 || read_outbox(err) < 0)
		return -1;
	say("end");
	return check_marks(marks, err) < 0 ? -1 : ledger_end(&ledger, err);
}

static int
print_counts(struct err *err)
{
	const struct ledger_counts *counts = &ledger.counts;
	json_t *line = json_pack(
	    "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "messages",
	    (json_int_t)counts->messages, "dead", (json_int_t)counts->dead,
	    "pending", (json_int_t)counts->pending, "dispatches",
	    (json_int_t)counts->dispatches, "repeats",
	    (json_int_t)counts->repeats, "conflicts",
	    (json_int_t)counts->conflicts, "undecodable",
	    (json_int_t)counts->undecodable, "unapplied",
	    (json_int_t)counts->unapplied, "entries",
	    (json_int_t)counts->entries, "claims", (json_int_t)counts->claims,
	    "above", (json_int_t)counts->above, "trimmed",
	    (json_int_t)counts->trimmed, "unchecked",
	    (json_int_t)counts->unchecked);

	for (int i = 0; i < LEDGER_KINDS; i++)
		json_object_set_new(line, ledger_kind_names[i],
		    json_integer((json_int_t)ledger.kinds[i]));
	if (jsonl_print(&output, line, err) < 0 ||
	    jsonl_flush(&output, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

struct verdict {
	char text[400];
	size_t used;
};

static void
add_count(struct verdict *verdict, const char *name, uint64_t count)
{
	if (count > 0)
		verdict->used += (size_t)snprintf(verdict->text + verdict->used,
		    sizeof(verdict->text) - verdict->used, "%s%" PRIu64 " %s",
		    verdict->used > 0 ? ", " : "", count, name);
}

/* "2 missing, 1 extra: none expected" */
static int
judge(struct err *err)
{
	struct verdict verdict = {.used = 0};

	for (int i = 0; i < LEDGER_KINDS; i++)
		add_count(&verdict, ledger_kind_names[i], ledger.kinds[i]);
	if (options.drained) {
		add_count(&verdict, "pending", ledger.counts.pending);
		add_count(&verdict, "unapplied", ledger.counts.unapplied);
		add_count(&verdict, "above", ledger.counts.above);
	}
	if (verdict.used == 0)
		return 0;
	return err_set(err, EX_FOUND, "%s: none expected", verdict.text);
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
	scan_release(&dispatches.scan);
	scan_release(&letters.scan);
	scan_release(&outbox.scan);
	ledger_release(&ledger);
	outbox_release(&decoder);
	plan_release(&plan);
	buf_release(&value);
	jsonl_release(&output);
	login_release(&login);
	nodes_release(&nodes);
	free(dispatches.scan.source.chosen);
	free(committed);
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
	outbox_init(&decoder);
	buf_init(&value);
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
