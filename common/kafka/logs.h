/*
 * logs - the dispatch topic, the dead letters and the Outbox, told to a ledger.
 *
 * What survey.h is for the mailboxes.  Each topic is found before anything is
 * read, and its end is fixed when its turn comes: in the order that the ledger
 * wants (ledger.h), while all of them may go on.  Nothing is committed.
 */
#ifndef QIM_KAFKA_LOGS_H
#define QIM_KAFKA_LOGS_H

#include "kafka/whole.h"
#include "message/ledger-outbox.h"

struct logs {
	const struct kafka_options *kafka; /* not owned, as all that follows */
	const char *topic; /* of the dispatches */
	const char *dead_letter; /* NULL: there is none */
	const char *outbox_topic; /* NULL: it isn't told */
	const char *group_name; /* of the fan-out; NULL: all of the Outbox is
				 * due */
	uint64_t limit_ms; /* for an answer of Kafka */
	bool (*give_up)(void); /* true ends it all, EX_TEMPFAIL */
	struct ledger *ledger;
	struct ledger_outbox *planner;

	struct whole dispatches; /* -p stands in its scan.source */
	struct whole letters, outbox;
	uint32_t outbox_partitions;
	struct kafka_client group;
	int64_t *committed; /* owned; of each partition of the Outbox */
};

/* Finds the topics.  The first fields are set, all else is 0; logs must stay
 * where it is, for its clients must.  *partitions: of the dispatch topic.
 * -1: as whole_open(). */
int logs_open(struct logs *logs, uint32_t *partitions, struct err *err);

/* Once ledger and planner are initialised, for as many partitions: marks what
 * -p leaves out as to be skipped, and asks what the group has committed.
 * -1: EX_CONFIG the topic lacks a partition of -p, or the group has committed
 * nothing of the Outbox; as kafka_client_open() and kafka_client_stored(). */
int logs_begin(struct logs *logs, struct err *err);

/* Tells the topic's bounds, then its records; the marks are told before.
 * -1: EX_DATAERR its log ends below a mark: it is another topic of the same
 * name, or records are lost; as whole_start() and whole_read(), as the
 * ledger. */
int logs_tell_dispatches(struct logs *logs, struct err *err);

/* Tells the dead letters of the Outbox, then its records; nothing where there
 * is none.  -1: as above. */
int logs_tell_outbox(struct logs *logs, struct err *err);

void logs_release(struct logs *logs); /* also after a failure; not -p's array */

#endif
