/*
 * refs - references of a box in memory, by conversation and seq.
 *
 * For what the box's own order, that of arrival, doesn't answer: it costs the
 * length of the box, however far apart the seqs are.
 */
#ifndef QIM_REDIS_REFS_H
#define QIM_REDIS_REFS_H

#include "redis/mailbox.h"

struct ref {
	struct reference reference; /* its conversation: good once sorted */
	size_t conversation_at; /* in the ids */
	uint64_t mailbox_seq;
};

/* Zeros are an empty one. */
struct refs {
	struct ref *all;
	size_t count, room;
	struct buf ids;
};

/* Copies a reference; -1 EX_OSERR. */
int refs_add(struct refs *refs, const struct reference *reference,
    uint64_t mailbox_seq, struct err *err);

/* Sorts by conversation and seq, of which one is kept, rather one that isn't
 * the sender's own; nothing may be added afterwards. */
void refs_sort(struct refs *refs);

/* Index of the first one that isn't before `seq` of the conversation; of
 * another conversation, or refs->count, where there is none. */
size_t refs_find(
    const struct refs *refs, struct slice conversation, uint64_t seq);

void refs_release(struct refs *refs);

#endif
