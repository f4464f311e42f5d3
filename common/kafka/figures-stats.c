/*
 * Out of librdkafka's statistics: what a producer's requests to all brokers
 * were like.  The text is librdkafka's own, so it is taken for what it says
 * and not judged.
 */
#define JSMN_STATIC
#include <jsmn.h>

#include <stdlib.h>
#include <string.h>

#include "kafka/figures.h"
#include "stream/figures.h"

struct totals {
	/* Since the client began: records. */
	uint64_t taken, sent, waiting;
	/* Requests. */
	uint64_t errors, timeouts;
	uint64_t took_us, took_count; /* of requests in the last interval */
	uint64_t took_99_us; /* of the slowest broker */
	uint64_t queued_us, queued_count; /* of records */
};

static struct totals totals[KAFKA_FIGURES_CLIENTS];

struct text {
	const char *json;
	const jsmntok_t *tokens;
	int count;
};

/* Behind a value and all that is in it. */
static int
pass(const struct text *text, int at)
{
	int end = text->tokens[at].end;

	while (at < text->count && text->tokens[at].start < end)
		at++;
	return at;
}

static int
is_name(const struct text *text, int at, const char *name)
{
	const jsmntok_t *token = &text->tokens[at];
	size_t bytes = (size_t)(token->end - token->start);

	return strlen(name) == bytes &&
	    memcmp(text->json + token->start, name, bytes) == 0;
}

/* The value of a member of an object; -1: it has none. */
static int
find(const struct text *text, int object, const char *name)
{
	int at = object + 1;

	if (object < 0 || text->tokens[object].type != JSMN_OBJECT)
		return -1;
	for (int left = text->tokens[object].size;
	     left > 0 && at + 1 < text->count; left--) {
		if (is_name(text, at, name))
			return at + 1;
		at = pass(text, at + 1);
	}
	return -1;
}

static uint64_t
number(const struct text *text, int object, const char *name)
{
	int at = find(text, object, name);

	if (at < 0 || text->tokens[at].type != JSMN_PRIMITIVE)
		return 0;
	return strtoull(text->json + text->tokens[at].start, NULL, 10);
}

typedef void take_fn(const struct text *text, int value, struct totals *sum);

/* Hands on the value of each member of an object's member. */
static void
take_each(const struct text *text, int object, const char *name, take_fn *take,
    struct totals *sum)
{
	int member = find(text, object, name);
	int at = member + 1;

	if (member < 0)
		return;
	for (int left = text->tokens[member].size;
	     left > 0 && at + 1 < text->count; left--) {
		take(text, at + 1, sum);
		at = pass(text, at + 1);
	}
}

static void
take_partition(const struct text *text, int partition, struct totals *sum)
{
	sum->taken += number(text, partition, "msgs");
	sum->sent += number(text, partition, "txmsgs");
	sum->waiting += number(text, partition, "msgq_cnt") +
	    number(text, partition, "xmit_msgq_cnt");
}

static void
take_topic(const struct text *text, int topic, struct totals *sum)
{
	take_each(text, topic, "partitions", take_partition, sum);
}

static void
take_broker(const struct text *text, int broker, struct totals *sum)
{
	int took = find(text, broker, "rtt");
	int queued = find(text, broker, "int_latency");
	uint64_t count = number(text, took, "cnt");

	sum->errors += number(text, broker, "txerrs");
	sum->timeouts += number(text, broker, "req_timeouts");
	sum->took_count += count;
	sum->took_us += count * number(text, took, "avg");
	if (count > 0 && number(text, took, "p99") > sum->took_99_us)
		sum->took_99_us = number(text, took, "p99");
	count = number(text, queued, "cnt");
	sum->queued_count += count;
	sum->queued_us += count * number(text, queued, "avg");
}

/* A counter never falls, though a broker may be forgotten. */
static void
raise_to(struct figure *figure, uint64_t value)
{
	if (value > figure_get(figure))
		figure_set(figure, value);
}

static uint64_t
mean(uint64_t sum, uint64_t count)
{
	return count == 0 ? FIGURE_UNKNOWN : sum / count;
}

static void
add(struct totals *all, const struct totals *one)
{
	all->taken += one->taken;
	all->sent += one->sent;
	all->waiting += one->waiting;
	all->errors += one->errors;
	all->timeouts += one->timeouts;
	all->took_us += one->took_us;
	all->took_count += one->took_count;
	all->queued_us += one->queued_us;
	all->queued_count += one->queued_count;
	if (one->took_99_us > all->took_99_us)
		all->took_99_us = one->took_99_us;
}

static void
show(void)
{
	struct totals all = {0};

	for (size_t i = 0; i < KAFKA_FIGURES_CLIENTS; i++)
		add(&all, &totals[i]);
	/* What has gone out more than once, or is to go out again. */
	if (all.sent + all.waiting > all.taken)
		raise_to(&stage_retries, all.sent + all.waiting - all.taken);
	raise_to(&kafka_request_errors, all.errors);
	raise_to(&kafka_request_timeouts, all.timeouts);
	figure_set(&kafka_request_mean, mean(all.took_us, all.took_count));
	figure_set(&kafka_request_99,
	    all.took_count == 0 ? FIGURE_UNKNOWN : all.took_99_us);
	figure_set(&kafka_queue_mean, mean(all.queued_us, all.queued_count));
}

void
kafka_figures_take(uint32_t client, const char *json, size_t bytes)
{
	struct text text = {.json = json};
	struct totals sum = {0};
	jsmntok_t *tokens;
	jsmn_parser parser;

	jsmn_init(&parser);
	text.count = jsmn_parse(&parser, json, bytes, NULL, 0);
	if (text.count <= 0 || client >= KAFKA_FIGURES_CLIENTS)
		return;
	tokens = calloc((size_t)text.count, sizeof(*tokens));
	if (tokens == NULL)
		return;
	jsmn_init(&parser);
	jsmn_parse(&parser, json, bytes, tokens, (unsigned)text.count);
	text.tokens = tokens;
	take_each(&text, 0, "brokers", take_broker, &sum);
	take_each(&text, 0, "topics", take_topic, &sum);
	totals[client] = sum;
	free(tokens);
	show();
}
