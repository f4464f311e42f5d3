/* Topics that records are sent to. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/topic.h"
#include "kafka/error.h"
#include "kafka/producer-inner.h"
#include "kafka/topic.h"

/* A question to the brokers is asked anew after this time, at first; between
 * two, errors are looked at that no waiting can mend. */
#define ASK_MS_FIRST 250
#define ASK_MS_MOST 4000
#define ASK_PAUSE_MS 100

/* For a limit, which only a message names. */
#define LIMIT_MS 2000

static void
free_topic(struct producer *producer, struct producer_topic *topic)
{
	for (uint32_t i = 0; i <= producer->client_count; i++)
		if (topic->handles[i] != NULL)
			rd_kafka_topic_destroy(topic->handles[i]);
	free((char *)(uintptr_t)topic->name.data);
	free(topic);
}

void
producer_free_topics(struct producer *producer)
{
	struct producer_topic *topic = producer->topics;

	while (topic != NULL) {
		struct producer_topic *next = topic->next;

		free_topic(producer, topic);
		topic = next;
	}
	producer->topics = NULL;
}

/* Asks once: 1 known, 0 not yet (why in *error), -1 for good. */
static int
ask_partitions(struct producer *producer, struct producer_topic *topic,
    int timeout_ms, rd_kafka_resp_err_t *error, struct err *err)
{
	int code;

	*error = kafka_topic_ask(producer->clients[0].handle, topic->handles[0],
	    timeout_ms, &topic->partitions);
	if (*error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 1;
	code = kafka_error_code(*error);
	if (code != EX_UNAVAILABLE && code != EX_TEMPFAIL)
		return err_set(err, code, "topic %s: %s",
		    (const char *)topic->name.data, rd_kafka_err2str(*error));
	return producer_serve(producer, ASK_PAUSE_MS, err);
}

static int
refuse_topic(struct producer *producer, const struct producer_topic *topic,
    rd_kafka_resp_err_t error, struct err *err)
{
	bool no_topic = error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	const char *why = no_topic || producer->last_error[0] == '\0'
	    ? rd_kafka_err2str(error)
	    : producer->last_error;

	return err_set(err, EX_UNAVAILABLE, "topic %s: not within %llu ms: %s",
	    (const char *)topic->name.data,
	    (unsigned long long)producer->connect_ms, why);
}

static int
look_up(
    struct producer *producer, struct producer_topic *topic, struct err *err)
{
	uint64_t deadline_us = clock_us() + producer->connect_ms * 1000;
	rd_kafka_resp_err_t error, answer = RD_KAFKA_RESP_ERR__TIMED_OUT;
	int ask_ms = ASK_MS_FIRST;

	for (;;) {
		int left_ms = clock_left_ms(deadline_us, ask_ms);
		int known;

		known = ask_partitions(
		    producer, topic, left_ms > 0 ? left_ms : 1, &error, err);
		if (known != 0)
			return known < 0 ? -1 : 0;
		if (producer->give_up != NULL && producer->give_up())
			return err_set(err, EX_TEMPFAIL,
			    "topic %s: told to stop before an answer",
			    (const char *)topic->name.data);
		/* What a broker said tells more than that the last try was
		 * too short. */
		if (error != RD_KAFKA_RESP_ERR__TIMED_OUT)
			answer = error;
		if (left_ms == 0)
			return refuse_topic(producer, topic, answer, err);
		ask_ms = ask_ms < ASK_MS_MOST ? ask_ms * 2 : ask_ms;
	}
}

static struct producer_topic *
make_topic(struct producer *producer, struct slice name, struct err *err)
{
	struct producer_topic *topic = calloc(1,
	    sizeof(*topic) +
		(producer->client_count + 1) * sizeof(topic->handles[0]));
	char *copy = slice_dup(name);

	if (topic != NULL && copy != NULL)
		topic->handles[0] =
		    rd_kafka_topic_new(producer->clients[0].handle, copy, NULL);
	if (topic == NULL || topic->handles[0] == NULL) {
		free(topic);
		free(copy);
		err_memory(err, "topic");
		return NULL;
	}
	topic->name = slice_of(copy);
	return topic;
}

int
producer_find_topic(struct producer *producer, struct slice name,
    struct producer_topic **topic, struct err *err)
{
	struct producer_topic *made;

	for (*topic = producer->topics; *topic != NULL; *topic = (*topic)->next)
		if (slice_equal((*topic)->name, name))
			return 0;
	if (!topic_is_name(name))
		return err_set(
		    err, EX_DATAERR, "its topic isn't " TOPIC_WANTED);
	made = make_topic(producer, name, err);
	if (made == NULL)
		return -1;
	if (look_up(producer, made, err) < 0) {
		free_topic(producer, made);
		return -1;
	}
	/* Not all programs begin with the same partition. */
	made->keyless = (uint32_t)clock_us();
	made->next = producer->topics;
	*topic = producer->topics = made;
	return 0;
}

struct producer_topic *
producer_topic_of(
    const struct producer *producer, const rd_kafka_message_t *message)
{
	struct slice name = slice_of(rd_kafka_topic_name(message->rkt));
	struct producer_topic *topic = producer->topics;

	while (topic != NULL && !slice_equal(topic->name, name))
		topic = topic->next;
	return topic;
}

int64_t
producer_topic_limit(struct producer *producer, struct producer_topic *topic)
{
	if (topic->limit_bytes == 0)
		topic->limit_bytes =
		    kafka_topic_limit(producer->clients[0].handle,
			(const char *)topic->name.data, LIMIT_MS);
	return topic->limit_bytes;
}
