/*
 * dispatch-produce - dispatches into Kafka, receipts out of it.
 *
 * Reads dispatches on stdin, produces each record with acks=all, and writes a
 * receipt per batch on stdout once every record of that batch, and of all
 * before it, is durable.  A window of batches is in flight at a time.  Stops
 * at the end of its input.  Repeating a batch appends its records again,
 * which the mailbox takes for what they are.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/topic.h"
#include "kafka/figures.h"
#include "kafka/flight.h"
#include "stream/figures.h"

static const char synopsis[] =
    "usage: dispatch-produce [-hqVv] [--check] [--connect-ms ms]\n"
    "                        [--with-parent] -b brokers -t topic [-F file]\n"
    "                        [-X name=value] ... [-w batches]\n"
    "                        [--window-bytes bytes] [--connections count]\n"
    "                        [--dead-letter topic] [--kafka-stats file]\n"
    "                        [--not-durable] [--stats file]\n"
    "                        [--prom folder] [--chain name]\n";

static struct figure *const figures[] = {&stage_batches, &stage_records,
    &stage_bytes_out, &stage_progress, &stage_batches_in, &stage_records_in,
    &stage_bytes_in, &stage_in_flight_batches, &stage_in_flight_bytes,
    &step_enqueue, &step_acks, &stage_dead_letters, &stage_retries,
    KAFKA_DELIVERIES_FIGURES, KAFKA_ERRORS_FIGURES, KAFKA_REQUESTS_FIGURES,
    NULL};

static struct options {
	struct opt_common common;
	struct kafka_options kafka;
	const char *topic; /* -t */
	uint64_t window_batches; /* -w */
	uint64_t window_bytes;
	uint64_t connections;
	const char *dead_letter;
	const char *stats; /* --kafka-stats */
} options = {
    .common.figures.table = figures,
    .window_batches = 16,
    .window_bytes = (uint64_t)64 << 20,
    .connections = 1,
};

static const struct opt table[] = {
    {'b', NULL, OPT_TEXT, &options.kafka.brokers},
    {'t', NULL, OPT_TEXT, &options.topic},
    {'F', NULL, OPT_TEXT, &options.kafka.file},
    {'X', NULL, OPT_LIST, &options.kafka.properties},
    {'w', "window", OPT_NUMBER, &options.window_batches, 1, 1024, "batches"},
    {0, "window-bytes", OPT_NUMBER, &options.window_bytes, (uint64_t)1 << 20,
	(uint64_t)4 << 30, "bytes"},
    {0, "connections", OPT_NUMBER, &options.connections, 1,
	PRODUCER_CLIENTS_MOST, "connections"},
    {0, "dead-letter", OPT_TEXT, &options.dead_letter},
    {0, "kafka-stats", OPT_TEXT, &options.stats},
    {0, "not-durable", OPT_FLAG, &options.kafka.not_durable},
    {0},
};

static struct producer producer = {.event_fd = -1};
static struct stats stats = {.fd = -1};
static struct flight flight;
static struct stream_in in;
static struct stream_out out;

/* Reads the hello, checks the topic against it and passes it on. */
static int
greet(const struct producer_topic *topic, struct err *err)
{
	struct stream_item item;
	struct hello hello;

	if (stream_in_wait(&in, &item, err) < 0)
		return -1;
	stream_item_release(&item);
	hello = in.hello;
	if (slice_is(hello.topic, options.topic))
		return err_set(err, EX_CONFIG,
		    "-t %s: the dispatches were read from this topic: they "
		    "would be read again without an end",
		    options.topic);
	if (options.dead_letter != NULL &&
	    slice_is(hello.topic, options.dead_letter))
		return err_set(err, EX_CONFIG,
		    "--dead-letter: '%s' is the topic that the dispatches "
		    "were read from",
		    options.dead_letter);
	if (hello.partitions != 0 && hello.partitions != topic->partitions)
		return err_set(err, EX_CONFIG,
		    "topic %s: it has %lu partitions, the dispatches are "
		    "planned for %lu (fanout-plan -n)",
		    options.topic, (unsigned long)topic->partitions,
		    (unsigned long)hello.partitions);
	hello.kind = STREAM_RECEIPTS;
	hello.durable = !options.kafka.not_durable;
	return stream_out_hello(&out, &hello, err);
}

/* Takes one frame; *ended with the end of the input. */
static int
take_input(bool *ended, struct err *err)
{
	struct stream_item item;
	int event = stream_in_next(&in, &item, err);

	if (event == STREAM_BATCH && flight_take(&flight, &item) < 0) {
		*err = flight.failure;
		event = -1;
	}
	*ended = event == STREAM_END || event < 0;
	return event < 0 ? -1 : 0;
}

/* Waits for input, where it may come in, for reports, and for the reader's
 * end.  1: input is there. */
static int
wait_for_work(bool ended, struct err *err)
{
	bool wanted = !ended && flight_has_room(&flight);
	struct pollfd wait[] = {
	    {.fd = wanted ? STDIN_FILENO : -1, .events = POLLIN},
	    {.fd = producer_fd(&producer), .events = POLLIN},
	    {.fd = STDOUT_FILENO},
	};

	if (poll(wait, 3, -1) < 0 && errno != EINTR)
		return err_set(err, EX_OSERR, "poll: %s", strerror(errno));
	if ((wait[2].revents & POLLERR) != 0)
		return err_set(err, EX_TEMPFAIL, "output: the reader is gone");
	return wait[0].revents != 0;
}

