/*
 * log-audit - duplicates, inversions and gaps in a topic's log.
 *
 * Reads a Kafka topic from its beginning to what is its end now, and prints
 * what it finds as JSON lines, the counts last.  Talks to Kafka, as a
 * consumer by assignment that commits nothing: always safe to repeat.
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
#include "message/audit.h"
#include "message/pick.h"
#include "stream/jsonl.h"
#include "stream/view.h"

static const char synopsis[] =
    "usage: log-audit [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                 -b brokers -t topic [-F file] [-X name=value] ...\n"
    "                 [-p partitions] [-o where] [-c count] [--by field]\n"
    "                 [--seq field] [--id field] [--from number]\n"
    "                 [--list count] [--expect-no kinds]\n";

/* How long a signal may go unnoticed while nothing comes. */
#define IDLE_MS 100

/* What was found where none was expected. */
#define EX_FOUND 1

enum kind {
	DUPLICATES,
	INVERSIONS,
	GAPS,
	UNREADABLE,
	KIND_COUNT
};

static const char *const kind_names[KIND_COUNT] = {
    "duplicates", "inversions", "gaps", "unreadable"};

static struct options {
	struct opt_common common;
	struct kafka_options kafka;
	const char *topic;
	const char *partitions;
	const char *where; /* -o */
	uint64_t count; /* -c; 0: no end */
	const char *by; /* NULL: the key */
	const char *seq;
	const char *id; /* NULL: none */
	const char *from;
	uint64_t first; /* what it says */
	uint64_t list;
	const char *expect_no;
} options = {.where = "beginning", .seq = "conversation_seq", .list = 10};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.kafka.brokers},
    {'X', NULL, OPT_LIST, &options.kafka.properties},
    {'F', NULL, OPT_TEXT, &options.kafka.file},
    {'t', "topic", OPT_TEXT, &options.topic},
    {'p', "partitions", OPT_TEXT, &options.partitions},
    {'o', "offset", OPT_TEXT, &options.where},
    {'c', "count", OPT_NUMBER, &options.count, 1, UINT64_MAX, "records"},
    {0, "by", OPT_TEXT, &options.by},
    {0, "seq", OPT_TEXT, &options.seq},
    {0, "id", OPT_TEXT, &options.id},
    {0, "from", OPT_TEXT, &options.from},
    {0, "list", OPT_NUMBER, &options.list, 0, UINT64_MAX, "lines of a kind"},
    {0, "expect-no", OPT_TEXT, &options.expect_no},
    {0},
};

static struct start_rule rule;
static struct kafka_client client;
static struct scan scan = {.source = {.client = &client, .rule = &rule}};
static struct audit audit;
static struct pick pick;
static struct jsonl output;

static bool unexpected[KIND_COUNT];
static uint64_t found[KIND_COUNT];
static uint64_t records, missing;

/* The fields that are read, in this order. */
static struct pick_field fields[3];
static size_t field_count;
static struct pick_field *seq_field, *by_field, *id_field;

static int
parse_kind(struct slice name, struct err *err)
{
	int known = -1;

	for (int i = 0; i < KIND_COUNT; i++)
		if (slice_is(name, "all") || slice_is(name, kind_names[i])) {
			unexpected[i] = true;
			known = 0;
		}
	if (known < 0)
		return err_set(err, EX_USAGE,
		    "--expect-no: '%s': wants all, or some of duplicates, "
		    "inversions, gaps, unreadable with commas between",
		    options.expect_no);
	return 0;
}

static int
parse_kinds(const char *text, struct err *err)
{
	size_t bytes;

	for (;; text += bytes + 1) {
		bytes = strcspn(text, ",");
		if (parse_kind(
			(struct slice){(const uint8_t *)text, bytes}, err) < 0)
			return -1;
		if (text[bytes] == '\0')
			return 0;
	}
}

