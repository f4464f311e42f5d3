/* flight-parts - what the files of the flight share. */
#ifndef QIM_KAFKA_FLIGHT_PARTS_H
#define QIM_KAFKA_FLIGHT_PARTS_H

#include "kafka/flight.h"
#include "stream/record.h"

/* One record on its way. */
struct sent {
	struct part *part;
	const uint8_t *at; /* where it stands in the part's frame */
	bool final; /* no dead letter can take its place */
};

/* One frame of a batch; the window knows it by its first member. */
struct part {
	struct window_part window;
	struct part *next, **link; /* in flight->parts */
	struct stream_item item;
	struct sent *records;
	struct receipt receipt; /* of the batch, in its last part */
	uint64_t enqueue_start_us, enqueue_end_us, acks_end_us;
};

/* The record itself, and where it was read from. */
void sent_record(const struct sent *sent, struct dispatch_record *record);
const struct range *sent_source(
    const struct sent *sent, const struct dispatch_record *record);

/* Sends a dead letter in the place of a record that itself is at fault, as
 * `why` says; -1: the letter can't be sent. */
int flight_bury(
    struct flight *flight, struct sent *sent, const char *why, struct err *err);

#endif
