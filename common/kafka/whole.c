#include "kafka/whole.h"

#include "base/clock.h"

/* How long give_up() may go unasked while nothing comes. */
#define IDLE_MS 100

static const struct start_rule rule = {START_BEGINNING, .first = START_NONE};

static uint64_t
deadline_us(const struct whole *whole)
{
	return clock_us() + whole->client.limit_ms * 1000;
}

int
whole_open(struct whole *whole, const struct kafka_options *options,
    const char *topic, uint64_t limit_ms, bool (*give_up)(void),
    uint32_t *partitions, struct err *err)
{
	struct source *source = &whole->scan.source;

	source->client = &whole->client;
	source->topic = topic;
	source->rule = &rule;
	if (kafka_client_open(
		&whole->client, options, KAFKA_CONSUMER, limit_ms, err) < 0)
		return -1;
	whole->client.give_up = give_up;
	return kafka_client_partitions(
	    &whole->client, topic, deadline_us(whole), partitions, err);
}

int
whole_start(struct whole *whole, struct err *err)
{
	return scan_start(&whole->scan, deadline_us(whole), err);
}

int
whole_read(
    struct whole *whole, whole_take *take, void *context, struct err *err)
{
	struct consumer_item item;
	int event;

	for (;;) {
		if (whole->client.give_up())
			return err_set(err, EX_TEMPFAIL, "stopped by a signal");
		event = scan_next(&whole->scan, IDLE_MS, &item, err);
		if (event < 0 || event == SCAN_END)
			return event < 0 ? -1 : 0;
		if (event == SCAN_RECORD && take(context, &item, err) < 0)
			return -1;
	}
}

void
whole_release(struct whole *whole)
{
	scan_release(&whole->scan);
}
