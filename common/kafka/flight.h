/*
 * flight - dispatches on their way into Kafka, and the receipts that follow.
 *
 * The parts of batches come in, their records go to the producer without a
 * copy, and once every record of a batch and of all before it is delivered,
 * the batch's receipt goes out.  After a failed record nothing new is taken;
 * batches before the failed one still get their receipts.
 *
 * With a topic for dead letters, a record that itself is at fault (too large,
 * refused by the broker also when alone, headers that aren't any) doesn't
 * fail: a letter made from it goes there, and the batch's receipt waits for
 * the letter in the record's place.  A letter that fails is a failure.
 */
#ifndef QIM_KAFKA_FLIGHT_H
#define QIM_KAFKA_FLIGHT_H

#include "kafka/producer.h"
#include "kafka/window.h"
#include "stream/stream.h"

/* A record that has this header and goes to a topic of its own is a dead
 * letter. */
#define FLIGHT_REASON_HEADER "qim-reason"

/* What a record costs beside its frame and what librdkafka copies of it: the
 * bookkeeping of both. */
#define FLIGHT_RECORD_BYTES 512

struct flight {
	struct producer *producer;
	struct producer_topic *target; /* of records that name no topic */
	struct window window;
	struct part *parts; /* all that are in flight */
	struct receipt sums; /* of the batch whose parts are coming */
	uint64_t enqueue_start_us; /* of the same */
	struct err failure; /* the first one; code 0: none */
	struct producer_topic *dead; /* of letters made here; NULL: none */
	struct buf letter_headers; /* of one letter */
	uint64_t letters; /* made here */
	struct err first_letter; /* what the first one was made for */
	uint64_t counts[PRODUCER_STATES]; /* of records, or their letters */
};

/* Sets the producer's report function too.  -1 EX_OSERR. */
int flight_init(struct flight *flight, struct producer *producer,
    struct producer_topic *target, uint32_t batches_most, uint64_t bytes_most,
    struct err *err);

/* Frees what is in flight; only after producer_close(). */
void flight_release(struct flight *flight);

/* True when another part may come in. */
bool flight_has_room(const struct flight *flight);

/* True while receipts may still come without more input. */
bool flight_waits(const struct flight *flight);

/* Sends the records of a part and owns the item from then on.
 * -1: nothing more may be sent, as in flight->failure. */
int flight_take(struct flight *flight, struct stream_item *item);

/* Writes the receipts that are due; -1 as stream_out_receipt(). */
int flight_write_receipts(
    struct flight *flight, struct stream_out *out, struct err *err);

/* Sets the figures to what is in flight and has become of records by now. */
void flight_show(const struct flight *flight);

#endif
