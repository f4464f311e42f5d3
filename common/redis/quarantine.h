/*
 * quarantine - reading what mailbox-apply put aside; mailbox.h has the form.
 */
#ifndef QIM_REDIS_QUARANTINE_H
#define QIM_REDIS_QUARANTINE_H

#include "redis/client.h"
#include "redis/mailbox.h"

/* A partition's. */
struct quarantine {
	uint32_t partition;
	uint64_t copies; /* that are kept */
	uint64_t dropped; /* seen when no more were kept */
};

struct quarantined {
	uint32_t partition;
	struct slice id, digest; /* HASH_BYTES each */
	int64_t offset;
	struct slice reason;
	struct slice value; /* its first QUARANTINE_VALUE_BYTES */
};

/* Called for each in order; what it is given is good until it returns. */
typedef int quarantine_begin(
    const struct quarantine *quarantine, struct err *err);
typedef int quarantine_show(const struct quarantined *copy, struct err *err);

/* All copies of a partition, by offset; nothing where none was put aside.
 * -1: as client_call(), EX_DATAERR, what the callers return. */
int quarantine_read(struct client *client, const struct stem *stem,
    uint32_t partition, quarantine_begin *begin, quarantine_show *show,
    struct err *err);

#endif
