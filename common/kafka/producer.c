#include "kafka/producer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "kafka/error.h"
#include "kafka/figures.h"
#include "kafka/producer-inner.h"

/* Purged records are reported within this time, or not at all. */
#define ABANDON_MS 1000

/* The last statistics come within an interval, and a little, which a busy
 * machine makes more. */
#define STATS_MORE_MS 10000

/* Nothing waits for its turn in the lone client, nor finds it full: its
 * records were taken in by the window before. */
static const char *const lone_settings[][2] = {
    {"batch.num.messages", "1"},
    {"linger.ms", "0"},
    {"queue.buffering.max.messages", "2147483647"},
    {"queue.buffering.max.kbytes", "2147483647"},
};

int
producer_make_client(
    struct producer *producer, const rd_kafka_conf_t *conf, struct err *err)
{
	static const uint64_t one = 1;
	struct producer_client *client =
	    &producer->clients[producer->made_count];
	rd_kafka_conf_t *own = rd_kafka_conf_dup(conf);
	char why[256];

	client->handle = rd_kafka_new(RD_KAFKA_PRODUCER, own, why, sizeof(why));
	if (client->handle == NULL) {
		bool is_short = rd_kafka_last_error() ==
		    RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;

		rd_kafka_conf_destroy(own);
		return err_set(
		    err, is_short ? EX_OSERR : EX_CONFIG, "kafka: %s", why);
	}
	client->queue = rd_kafka_queue_get_main(client->handle);
	rd_kafka_queue_io_event_enable(
	    client->queue, producer->event_fd, &one, sizeof(one));
	producer->made_count++;
	return 0;
}

static int
make_clients(struct producer *producer, rd_kafka_conf_t *conf, struct err *err)
{
	size_t count = sizeof(lone_settings) / sizeof(lone_settings[0]);

	rd_kafka_conf_set_events(conf,
	    RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_STATS);
	while (producer->made_count < producer->client_count)
		if (producer_make_client(producer, conf, err) < 0)
			return -1;
	for (size_t i = 0; i < count; i++)
		if (rd_kafka_conf_set(conf, lone_settings[i][0],
			lone_settings[i][1], NULL, 0) != RD_KAFKA_CONF_OK)
			return err_bug(err, "librdkafka refuses a setting");
	return 0;
}

int
producer_open(struct producer *producer, rd_kafka_conf_t *conf,
    uint32_t client_count, bool needs_offset, uint64_t connect_ms,
    struct err *err)
{
	int result;

	*producer = (struct producer){
	    .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	    .client_count = client_count,
	    .lone_conf = conf,
	    .needs_offset = needs_offset,
	    .connect_ms = connect_ms,
	};
	if (producer->event_fd < 0)
		result = err_set(err, EX_OSERR, "eventfd: %s", strerror(errno));
	else
		result = make_clients(producer, conf, err);
	if (result < 0)
		producer_close(producer);
	return result;
}

static void
purge(struct producer *producer)
{
	for (uint32_t i = 0; i < producer->made_count; i++)
		rd_kafka_purge(producer->clients[i].handle,
		    RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
			RD_KAFKA_PURGE_F_NON_BLOCKING);
}

static bool
has_unreported(const struct producer *producer)
{
	for (uint32_t i = 0; i < producer->made_count; i++)
		if (rd_kafka_outq_len(producer->clients[i].handle) > 0)
			return true;
	return false;
}

void
producer_abandon(struct producer *producer)
{
	uint64_t deadline_us = clock_us() + ABANDON_MS * 1000;
	struct err ignored;
	int left_ms;

	producer->abandoned = true;
	purge(producer);
	while (has_unreported(producer) &&
	    (left_ms = clock_left_ms(deadline_us, ABANDON_MS)) > 0)
		producer_serve(producer, left_ms, &ignored);
}

