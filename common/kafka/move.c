#include "kafka/move.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/topic.h"
#include "kafka/answer.h"

/* How long a refused login or a signal may go unnoticed. */
#define SLICE_MS 200

#define LOOK "it may be done: --set with --dry-run tells"

#define WHERE_ALLOWED \
	(1U << START_BEGINNING | 1U << START_END | 1U << START_OFFSET | \
	    1U << START_TIME)

static int
parse_one(struct move *move, const char *text, struct err *err)
{
	const char *equals = strrchr(text, '=');
	char *colon;

	if (equals == NULL)
		return err_set(err, EX_USAGE,
		    "--set: '%s': wants topic[:partitions]=where", text);
	move->topic = strndup(text, (size_t)(equals - text));
	if (move->topic == NULL)
		return err_memory(err, "--set");
	colon = strchr(move->topic, ':');
	if (colon != NULL) {
		*colon = '\0';
		move->partitions = colon + 1;
	}
	if (!topic_is_name(slice_of(move->topic)))
		return err_set(
		    err, EX_USAGE, "--set: '%s': wants " TOPIC_WANTED, text);
	if (move->partitions != NULL &&
	    opt_ranges("--set", move->partitions, INT32_MAX, &move->numbers,
		&move->count, err) < 0)
		return -1;
	return start_parse(
	    "--set", equals + 1, WHERE_ALLOWED, &move->rule, err);
}

int
moves_parse(struct moves *moves, const struct opt_list *texts, struct err *err)
{
	*moves = (struct moves){.count = texts->count};
	moves->all = calloc(texts->count, sizeof(*moves->all));
	if (moves->all == NULL) {
		moves->count = 0;
		return err_memory(err, "--set");
	}
	for (size_t i = 0; i < texts->count; i++)
		if (parse_one(&moves->all[i], texts->text[i], err) < 0)
			return -1;
	return 0;
}

void
moves_release(struct moves *moves)
{
	for (size_t i = 0; i < moves->count; i++) {
		free(moves->all[i].topic);
		free(moves->all[i].numbers);
	}
	free(moves->all);
	if (moves->to != NULL)
		rd_kafka_topic_partition_list_destroy(moves->to);
	if (moves->from != NULL)
		rd_kafka_topic_partition_list_destroy(moves->from);
	*moves = (struct moves){0};
}

/* The partitions of one move as points, which the caller frees. */
static struct start_point *
choose(const struct move *move, uint32_t topic_count, size_t *count,
    struct err *err)
{
	const uint32_t *numbers = move->numbers;
	struct start_point *points = NULL;

	*count = numbers == NULL ? topic_count : move->count;
	if (numbers != NULL && numbers[*count - 1] >= topic_count) {
		err_set(err, EX_CONFIG,
		    "--set: partitions %s: topic %s has %" PRIu32 ", from 0 on",
		    move->partitions, move->topic, topic_count);
	} else if ((points = calloc(*count, sizeof(*points))) == NULL) {
		err_memory(err, "partitions");
	}
	for (size_t i = 0; points != NULL && i < *count; i++)
		points[i].partition =
		    (int32_t)(numbers == NULL ? i : numbers[i]);
	return points;
}

static int
add_points(struct moves *moves, const struct move *move,
    const struct start_point *points, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		int32_t partition = points[i].partition;

		if (rd_kafka_topic_partition_list_find(
			moves->to, move->topic, partition) != NULL)
			return err_set(err, EX_CONFIG,
			    "--set: %s[%d]: given twice", move->topic,
			    (int)partition);
		rd_kafka_topic_partition_list_add(
		    moves->to, move->topic, partition)
		    ->offset = points[i].offset;
	}
	return 0;
}

static int
resolve_one(struct moves *moves, const struct move *move,
    struct kafka_client *client, uint64_t deadline_us, struct err *err)
{
	struct start_point *points;
	uint32_t topic_count;
	size_t count;
	int result;

	if (kafka_client_partitions(
		client, move->topic, deadline_us, &topic_count, err) < 0)
		return -1;
	points = choose(move, topic_count, &count, err);
	if (points == NULL)
		return -1;
	result = start_resolve_explicit(
	    client, &move->rule, move->topic, deadline_us, points, count, err);
	if (result == 0)
		result = add_points(moves, move, points, count, err);
	free(points);
	return result;
}

int
moves_resolve(struct moves *moves, struct kafka_client *client,
    uint64_t deadline_us, struct err *err)
{
	moves->to = rd_kafka_topic_partition_list_new(64);
	for (size_t i = 0; i < moves->count; i++)
		if (resolve_one(
			moves, &moves->all[i], client, deadline_us, err) < 0)
			return -1;
	return 0;
}

int
moves_lock(const struct moves *moves, struct locks *locks, struct err *err)
{
	for (int i = 0; i < moves->to->cnt; i++)
		if (locks_take(locks, slice_of(moves->to->elems[i].topic),
			moves->to->elems[i].partition, err) < 0)
			return -1;
	return 0;
}

int
moves_read(struct moves *moves, struct kafka_client *client,
    uint64_t deadline_us, struct err *err)
{
	moves->from = rd_kafka_topic_partition_list_copy(moves->to);
	return kafka_client_committed(client, moves->from, deadline_us, err);
}

static bool
told_to_stop(const struct kafka_client *client)
{
	return client->give_up != NULL && client->give_up();
}

static rd_kafka_resp_err_t
commit_once(struct kafka_client *client,
    const rd_kafka_topic_partition_list_t *list, uint64_t deadline_us,
    struct err *err)
{
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client->handle);
	rd_kafka_resp_err_t error =
	    rd_kafka_commit_queue(client->handle, list, queue, NULL, NULL);
	rd_kafka_event_t *event = NULL;

	while (error == RD_KAFKA_RESP_ERR_NO_ERROR && event == NULL) {
		if (clock_left_ms(deadline_us, 1) == 0 || told_to_stop(client))
			error = RD_KAFKA_RESP_ERR__TIMED_OUT;
		else if (kafka_client_poll(client, err) < 0)
			error = RD_KAFKA_RESP_ERR__AUTHENTICATION;
		else
			event = rd_kafka_queue_poll(
			    queue, clock_left_ms(deadline_us, SLICE_MS));
	}
	if (event != NULL)
		error = answer_error(event);
	if (event != NULL)
		rd_kafka_event_destroy(event);
	rd_kafka_queue_destroy(queue);
	return error;
}

int
moves_commit(const struct moves *moves, struct kafka_client *client,
    uint64_t deadline_us, struct err *err)
{
	rd_kafka_resp_err_t error, why = RD_KAFKA_RESP_ERR__TIMED_OUT;

	for (;;) {
		error = commit_once(client, moves->to, deadline_us, err);
		if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
			return 0;
		/* What the brokers have said says more. */
		if (error != RD_KAFKA_RESP_ERR__TIMED_OUT)
			why = error;
		if (kafka_client_poll(client, err) < 0 ||
		    answer_judge(error, err) < 0)
			return -1;
		if (told_to_stop(client))
			return err_set(err, EX_TEMPFAIL,
			    "--set: told to stop before an answer: " LOOK);
		if (clock_left_ms(deadline_us, 1) == 0)
			return err_set(err, EX_TEMPFAIL,
			    "--set: no success within %" PRIu64
			    " ms: %s: " LOOK,
			    client->limit_ms, rd_kafka_err2str(why));
		poll(NULL, 0, clock_left_ms(deadline_us, SLICE_MS));
	}
}
