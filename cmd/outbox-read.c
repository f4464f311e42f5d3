/*
 * outbox-read - reads a Kafka topic and writes a stream of its records.
 *
 * Talks to Kafka, as a consumer by assignment.  Says in its hello where each
 * partition starts; then each batch covers the offsets that follow, without a
 * gap.  Stops at TERM or INT, at -c records, at the log end with -e: then its
 * end frame goes out.  It never commits, so to start it again is always safe:
 * it reads again from what offset-commit has committed.
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
#include "kafka/consumer.h"
#include "kafka/figures.h"
#include "kafka/gather.h"
#include "kafka/source.h"
#include "stream/figures.h"

static const char synopsis[] =
    "usage: outbox-read [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                   -b brokers -t topic [-F file] [-X name=value] ...\n"
    "                   [-p partitions] [-g group] [-o where] [--first where]\n"
    "                   [-c count] [-e] [--batch records]\n"
    "                   [--batch-bytes bytes] [--batch-ms ms]\n"
    "                   [--stats file] [--prom folder] [--chain name]\n";

/* How long a TERM, or a reader that left, may go unnoticed while idle. */
#define IDLE_MS 100

static struct figure *const figures[] = {&stage_batches, &stage_records,
    &stage_bytes_out, &stage_progress, &step_read, &kafka_lag, &kafka_position,
    KAFKA_ERRORS_FIGURES, NULL};

static struct options {
	struct opt_common common;
	struct kafka_options kafka;
	const char *topic;
	const char *partitions;
	const char *where; /* -o */
	const char *first;
	bool at_end; /* -e */
	uint64_t count; /* -c; 0: no end */
	uint64_t batch;
	uint64_t batch_bytes;
	uint64_t batch_ms;
} options = {.common.figures.table = figures,
    .where = "stored",
    .batch = 512,
    .batch_bytes = 1 << 20,
    .batch_ms = 5};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.kafka.brokers},
    {'X', NULL, OPT_LIST, &options.kafka.properties},
    {'F', NULL, OPT_TEXT, &options.kafka.file},
    {'t', "topic", OPT_TEXT, &options.topic},
    {'p', "partitions", OPT_TEXT, &options.partitions},
    {'g', "group", OPT_TEXT, &options.kafka.group},
    {'o', "offset", OPT_TEXT, &options.where},
    {0, "first", OPT_TEXT, &options.first},
    {'c', "count", OPT_NUMBER, &options.count, 1, UINT64_MAX, "records"},
    {'e', "exit-at-end", OPT_FLAG, &options.at_end},
    {0, "batch", OPT_NUMBER, &options.batch, 1, 65536, "records"},
    {0, "batch-bytes", OPT_NUMBER, &options.batch_bytes, 1 << 10, 8 << 20,
	"bytes"},
    {0, "batch-ms", OPT_NUMBER, &options.batch_ms, 0, 60000, "ms"},
    {0},
};

/* How long a question about partitions that join may hold up the others. */
#define JOIN_MS 2000

static struct start_rule rule;
static struct positions positions;
static struct kafka_client client;

static struct source source;

static struct reader {
	struct consumer consumer;
	struct gather gather;
	struct stream_out out;
	uint32_t unfinished; /* partitions that haven't got to their end */
	uint64_t records;
	bool output_failed;
} reader;

static int
parse_first(struct err *err)
{
	struct start_rule first;

	if (options.first == NULL)
		return 0;
	if (start_parse("--first", options.first,
		1U << START_BEGINNING | 1U << START_END, &first, err) < 0)
		return -1;
	rule.first = first.where;
	if (rule.where != START_STORED && rule.where != START_FILE)
		return err_set(err, EX_CONFIG,
		    "--first: it says where the first run of a group starts, "
		    "-o %s leaves nothing to say",
		    options.where);
	return 0;
}

static int
check_options(struct err *err)
{
	const unsigned all = (1U << START_NONE) - 1;

	if (opt_required("-t", options.topic, err) < 0 ||
	    topic_check("-t", options.topic, err) < 0 ||
	    start_parse("-o", options.where, all, &rule, err) < 0 ||
	    parse_first(err) < 0)
		return -1;
	if (options.partitions != NULL &&
	    opt_ranges("-p", options.partitions, INT32_MAX, &source.chosen,
		&source.chosen_count, err) < 0)
		return -1;
	if (rule.where == START_STORED && options.kafka.group == NULL)
		return err_set(err, EX_CONFIG,
		    "-o stored: without -g there is no group that has stored "
		    "anything");
	if (rule.where != START_FILE)
		return 0;
	return positions_read(&positions, rule.path, err);
}