/* Options may name the same field. */
static struct pick_field *
add_field(const char *name)
{
	for (size_t i = 0; i < field_count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	fields[field_count].name = name;
	return &fields[field_count++];
}

static int
check_options(struct err *err)
{
	struct source *source = &scan.source;
	const unsigned allowed =
	    1U << START_BEGINNING | 1U << START_OFFSET | 1U << START_TIME;

	if (opt_required("-t", options.topic, err) < 0 ||
	    topic_check("-t", options.topic, err) < 0 ||
	    start_parse("-o", options.where, allowed, &rule, err) < 0)
		return -1;
	source->topic = options.topic;
	source->chosen_text = options.partitions;
	if (options.partitions != NULL &&
	    opt_ranges("-p", options.partitions, INT32_MAX, &source->chosen,
		&source->chosen_count, err) < 0)
		return -1;
	if (options.from != NULL &&
	    opt_number("--from", options.from, 0, AUDIT_SEQ_MAX, NULL,
		&options.first, err) < 0)
		return -1;
	seq_field = add_field(options.seq);
	if (options.by != NULL)
		by_field = add_field(options.by);
	if (options.id != NULL)
		id_field = add_field(options.id);
	return options.expect_no == NULL ? 0
					 : parse_kinds(options.expect_no, err);
}

static int
begin(struct err *err)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return err_set(err, EX_OSERR, "getrandom: no random number");
	audit_init(&audit, seed);
	audit.has_first = options.from != NULL;
	audit.first = options.first;
	pick_init(&pick);
	jsonl_init(&output, STDOUT_FILENO);
	return scan_start(
	    &scan, clock_us() + options.common.connect_ms * 1000, err);
}

/* Counts one of a kind; true where it is listed too. */
static bool
count(enum kind kind)
{
	return ++found[kind] <= options.list;
}

static json_t *
view_name(struct slice name)
{
	if (name.bytes > AUDIT_NAME_BYTES)
		name.bytes = AUDIT_NAME_BYTES;
	return view_bin(name, VIEW_BIN_TEXT);
}

static int
found_unreadable(
    const struct consumer_item *item, const struct err *why, struct err *err)
{
	if (why->code == EX_OSERR) {
		*err = *why;
		return -1;
	}
	if (!count(UNREADABLE))
		return 0;
	return jsonl_print(&output,
	    json_pack("{s:s,s:i,s:I,s:o}", "found", "unreadable", "partition",
		(int)item->partition, "offset", (json_int_t)item->offset, "why",
		view_bin(slice_of(why->text), VIEW_BIN_TEXT)),
	    err);
}

static int
found_duplicate(const struct audit_record *record, struct err *err)
{
	json_t *line;

	if (!count(DUPLICATES))
		return 0;
	line = json_pack("{s:s,s:o,s:i,s:I,s:I}", "found", "duplicate", "group",
	    view_name(record->group), "partition", (int)record->partition,
	    "offset", (json_int_t)record->offset, "seq",
	    (json_int_t)record->seq);
	if (record->id.data != NULL)
		json_object_set_new(line, "id", view_name(record->id));
	return jsonl_print(&output, line, err);
}

static int
found_inversion(const struct audit_record *record,
    const struct audit_before *before, struct err *err)
{
	if (!count(INVERSIONS))
		return 0;
	return jsonl_print(&output,
	    json_pack("{s:s,s:o,s:i,s:I,s:I,s:I,s:I}", "found", "inversion",
		"group", view_name(record->group), "partition",
		(int)record->partition, "offset", (json_int_t)record->offset,
		"seq", (json_int_t)record->seq, "after_offset",
		(json_int_t)before->offset, "after_seq",
		(json_int_t)before->seq),
	    err);
}

static int
found_gap(const struct audit_gap *gap, struct err *err)
{
	if (!count(GAPS))
		return 0;
	return jsonl_print(&output,
	    json_pack("{s:s,s:o,s:I,s:I}", "found", "gap", "group",
		view_name(gap->group), "first", (json_int_t)gap->first, "last",
		(json_int_t)gap->last),
	    err);
}

