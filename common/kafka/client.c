#include "kafka/client.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/topic.h"
#include "kafka/error.h"
#include "kafka/figures.h"
#include "kafka/topic.h"

/* How long one try of a question lasts: the first, and at most. */
#define SLICE_FIRST_MS 100
#define SLICE_MOST_MS 2000

/* librdkafka has no consumer without a group.id.  Nothing is asked of this
 * group, and nothing is committed to it. */
#define NO_GROUP "qim-no-group"

/* A consumer's at its start: its own, its coordinator's, one for what it does
 * itself, and one for a broker. */
#define THREADS_FIRST 4

struct patience {
	uint64_t deadline_us;
	int slice_ms;
	rd_kafka_resp_err_t why; /* of the tries before: what says most */
};

static struct patience
patience_until(uint64_t deadline_us)
{
	return (struct patience){
	    deadline_us, SLICE_FIRST_MS, RD_KAFKA_RESP_ERR_NO_ERROR};
}

/* Milliseconds for the next try. */
static int
patience_take(struct patience *patience)
{
	int slice_ms = clock_left_ms(patience->deadline_us, patience->slice_ms);

	if (patience->slice_ms < SLICE_MOST_MS)
		patience->slice_ms *= 2;
	return slice_ms > 0 ? slice_ms : 1;
}

static void
on_error(rd_kafka_t *handle, int error, const char *reason, void *opaque)
{
	struct kafka_client *client = opaque;

	if (error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED &&
	    !client->has_group)
		return;
	kafka_error_count(error);
	kafka_error_keep(handle, error, reason, &client->broken);
}

static void *
wait_for_end(void *end)
{
	sem_wait(end);
	return NULL;
}

/* Where it can't start the first threads of a consumer librdkafka 2.0.2 aborts,
 * or waits for good: so they are tried before. */
static int
check_threads(struct err *err)
{
	pthread_t threads[THREADS_FIRST];
	int error = 0, count = 0;
	sem_t end;

	sem_init(&end, 0, 0);
	while (count < THREADS_FIRST &&
	    (error = pthread_create(
		 &threads[count], NULL, wait_for_end, &end)) == 0)
		count++;
	for (int i = 0; i < count; i++)
		sem_post(&end);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	sem_destroy(&end);
	if (error == 0)
		return 0;
	return err_set(
	    err, EX_OSERR, "kafka client: threads: %s", strerror(error));
}

int
kafka_client_open(struct kafka_client *client,
    const struct kafka_options *options, enum kafka_role role,
    uint64_t limit_ms, struct err *err)
{
	struct kafka_options own = *options;
	rd_kafka_conf_t *conf;
	char why[256];

	*client = (struct kafka_client){
	    .has_group = options->group != NULL, .limit_ms = limit_ms};
	if (options->group == NULL)
		own.group = NO_GROUP;
	if (check_threads(err) < 0 ||
	    kafka_conf_build(&own, role, &conf, err) < 0)
		return -1;
	rd_kafka_conf_set_opaque(conf, client);
	rd_kafka_conf_set_error_cb(conf, on_error);
	client->handle =
	    rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (client->handle != NULL) {
		client->told = rd_kafka_queue_get_consumer(client->handle);
		return 0;
	}
	rd_kafka_conf_destroy(conf);
	return kafka_error_code(rd_kafka_last_error()) == EX_OSERR
	    ? err_set(err, EX_OSERR, "kafka client: %s", why)
	    : err_set(err, EX_CONFIG, "kafka client: %s", why);
}

void
kafka_client_leave_queue(struct kafka_client *client)
{
	if (client->told != NULL)
		rd_kafka_queue_destroy(client->told);
	client->told = NULL;
}

/* A group that this user may not see has no coordinator for it: only here is
 * said why. */