static int
find_start(struct err *err)
{
	source.client = &client;
	source.topic = options.topic;
	source.rule = &rule;
	source.positions = &positions;
	source.chosen_text = options.partitions;
	source.at_end = options.at_end;
	return source_find(
	    &source, clock_us() + options.common.connect_ms * 1000, err);
}

static int
write_hello(struct err *err)
{
	struct hello hello = {.kind = STREAM_RECORDS,
	    .topic = slice_of(options.topic),
	    .start_count = source.count};
	int result;

	if (options.kafka.group != NULL)
		hello.group = slice_of(options.kafka.group);
	if (getrandom(&hello.run, sizeof(hello.run), 0) !=
	    (ssize_t)sizeof(hello.run))
		return err_set(err, EX_OSERR, "getrandom: no random number");
	hello.start = calloc(source.count, sizeof(*hello.start));
	if (hello.start == NULL)
		return err_memory(err, "hello");
	for (uint32_t i = 0; i < source.count; i++)
		hello.start[i] = (struct start){hello.topic,
		    source.points[i].partition, source.points[i].offset,
		    slice_of(source.points[i].how)};
	result = stream_out_hello(&reader.out, &hello, err);
	free(hello.start);
	return result;
}

/* Those of the source from points[first] on. */
static int
add_partitions(uint32_t first, struct err *err)
{
	for (uint32_t i = first; i < source.count; i++) {
		const struct start_point *point = &source.points[i];

		if (gather_add(&reader.gather, point->partition, point->offset,
			err) < 0 ||
		    lag_add(options.topic, point->partition, point->offset,
			err) < 0)
			return -1;
		reader.unfinished += point->offset < source.ends[i];
	}
	return 0;
}

static int
prepare(struct err *err)
{
	const struct gather_limits limits = {(uint32_t)options.batch,
	    (size_t)options.batch_bytes, options.batch_ms * 1000};

	stream_out_init(&reader.out, STDOUT_FILENO);
	gather_init(&reader.gather, slice_of(options.topic), &limits);
	if (add_partitions(0, err) < 0)
		return -1;
	if (consumer_start(&reader.consumer, &client, options.topic,
		source.points, source.ends, source.count, err) < 0)
		return -1;
	reader.consumer.watch.partitions = source.topic_count;
	lag_begin(client.handle, options.topic);
	return 0;
}

static int
write_batch(struct err *err)
{
	const struct gather *gather = &reader.gather;

	if (gather_write(&reader.gather, &reader.out, clock_us(), err) < 0) {
		reader.output_failed = true;
		return -1;
	}
	for (uint32_t i = 0; i < gather->count; i++)
		lag_move(i, gather->all[i].next);
	return 0;
}

/* Offsets that hold no record are covered like others, but said. */
static void
note_gap(const struct gather_partition *at, int64_t offset)
{
	if (offset > at->next)
		msg_write(MSG_INFO,
		    "%s[%d]: no records at offsets %" PRId64 " to %" PRId64,
		    options.topic, (int)at->partition, at->next, offset - 1);
}

/* Moves a partition over offsets without records. */
static void
pass_over(uint32_t index, int64_t next, uint64_t now_us)
{
	if (next > source.ends[index])
		next = source.ends[index];
	note_gap(&reader.gather.all[index], next);
	gather_cover(&reader.gather, index, next, now_us);
}

static int
take_record(
    uint32_t index, struct record *record, uint64_t now_us, struct err *err)
{
	const struct gather_partition *at = &reader.gather.all[index];
	size_t bytes = gather_record_bytes(record);

	if (record->offset < at->next)
		return err_bug(err,
		    "a record from before its partition's "
		    "position");
	if (record->offset >= source.ends[index]) {
		pass_over(index, record->offset, now_us);
		return 0;
	}
	if (bytes > GATHER_RECORD_BYTES_MAX)
		return err_set(err, EX_DATAERR,
		    "%s[%d]: record at offset %" PRId64 ": %zu bytes, a frame "
		    "has room for %zu",
		    options.topic, (int)at->partition, record->offset, bytes,
		    GATHER_RECORD_BYTES_MAX);
	note_gap(at, record->offset);
	if (!gather_has_room(&reader.gather, bytes) && write_batch(err) < 0)
		return -1;
	gather_record(&reader.gather, index, record, now_us);
	reader.records++;
	return 0;
}

