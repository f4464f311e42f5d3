#include "kafka/watch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kafka/topic.h"

/* After this time without a record; after a first answer of a topic that is
 * gone or smaller, for a broker that has just come up may not know all. */
#define IDLE_US 5000000
#define AGAIN_US 1000000
#define TIMEOUT_MS 1000

/* The property that asks the same of librdkafka itself. */
static uint64_t
interval_us_of(rd_kafka_t *handle)
{
	char text[32];
	size_t bytes = sizeof(text);
	long ms;

	if (rd_kafka_conf_get(rd_kafka_conf(handle),
		"topic.metadata.refresh.interval.ms", text,
		&bytes) != RD_KAFKA_CONF_OK)
		return 0;
	ms = strtol(text, NULL, 10);
	return ms < 0 ? 0 : (uint64_t)ms * 1000;
}

void
watch_init(struct watch *watch, struct kafka_client *client, const char *topic)
{
	*watch = (struct watch){.client = client,
	    .topic = topic,
	    .interval_us = interval_us_of(client->handle)};
	watch->ask_us = clock_us() + watch->interval_us;
}

void
watch_note(struct watch *watch, bool is_record)
{
	if (is_record)
		watch->idle_us = 0;
	else if (watch->idle_us == 0)
		watch->idle_us = clock_us();
}

static bool
is_due(const struct watch *watch, uint64_t now_us)
{
	if (watch->again_us != 0)
		return now_us >= watch->again_us;
	return (watch->interval_us > 0 && now_us >= watch->ask_us) ||
	    (watch->idle_us != 0 && now_us >= watch->idle_us + IDLE_US);
}

static rd_kafka_resp_err_t
ask(const struct watch *watch, uint32_t *count)
{
	rd_kafka_t *handle = watch->client->handle;
	rd_kafka_topic_t *local =
	    rd_kafka_topic_new(handle, watch->topic, NULL);
	rd_kafka_resp_err_t error;

	if (local == NULL)
		return rd_kafka_last_error();
	error = kafka_topic_ask(handle, local, TIMEOUT_MS, count);
	rd_kafka_topic_destroy(local);
	return error;
}

static int
refuse(const struct watch *watch, rd_kafka_resp_err_t error, uint32_t count,
    struct err *err)
{
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, EX_UNAVAILABLE,
		    "topic %s: it isn't there any more", watch->topic);
	return err_set(err, EX_DATAERR,
	    "topic %s: it has %" PRIu32 " partitions, had %" PRIu32
	    ": it was deleted and created again",
	    watch->topic, count, watch->partitions);
}

int
watch_look(struct watch *watch, struct err *err)
{
	bool doubted = watch->again_us != 0;
	rd_kafka_resp_err_t error;
	uint32_t count = 0;

	if (!is_due(watch, clock_us()))
		return 0;
	if (kafka_client_poll(watch->client, err) < 0)
		return -1;
	error = ask(watch, &count);
	watch->again_us = 0;
	watch->ask_us = clock_us() + watch->interval_us;
	if (watch->idle_us != 0)
		watch->idle_us = clock_us();
	if (error != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART &&
	    (error != RD_KAFKA_RESP_ERR_NO_ERROR ||
		count >= watch->partitions)) {
		if (count > watch->partitions)
			watch->partitions = count;
		return 0;
	}
	if (doubted)
		return refuse(watch, error, count, err);
	watch->again_us = clock_us() + AGAIN_US;
	return 0;
}