static int
take_record(const struct consumer_item *item, struct err *err)
{
	struct audit_record record = {.group = item->record.key,
	    .partition = item->partition,
	    .offset = item->offset};
	struct audit_before before;
	struct err why;
	int result;

	records++;
	if (pick_fields(&pick, item->record.value, fields, field_count, &why) <
		0 ||
	    pick_number(seq_field, &record.seq, &why) < 0)
		return found_unreadable(item, &why, err);
	if (by_field != NULL)
		record.group = by_field->bytes;
	if (id_field != NULL)
		record.id = id_field->bytes;
	result = audit_add(&audit, &record, &before, err);
	if (result == AUDIT_DUPLICATE)
		return found_duplicate(&record, err);
	if (result == AUDIT_INVERSION)
		return found_inversion(&record, &before, err);
	return result;
}

static int
read_log(struct err *err)
{
	struct consumer_item item;
	int event = SCAN_NOTHING;

	while (event != SCAN_END &&
	    (options.count == 0 || records < options.count)) {
		if (signals_stopping())
			return err_set(err, EX_TEMPFAIL,
			    "stopped by a signal after %" PRIu64 " records",
			    records);
		event = scan_next(&scan, IDLE_MS, &item, err);
		if (event < 0 ||
		    (event == SCAN_RECORD && take_record(&item, err) < 0))
			return -1;
		if (event == SCAN_NOTHING && output.lines.bytes > 0 &&
		    jsonl_flush(&output, err) < 0)
			return -1;
	}
	return 0;
}

static int
find_gaps(struct err *err)
{
	struct audit_gap gap;

	audit_end(&audit);
	while (audit_next_gap(&audit, &gap) == 1) {
		/* Hostile numbers can't make the sum wrap. */
		missing += gap.last - gap.first + 1;
		if (missing > INT64_MAX)
			missing = INT64_MAX;
		if (found_gap(&gap, err) < 0)
			return -1;
	}
	return 0;
}

static int
print_counts(struct err *err)
{
	if (jsonl_print(&output,
		json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "records",
		    (json_int_t)records, "unreadable",
		    (json_int_t)found[UNREADABLE], "groups",
		    (json_int_t)audit.groups.count, "duplicates",
		    (json_int_t)found[DUPLICATES], "inversions",
		    (json_int_t)found[INVERSIONS], "gaps",
		    (json_int_t)found[GAPS], "missing", (json_int_t)missing),
		err) < 0 ||
	    jsonl_flush(&output, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

/* "2 duplicates, 1 gaps: none expected" */
static int
compare_with_expected(struct err *err)
{
	char what[200];
	size_t used = 0;

	for (int i = 0; i < KIND_COUNT; i++)
		if (unexpected[i] && found[i] > 0)
			used += (size_t)snprintf(what + used,
			    sizeof(what) - used, "%s%" PRIu64 " %s",
			    used > 0 ? ", " : "", found[i], kind_names[i]);
	if (used == 0)
		return 0;
	return err_set(err, EX_FOUND, "%s: none expected", what);
}

static int
run(struct err *err)
{
	struct err ignored;

	if (read_log(err) < 0 || find_gaps(err) < 0) {
		/* What was found before an error is shown. */
		jsonl_flush(&output, &ignored);
		return -1;
	}
	return print_counts(err) < 0 ? -1 : compare_with_expected(err);
}

static void
release(void)
{
	scan_release(&scan);
	audit_release(&audit);
	pick_release(&pick);
	jsonl_release(&output);
	free(scan.source.chosen);
}

int
main(int argc, char **argv)
{
	struct err err;
	int result;

	json_set_alloc_funcs(program_alloc, free);
	result = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (result == OPT_SHOWN)
		return EX_OK;
	if (result < 0 || check_options(&err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return msg_fail(&err);
	result = kafka_client_open(&client, &options.kafka, KAFKA_CONSUMER,
	    options.common.connect_ms, &err);
	client.give_up = signals_stopping;
	if (result == 0)
		result = begin(&err);
	if (result == 0 && !options.common.check)
		result = run(&err);
	release();
	_exit(result < 0 ? msg_fail(&err) : EX_OK); /* see kafka/client.h */
}