/* Where the next error goes: nothing takes the place of the first. */
static struct err *
unless_set(struct err *first)
{
	static struct err later;

	return first->code == 0 ? first : &later;
}

/* The first dead letter is told of, more are only counted. */
static void
tell_letter(void)
{
	static bool told;

	if (told || flight.letters == 0)
		return;
	told = true;
	msg_write(MSG_WARNING, "%s: a dead letter in %s",
	    flight.first_letter.text, options.dead_letter);
}

/* Until the input has ended, or a record failed, and no receipt can follow
 * any more.  The first thing that went wrong is what is told. */
static int
run(struct err *err)
{
	bool ended = false;
	int served, ready;

	err->code = 0;
	for (;;) {
		served = producer_serve(&producer, 0, unless_set(err));
		tell_letter();
		*unless_set(err) = flight.failure;
		flight_show(&flight);
		if (flight_write_receipts(&flight, &out, unless_set(err)) < 0 ||
		    served < 0)
			break;
		flight_show(&flight);
		ended = ended || err->code != 0;
		if (ended && !flight_waits(&flight))
			break;
		ready = wait_for_work(ended, unless_set(err));
		if (ready < 0)
			break;
		if (ready > 0)
			take_input(&ended, unless_set(err));
	}
	return err->code == 0 ? 0 : -1;
}

static int
find_topics(struct producer_topic **topic, struct producer_topic **dead,
    struct err *err)
{
	*dead = NULL;
	if (producer_find_topic(
		&producer, slice_of(options.topic), topic, err) < 0)
		return -1;
	if (options.connections > (*topic)->partitions)
		return err_set(err, EX_CONFIG,
		    "--connections: %llu are more than the %lu partitions of "
		    "topic %s",
		    (unsigned long long)options.connections,
		    (unsigned long)(*topic)->partitions, options.topic);
	if (options.dead_letter == NULL)
		return 0;
	return producer_find_topic(
	    &producer, slice_of(options.dead_letter), dead, err);
}

/* What became of the records, once that is known of all. */
static void
tell_counts(void)
{
	const uint64_t *counts = flight.counts;
	bool all = true;

	for (int state = 0; state < PRODUCER_STATES; state++)
		all =
		    all && (state == PRODUCER_DELIVERED || counts[state] == 0);
	msg_write(all ? MSG_INFO : MSG_WARNING,
	    "delivered %llu, unproven %llu, not persisted %llu, possibly "
	    "persisted %llu; dead letters made %llu",
	    (unsigned long long)counts[PRODUCER_DELIVERED],
	    (unsigned long long)counts[PRODUCER_UNPROVEN],
	    (unsigned long long)counts[PRODUCER_NOT_PERSISTED],
	    (unsigned long long)counts[PRODUCER_POSSIBLY_PERSISTED],
	    (unsigned long long)flight.letters);
}

/* What is in flight when the run fails is given up, and counted. */
static int
run_and_tell(struct err *err)
{
	int result = run(err);

	if (result < 0)
		producer_abandon(&producer);
	flight_show(&flight);
	tell_counts();
	return result;
}

static int
produce(struct err *err)
{
	struct producer_topic *topic, *dead;

	if (find_topics(&topic, &dead, err) < 0)
		return -1;
	if (options.common.check)
		return 0;
	if (greet(topic, err) < 0 ||
	    flight_init(&flight, &producer, topic,
		(uint32_t)options.window_batches, options.window_bytes,
		err) < 0)
		return -1;
	flight.dead = dead;
	if (run_and_tell(err) < 0 || stream_out_end(&out, err) < 0 ||
	    io_close_output(STDOUT_FILENO, err) < 0)
		return -1;
	producer_last_stats(&producer);
	return 0;
}

static int
check_options(struct err *err)
{
	if (opt_required("-t", options.topic, err) < 0 ||
	    topic_check("-t", options.topic, err) < 0 ||
	    kafka_conf_idempotence(&options.kafka.idempotent, err) < 0)
		return -1;
	options.kafka.statistics = options.stats != NULL || figures_are_on();
	if (options.dead_letter == NULL)
		return 0;
	if (strcmp(options.dead_letter, options.topic) == 0)
		return err_set(err, EX_CONFIG,
		    "--dead-letter: '%s' is the topic of dispatches, -t",
		    options.dead_letter);
	return topic_check("--dead-letter", options.dead_letter, err);
}

static int
open_producer(struct err *err)
{
	rd_kafka_conf_t *conf;

	if (check_options(err) < 0 ||
	    (options.stats != NULL &&
		stats_open(&stats, options.stats, err) < 0) ||
	    kafka_conf_build(&options.kafka, KAFKA_PRODUCER, &conf, err) < 0 ||
	    producer_open(&producer, conf, (uint32_t)options.connections,
		!options.kafka.not_durable, options.common.connect_ms, err) < 0)
		return -1;
	producer.stats = options.stats != NULL ? &stats : NULL;
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
	stream_in_init(&in, STDIN_FILENO, STREAM_DISPATCHES);
	stream_out_init(&out, STDOUT_FILENO);
	result = produce(&err);
	producer_close(&producer);
	stats_close(&stats);
	flight_release(&flight);
	stream_in_release(&in);
	stream_out_release(&out);
	return program_end(result, &err);
}
