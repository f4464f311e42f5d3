/*
 * outbox-write - JSON lines into the Outbox, by an idempotent producer.
 *
 * Reads a message a line on stdin, checks it, and produces it to Kafka as
 * msgpack with acks=all, keyed by its conversation.  Stops at the end of its
 * input or on TERM or INT, and then waits for what it has sent.  A message
 * is (conversation_id, conversation_seq), so writing a line again is safe.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/lines.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/signals.h"
#include "base/topic.h"
#include "kafka/figures.h"
#include "kafka/producer.h"
#include "message/outbox.h"
#include "stream/figures.h"

static const char synopsis[] =
    "usage: outbox-write [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                    -b brokers -t topic [-F file] [-X name=value] ...\n"
    "                    [--max-bytes bytes] [--stats file] [--prom folder]\n"
    "                    [--chain name]\n";

/* What may be in flight before no more is read. */
#define FLIGHT_BYTES_MOST ((size_t)64 << 20)

/* What a record costs beside its value: librdkafka's bookkeeping and ours. */
#define RECORD_BYTES 512

/* Lines taken before reports are looked at again. */
#define LINES_AT_A_TIME 256

/* How long to wait for reports when librdkafka's queue is full. */
#define FULL_WAIT_MS 100

static struct figure *const figures[] = {&stage_records, &stage_progress,
    &stage_records_in, &stage_in_flight_records, &stage_in_flight_bytes,
    &stage_retries, KAFKA_DELIVERIES_FIGURES, KAFKA_ERRORS_FIGURES,
    KAFKA_REQUESTS_FIGURES, NULL};

static struct options {
	struct opt_common common;
	struct kafka_options kafka;
	const char *topic; /* -t */
	uint64_t max_bytes; /* --max-bytes */
} options = {.common.figures.table = figures,
    .kafka = {.idempotent = true},
    .max_bytes = (uint64_t)1 << 20};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.kafka.brokers},
    {'t', NULL, OPT_TEXT, &options.topic},
    {'F', NULL, OPT_TEXT, &options.kafka.file},
    {'X', NULL, OPT_LIST, &options.kafka.properties},
    {0, "max-bytes", OPT_NUMBER, &options.max_bytes, 2, JSON_BYTES_MAX,
	"bytes"},
    {0},
};

/* A line on its way; its value and then its key follow it. */
struct sent {
	uint64_t line;
	size_t bytes;
	uint8_t data[];
};

static struct producer producer = {.event_fd = -1};
static struct producer_topic *topic;
static struct line_reader lines;
static struct outbox outbox;
static struct buf value;

static size_t flight_bytes;
static uint64_t flight_count, written_count, refused_count;
static uint64_t counts[PRODUCER_STATES];
static struct err failure; /* of a delivery, the first one */

static void
refuse(uint64_t line, const char *why)
{
	refused_count++;
	msg_write(MSG_ERROR, "line %llu: %s", (unsigned long long)line, why);
}

static void
on_report(const struct producer_report *report, void *unused)
{
	struct sent *sent = report->record;

	(void)unused;
	counts[report->state]++;
	if (report->code == 0)
		written_count++;
	else if (report->code == EX_DATAERR)
		refuse(sent->line, report->why);
	else if (failure.code == 0)
		err_set(&failure, report->code, "line %llu: to %s [%d]: %s",
		    (unsigned long long)sent->line, report->topic,
		    (int)report->partition, report->why);
	flight_bytes -= sent->bytes;
	flight_count--;
	free(sent);
}

static struct sent *
make_sent(uint64_t line, struct slice key)
{
	size_t bytes = sizeof(struct sent) + value.bytes + key.bytes;
	struct sent *sent = malloc(bytes);

	if (sent == NULL)
		return NULL;
	sent->line = line;
	sent->bytes = bytes + RECORD_BYTES;
	memcpy(sent->data, value.data, value.bytes);
	memcpy(sent->data + value.bytes, key.data, key.bytes);
	return sent;
}

/* Produces what is in `value`. */
static int
send_value(uint64_t line, struct slice key, struct err *err)
{
	struct sent *sent = make_sent(line, key);
	struct producer_record record = {.topic = topic, .partition = -1};
	int result;

	if (sent == NULL)
		return err_memory(err, "line");
	record.value = (struct slice){sent->data, value.bytes};
	record.key = (struct slice){sent->data + value.bytes, key.bytes};
	record.record = sent;
	while (
	    (result = producer_send(&producer, &record, err)) == PRODUCER_FULL)
		if (producer_serve(&producer, FULL_WAIT_MS, err) < 0)
			break;
	if (result == PRODUCER_SENT) {
		flight_bytes += sent->bytes;
		flight_count++;
		return 0;
	}
	free(sent);
	return -1;
}

static bool
is_blank(struct slice line)
{
	for (size_t i = 0; i < line.bytes; i++)
		if (memchr(" \t\r", line.data[i], 3) == NULL)
			return false;
	return true;
}

