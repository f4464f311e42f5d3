/* The lag of a consumer's partitions. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kafka/figures.h"

static rd_kafka_t *consumer;
static const char *consumer_topic;

/* For the main thread: by index. */
static struct figure **positions;
static size_t position_count;

/* Series of both families stand in the order in which they were added, first
 * that of the position. */
static void
look(void)
{
	const struct figure *position = figure_next(&kafka_position);
	struct figure *lag = figure_next(&kafka_lag);
	int64_t low, high, next;

	for (; position != NULL && lag != NULL;
	     position = figure_next(position), lag = figure_next(lag)) {
		/* What was fetched last said so: nobody is asked. */
		if (rd_kafka_get_watermark_offsets(consumer, consumer_topic,
			lag->number, &low,
			&high) != RD_KAFKA_RESP_ERR_NO_ERROR ||
		    high < 0)
			continue;
		next = (int64_t)figure_get(position);
		figure_set(lag, high > next ? (uint64_t)(high - next) : 0);
	}
}

void
lag_begin(rd_kafka_t *handle, const char *topic)
{
	consumer = handle;
	consumer_topic = topic;
	figures_set_sample(look);
}

static int
keep(struct figure *position, struct err *err)
{
	struct figure **all = realloc(
	    positions, checked_multiply(position_count + 1, sizeof(*all)));

	if (all == NULL)
		return err_memory(err, "partitions");
	positions = all;
	positions[position_count++] = position;
	return 0;
}

int
lag_add(const char *topic, int32_t partition, int64_t next, struct err *err)
{
	char number[16];
	const char *labels[] = {topic, number};
	struct figure *position;

	if (!figures_are_on())
		return 0;
	snprintf(number, sizeof(number), "%d", (int)partition);
	position = figure_add_series(
	    &kafka_position, labels, partition, (uint64_t)next, err);
	if (position == NULL ||
	    figure_add_series(
		&kafka_lag, labels, partition, FIGURE_UNKNOWN, err) == NULL)
		return -1;
	return keep(position, err);
}

void
lag_move(uint32_t index, int64_t next)
{
	if (index < position_count)
		figure_set(positions[index], (uint64_t)next);
}
