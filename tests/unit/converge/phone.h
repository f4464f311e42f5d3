/*
 * phone - a device of a user: takes batches, stores and acknowledges them,
 * and is killed in between.
 *
 * What is checked each time: a batch is all that the topic has for the user
 * between its two ends, under the first copies' mailbox_seqs, in order; as
 * long as no data was lost a batch begins where the last one that was
 * acknowledged ends, and stays the same until then.
 */
#ifndef QIM_TESTS_CONVERGE_PHONE_H
#define QIM_TESTS_CONVERGE_PHONE_H

#include "topic.h"

struct phone {
	const struct topic *topic;
	size_t user;
	const char *name;
	bool known; /* it has been given a batch */
	bool unsure; /* whether its last acknowledgement was taken */
	uint64_t from, to; /* of the batch it has stored last */
	uint64_t acked; /* up to here, surely */
	uint64_t tried; /* or to here */
	uint64_t most; /* it has seen all up to here, or was told */
	uint64_t excused; /* up to here it was told of a loss */
	bool mixed; /* operations within each other: where it is isn't known */
	uint64_t operations; /* begun, with those within others */
	bool seen[TOPIC_COUNT]; /* by offset */
};

void phone_init(struct phone *phone, const char *name);
void phone_use(struct phone *phone);

/* Takes all that is left, and looks whether it has seen everything. */
void phone_finish(struct phone *phone);

#endif