static int
take_item(enum consumer_event event, struct consumer_item *item,
    uint64_t now_us, struct err *err)
{
	uint32_t index = source.index[item->partition];
	const struct gather_partition *at = &reader.gather.all[index];
	bool was_finished = at->next >= source.ends[index];

	if (event == CONSUMER_EOF)
		pass_over(index, item->offset, now_us);
	else if (take_record(index, &item->record, now_us, err) < 0)
		return -1;
	if (!was_finished && at->next >= source.ends[index]) {
		reader.unfinished--;
		consumer_pause(&reader.consumer, at->partition);
	}
	return 0;
}

/* An empty batch that names each partition from `first` on. */
static int
name_partitions(uint32_t first, struct err *err)
{
	gather_name(&reader.gather, first, clock_us());
	return write_batch(err);
}

static bool
has_grown(void)
{
	return source_can_grow(&source) &&
	    reader.consumer.watch.partitions > source.topic_count;
}

/* Where nobody can say yet where the new partitions start, the next answer
 * about the topic is waited for. */
static int
join(struct err *err)
{
	struct watch *watch = &reader.consumer.watch;
	uint32_t first = source.count;

	if (source_join(&source, watch->partitions, clock_us() + JOIN_MS * 1000,
		err) < 0) {
		watch->partitions = source.topic_count;
		return err->code == EX_UNAVAILABLE || err->code == EX_TEMPFAIL
		    ? 0
		    : -1;
	}
	if (gather_is_open(&reader.gather) && write_batch(err) < 0)
		return -1;
	if (add_partitions(first, err) < 0 || name_partitions(first, err) < 0)
		return -1;
	return consumer_join(
	    &reader.consumer, source.points + first, source.count - first, err);
}

/* How long the next poll may wait: not beyond the batch's time. */
static int
wait_ms(void)
{
	const struct gather *gather = &reader.gather;

	if (!gather_is_open(gather))
		return IDLE_MS;
	return clock_left_ms(
	    gather->first_us + gather->limits.wait_us, IDLE_MS);
}

static int
step(struct err *err)
{
	struct consumer_item item;
	int event = consumer_poll(&reader.consumer, wait_ms(), &item, err);
	uint64_t now_us = clock_us();

	if (event < 0 || (has_grown() && join(err) < 0))
		return -1;
	if (event != CONSUMER_NOTHING &&
	    take_item((enum consumer_event)event, &item, now_us, err) < 0)
		return -1;
	if (event == CONSUMER_NOTHING && !gather_is_open(&reader.gather) &&
	    io_reader_gone(STDOUT_FILENO))
		return err_set(err, EX_TEMPFAIL, "output: the reader is gone");
	/* With --batch-ms 0 a batch ends where nothing more is waiting. */
	if (gather_is_due(&reader.gather, now_us) ||
	    (event == CONSUMER_NOTHING && options.batch_ms == 0 &&
		gather_is_open(&reader.gather)))
		return write_batch(err);
	return 0;
}

static bool
is_finished(void)
{
	return signals_stopping() || reader.unfinished == 0 ||
	    (options.count > 0 && reader.records >= options.count);
}

static int
read_records(struct err *err)
{
	struct err ignored;

	if (write_hello(err) < 0 || name_partitions(0, err) < 0)
		return -1;
	while (!is_finished()) {
		if (step(err) == 0)
			continue;
		/* What was read before an error of Kafka's goes out: after
		 * an offset out of range it may be there no more. */
		if (!reader.output_failed && gather_is_open(&reader.gather))
			write_batch(&ignored);
		return -1;
	}
	if (gather_is_open(&reader.gather) && write_batch(err) < 0)
		return -1;
	if (stream_out_end(&reader.out, err) < 0)
		return -1;
	return io_close_output(STDOUT_FILENO, err);
}

static int
run(struct err *err)
{
	int result = prepare(err);

	if (result == 0)
		result = read_records(err);
	consumer_release(&reader.consumer);
	gather_release(&reader.gather);
	stream_out_release(&reader.out);
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
	if (result < 0 || check_options(&err) < 0 ||
	    program_signals(&options.common, &err) < 0)
		return program_end(-1, &err);
	result = kafka_client_open(&client, &options.kafka, KAFKA_CONSUMER,
	    options.common.connect_ms, &err);
	client.give_up = signals_stopping;
	if (result == 0)
		result = find_start(&err);
	if (result == 0 && !options.common.check)
		result = run(&err);
	source_release(&source);
	free(source.chosen);
	positions_release(&positions);
	_exit(program_end(result, &err)); /* see kafka/client.h */
}