/* Checks a line and sends it; -1: not the line's fault. */
static int
take_line(struct slice line, struct err *err)
{
	struct outbox_message message;
	int result = outbox_decode(&outbox, line, &message, err);

	if (result == 0) {
		buf_reset(&value);
		outbox_pack(&value, &message);
		if (value.failed)
			return err_memory(err, "line");
		result =
		    send_value(lines.number, message.conversation.bytes, err);
	}
	if (result < 0 && err->code == EX_DATAERR) {
		refuse(lines.number, err->text);
		return 0;
	}
	return result;
}

/* The next line; *ended at the end of the input. */
static int
read_one(bool *ended, struct err *err)
{
	struct slice line;
	int result = line_read(&lines, &line, err);

	if (result == LINE_EOF)
		*ended = true;
	if (result == LINE_TOO_LONG) {
		err_set(err, EX_DATAERR, "longer than %llu bytes (--max-bytes)",
		    (unsigned long long)options.max_bytes);
		refuse(lines.number, err->text);
	}
	if (result == LINE_READY && !is_blank(line))
		return take_line(line, err);
	return result < 0 ? -1 : 0;
}

/* Reads once and takes the lines that are there. */
static int
take_input(bool *ended, struct err *err)
{
	int count = 0;

	do
		if (read_one(ended, err) < 0)
			return -1;
	while (!*ended && ++count < LINES_AT_A_TIME &&
	    flight_bytes < FLIGHT_BYTES_MOST && line_reader_pending(&lines));
	return 0;
}

/* Waits for input, where it is wanted, for reports and for a signal. */
static int
wait_for_work(bool wanted, struct err *err)
{
	struct pollfd wait[] = {
	    {.fd = wanted ? STDIN_FILENO : -1, .events = POLLIN},
	    {.fd = producer_fd(&producer), .events = POLLIN},
	    {.fd = signals_stopping() ? -1 : signals_fd(), .events = POLLIN},
	};
	int timeout_ms = wanted && line_reader_pending(&lines) ? 0 : -1;

	if (poll(wait, 3, timeout_ms) < 0 && errno != EINTR)
		return err_set(err, EX_OSERR, "poll: %s", strerror(errno));
	return timeout_ms == 0 || wait[0].revents != 0;
}

static void
show(void)
{
	if (figure_get(&stage_records) < written_count)
		figure_set(&stage_progress, clock_us());
	figure_set(&stage_records, written_count);
	kafka_deliveries_set(counts);
	figure_set(&stage_records_in, lines.number);
	figure_set(&stage_in_flight_records, flight_count);
	figure_set(&stage_in_flight_bytes, flight_bytes);
}

/* Until the input has ended, or a signal or a failure ended it, and all that
 * was sent is reported. */
static int
run(struct err *err)
{
	bool ended = false, wanted;
	int ready;

	for (;;) {
		if (producer_serve(&producer, 0, err) < 0)
			return -1;
		show();
		wanted = !ended && failure.code == 0 && !signals_stopping();
		if (!wanted && flight_count == 0)
			break;
		ready = wait_for_work(
		    wanted && flight_bytes < FLIGHT_BYTES_MOST, err);
		if (ready < 0 || (ready > 0 && take_input(&ended, err) < 0))
			return -1;
	}
	*err = failure;
	if (failure.code != 0)
		return -1;
	if (!ended)
		return err_set(err, EX_TEMPFAIL,
		    "stopped by a signal before the end of the input");
	return 0;
}

/* What became of the lines is part of the last message. */
static int
sum_up(int result, struct err *err)
{
	const struct err cause = *err;
	unsigned long long written = written_count, refused = refused_count;

	if (result < 0)
		return err_set(err, cause.code,
		    "%s (%llu written, %llu refused)", cause.text, written,
		    refused);
	if (refused > 0)
		return err_set(err, EX_DATAERR,
		    "lines refused: %llu (%llu written)", refused, written);
	msg_write(MSG_INFO, "%llu written, 0 refused", written);
	return 0;
}

static int
write_outbox(struct err *err)
{
	int result;

	if (producer_find_topic(
		&producer, slice_of(options.topic), &topic, err) < 0)
		return -1;
	if (options.common.check)
		return 0;
	line_reader_init(&lines, STDIN_FILENO, (size_t)options.max_bytes);
	outbox_init(&outbox);
	buf_init(&value);
	producer.report = on_report;
	result = run(err);
	if (result < 0)
		producer_abandon(&producer);
	show();
	return sum_up(result, err);
}

static int
open_producer(struct err *err)
{
	rd_kafka_conf_t *conf;

	options.kafka.statistics = figures_are_on();
	if (opt_required("-t", options.topic, err) < 0 ||
	    topic_check("-t", options.topic, err) < 0 ||
	    kafka_conf_build(&options.kafka, KAFKA_PRODUCER, &conf, err) < 0)
		return -1;
	if (producer_open(
		&producer, conf, 1, true, options.common.connect_ms, err) < 0)
		return -1;
	producer.give_up = signals_stopping;
	return 0;
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
	if (result < 0 || program_signals(&options.common, &err) < 0 ||
	    open_producer(&err) < 0)
		return program_end(-1, &err);
	result = write_outbox(&err);
	producer_close(&producer);
	line_reader_release(&lines);
	outbox_release(&outbox);
	buf_release(&value);
	return program_end(result, &err);
}