static void
take_told(struct kafka_client *client)
{
	rd_kafka_event_t *event;

	while (client->told != NULL &&
	    (event = rd_kafka_queue_poll(client->told, 0)) != NULL) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			on_error(client->handle, rd_kafka_event_error(event),
			    rd_kafka_event_error_string(event), client);
		rd_kafka_event_destroy(event);
	}
}

int
kafka_client_poll(struct kafka_client *client, struct err *err)
{
	rd_kafka_poll(client->handle, 0);
	take_told(client);
	if (client->broken.code == 0)
		return 0;
	*err = client->broken;
	return -1;
}

/* After a try that gave `error`: 1 try again, 0 it was answered, -1 it
 * failed for good, with *err. */
static int
judge(struct kafka_client *client, struct patience *patience,
    rd_kafka_resp_err_t error, const char *what, struct err *err)
{
	int code = kafka_error_code(error);

	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	if (kafka_client_poll(client, err) < 0)
		return err_prefix(err, "%s", what);
	if (code != EX_UNAVAILABLE && code != EX_TEMPFAIL)
		return kafka_error_set(err, error, what);
	if (error != RD_KAFKA_RESP_ERR__TIMED_OUT ||
	    patience->why == RD_KAFKA_RESP_ERR_NO_ERROR)
		patience->why = error;
	if (client->give_up != NULL && client->give_up())
		return err_set(err, EX_TEMPFAIL,
		    "%s: told to stop before an answer", what);
	if (clock_left_ms(patience->deadline_us, 1) > 0)
		return 1;
	return err_set(err, EX_UNAVAILABLE, "%s: not within %llu ms: %s", what,
	    (unsigned long long)client->limit_ms,
	    rd_kafka_err2str(patience->why));
}

/* Some errors come back at once; don't hurry then. */
static void
rest(const struct kafka_client *client, const struct patience *patience,
    uint64_t tried_us)
{
	int slice_ms = clock_left_ms(
	    tried_us + (uint64_t)SLICE_FIRST_MS * 1000, SLICE_FIRST_MS);

	rd_kafka_poll(
	    client->handle, clock_left_ms(patience->deadline_us, slice_ms));
}

static int
wait_metadata(struct kafka_client *client, rd_kafka_topic_t *topic,
    const char *what, uint64_t deadline_us, uint32_t *count, struct err *err)
{
	struct patience patience = patience_until(deadline_us);
	uint64_t tried_us;
	int more;

	for (;;) {
		tried_us = clock_us();
		more = judge(client, &patience,
		    kafka_topic_ask(
			client->handle, topic, patience_take(&patience), count),
		    what, err);
		if (more <= 0)
			return more;
		rest(client, &patience, tried_us);
	}
}

int
kafka_client_partitions(struct kafka_client *client, const char *topic,
    uint64_t deadline_us, uint32_t *count, struct err *err)
{
	char what[TOPIC_BYTES_MAX + 16];
	rd_kafka_topic_t *local;
	int result;

	snprintf(what, sizeof(what), "topic %s", topic);
	local = rd_kafka_topic_new(client->handle, topic, NULL);
	if (local == NULL)
		return kafka_error_set(err, rd_kafka_last_error(), what);
	result = wait_metadata(client, local, what, deadline_us, count, err);
	rd_kafka_topic_destroy(local);
	return result;
}

int
kafka_client_reach(
    struct kafka_client *client, uint64_t deadline_us, struct err *err)
{
	uint32_t unused;

	return wait_metadata(
	    client, NULL, "brokers", deadline_us, &unused, err);
}

int
kafka_client_cluster(struct kafka_client *client, uint64_t deadline_us,
    char **id, struct err *err)
{
	char *theirs;

	/* Which brings the id too. */
	if (kafka_client_reach(client, deadline_us, err) < 0)
		return -1;
	theirs = rd_kafka_clusterid(client->handle, 0);
	if (theirs == NULL)
		return err_set(err, EX_UNAVAILABLE,
		    "brokers: they don't tell the id of their cluster");
	*id = strdup(theirs);
	rd_kafka_mem_free(client->handle, theirs);
	return *id == NULL ? err_memory(err, "cluster id") : 0;
}

