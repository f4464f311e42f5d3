/*
 * plan - which dispatches a message becomes.
 *
 * One for each dispatch partition that has recipients of it, in ascending
 * order of partition; where a partition has more than recipients_max of
 * them, one for each chunk.  Recipients stay sorted.  A pure function of the
 * message and the three numbers: a replay gives the same bytes.
 *
 * A message is planned whole or not at all: sizes are known before the first
 * dispatch is made.
 */
#ifndef QIM_MESSAGE_PLAN_H
#define QIM_MESSAGE_PLAN_H

#include "message/outbox.h"
#include "stream/record.h"

/* All dispatches of one message together. */
#define PLAN_BYTES_MAX ((size_t)256 << 20)

struct plan {
	uint32_t partitions; /* of the dispatch topic */
	uint32_t recipients_max; /* in one dispatch */
	size_t record_bytes_max; /* of one dispatch with key and headers */

	uint32_t *counts; /* by partition: its recipients */
	uint32_t *places; /* by partition: where its next one goes in order */
	uint32_t *used; /* partitions with recipients, ascending */
	uint32_t used_count;
	uint32_t *homes; /* by recipient: its partition */
	uint32_t *order; /* recipients by partition, sorted in each */
	uint32_t *ends; /* by place in order: where it ends in `to` */
	uint32_t room; /* of homes, order and ends */
	struct buf to; /* recipients in order, packed */
	struct buf front, back; /* of every value: what the message says */
	size_t id_at; /* in front: the dispatch's id */
	struct buf scratch;

	struct dispatch dispatch; /* the next one, and */
	uint32_t next; /* where its partition is in used */
	uint32_t first; /* where its first recipient is in order */
	uint32_t left; /* how many its partition has from there on */
};

/* -1 EX_OSERR. */
int plan_init(struct plan *plan, uint32_t partitions, uint32_t recipients_max,
    size_t record_bytes_max, struct err *err);
void plan_release(struct plan *plan);

/* Plans a message; what it points to must live until its last dispatch is
 * taken.  `around_bytes` is what a record has around its value: key and
 * headers.
 * -1: EX_DATAERR with the size and the limit, EX_OSERR. */
int plan_message(struct plan *plan, const struct outbox_message *message,
    size_t around_bytes, struct err *err);

/* Plans the message of a record of the Outbox, which is decoded with `outbox`;
 * the records of its dispatches have the conversation as key, and the same
 * headers.  Record and outbox must stay as they are until the last is taken.
 * -1: as outbox_decode() and plan_message(), EX_DATAERR the headers aren't of
 * their form. */
int plan_record(struct plan *plan, struct outbox *outbox,
    const struct record *record, struct err *err);

/* Appends the next dispatch's value to `value` and says its partition:
 * 1, 0 when there are no more, -1 EX_OSERR. */
int plan_next(
    struct plan *plan, uint32_t *partition, struct buf *value, struct err *err);

#endif