void
producer_close(struct producer *producer)
{
	purge(producer);
	producer_free_topics(producer);
	for (uint32_t i = 0; i < producer->made_count; i++) {
		rd_kafka_queue_destroy(producer->clients[i].queue);
		rd_kafka_destroy(producer->clients[i].handle);
	}
	if (producer->lone_conf != NULL)
		rd_kafka_conf_destroy(producer->lone_conf);
	if (producer->event_fd >= 0)
		close(producer->event_fd);
	*producer = (struct producer){.event_fd = -1};
}

int
producer_fd(const struct producer *producer)
{
	return producer->event_fd;
}

static void
take_error(struct producer *producer, const struct producer_client *client,
    rd_kafka_event_t *event)
{
	const char *reason = rd_kafka_event_error_string(event);

	kafka_error_count(rd_kafka_event_error(event));
	kafka_error_keep(client->handle, rd_kafka_event_error(event), reason,
	    &producer->broken);
	snprintf(producer->last_error, sizeof(producer->last_error), "%s",
	    reason == NULL ? "" : reason);
}

static void
take_stats(struct producer *producer, struct producer_client *client,
    rd_kafka_event_t *event)
{
	const char *json = rd_kafka_event_stats(event);

	client->stats_count++;
	if (figures_are_on())
		kafka_figures_take(
		    (uint32_t)(client - producer->clients), json, strlen(json));
	if (producer->stats != NULL)
		stats_write(producer->stats, json, strlen(json));
}

static void
serve_client(struct producer *producer, struct producer_client *client)
{
	const rd_kafka_message_t *message;
	rd_kafka_event_t *event;

	while ((event = rd_kafka_queue_poll(client->queue, 0)) != NULL) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			take_error(producer, client, event);
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_STATS)
			take_stats(producer, client, event);
		while ((message = rd_kafka_event_message_next(event)) != NULL)
			producer_take_report(producer, client, message);
		rd_kafka_event_destroy(event);
	}
}

int
producer_serve(struct producer *producer, int timeout_ms, struct err *err)
{
	struct pollfd wait = {.fd = producer->event_fd, .events = POLLIN};
	uint64_t count;
	ssize_t ignored;

	if (timeout_ms > 0)
		poll(&wait, 1, timeout_ms);
	/* Emptied first: what comes from here on makes it readable again. */
	ignored = read(producer->event_fd, &count, sizeof(count));
	(void)ignored;
	for (uint32_t i = 0; i < producer->made_count; i++)
		serve_client(producer, &producer->clients[i]);
	if (producer->broken.code == 0)
		return 0;
	*err = producer->broken;
	return -1;
}

static int
stats_interval_ms(const struct producer *producer)
{
	char text[32];
	size_t bytes = sizeof(text);

	if (rd_kafka_conf_get(rd_kafka_conf(producer->clients[0].handle),
		"statistics.interval.ms", text, &bytes) != RD_KAFKA_CONF_OK)
		return 0;
	return (int)strtol(text, NULL, 10);
}

/* A client that gets no time may be late by more than an interval. */
static bool
has_stats_of_all(const struct producer *producer, const uint64_t *before)
{
	for (uint32_t i = 0; i < producer->made_count; i++)
		if (producer->clients[i].stats_count == before[i])
			return false;
	return true;
}

void
producer_last_stats(struct producer *producer)
{
	uint64_t before[PRODUCER_CLIENTS_MOST + 1] = {0};
	struct err ignored;
	uint64_t deadline_us;
	int left_ms, most_ms;

	if (producer->stats == NULL || producer->stats->fd < 0)
		return;
	most_ms = stats_interval_ms(producer) + STATS_MORE_MS;
	deadline_us = clock_us() + (uint64_t)most_ms * 1000;
	/* What is there already may be from before the last delivery. */
	producer_serve(producer, 0, &ignored);
	for (uint32_t i = 0; i < producer->made_count; i++)
		before[i] = producer->clients[i].stats_count;
	while (!has_stats_of_all(producer, before) &&
	    (left_ms = clock_left_ms(deadline_us, most_ms)) > 0)
		producer_serve(producer, left_ms, &ignored);
}