static rd_kafka_resp_err_t
first_error(const rd_kafka_topic_partition_list_t *list)
{
	for (int i = 0; i < list->cnt; i++)
		if (list->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR)
			return list->elems[i].err;
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static int
take_offsets(rd_kafka_topic_partition_list_t *list,
    rd_kafka_topic_partition_list_t *answer, const char *what, struct err *err)
{
	for (int i = 0; i < list->cnt; i++) {
		rd_kafka_topic_partition_t *to = &list->elems[i];
		const rd_kafka_topic_partition_t *from =
		    i < answer->cnt ? &answer->elems[i] : NULL;

		if (from == NULL || from->partition != to->partition ||
		    strcmp(from->topic, to->topic) != 0)
			from = rd_kafka_topic_partition_list_find(
			    answer, to->topic, to->partition);
		if (from == NULL)
			return err_set(err, EX_TEMPFAIL,
			    "%s: the answer lacks %s[%d]", what, to->topic,
			    (int)to->partition);
		to->offset = from->offset;
	}
	return 0;
}

/* Asks with a copy of the list, since a failed try may change it. */
static int
ask_list(struct kafka_client *client, rd_kafka_topic_partition_list_t *list,
    rd_kafka_resp_err_t (*ask)(
	rd_kafka_t *, rd_kafka_topic_partition_list_t *, int),
    const char *what, uint64_t deadline_us, struct err *err)
{
	struct patience patience = patience_until(deadline_us);
	int more = list->cnt > 0;

	while (more == 1) {
		rd_kafka_topic_partition_list_t *copy =
		    rd_kafka_topic_partition_list_copy(list);
		uint64_t tried_us = clock_us();
		rd_kafka_resp_err_t error =
		    ask(client->handle, copy, patience_take(&patience));

		if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
			error = first_error(copy);
		more = judge(client, &patience, error, what, err);
		if (more == 0)
			more = take_offsets(list, copy, what, err);
		rd_kafka_topic_partition_list_destroy(copy);
		if (more == 1)
			rest(client, &patience, tried_us);
	}
	return more;
}

int
kafka_client_committed(struct kafka_client *client,
    rd_kafka_topic_partition_list_t *list, uint64_t deadline_us,
    struct err *err)
{
	return ask_list(client, list, rd_kafka_committed,
	    "committed offsets of the group", deadline_us, err);
}

int64_t *
kafka_client_stored(struct kafka_client *client, const char *topic,
    uint32_t partitions, uint64_t deadline_us, struct err *err)
{
	rd_kafka_topic_partition_list_t *list;
	int64_t *stored = malloc(checked_multiply(partitions, sizeof(*stored)));
	int result = 0;

	if (stored == NULL) {
		err_memory(err, "stored offsets");
		return NULL;
	}
	list = rd_kafka_topic_partition_list_new((int)partitions);
	rd_kafka_topic_partition_list_add_range(
	    list, topic, 0, (int32_t)partitions - 1);
	for (uint32_t i = 0; i < partitions; i++)
		list->elems[i].offset = RD_KAFKA_OFFSET_INVALID;
	if (client->has_group)
		result = kafka_client_committed(client, list, deadline_us, err);
	for (uint32_t i = 0; i < partitions; i++)
		stored[i] =
		    list->elems[i].offset < 0 ? -1 : list->elems[i].offset;
	rd_kafka_topic_partition_list_destroy(list);
	if (result == 0)
		return stored;
	free(stored);
	return NULL;
}

int
kafka_client_offsets(struct kafka_client *client,
    rd_kafka_topic_partition_list_t *list, uint64_t deadline_us,
    struct err *err)
{
	return ask_list(client, list, rd_kafka_offsets_for_times,
	    "offsets of the topic", deadline_us, err);
}
