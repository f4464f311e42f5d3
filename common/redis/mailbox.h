/*
 * mailbox - names and forms of the mailbox's keys, members and values.
 *
 * All keys of dispatch partition P begin with "PREFIX:{P}:"; the braces come
 * first, so that nothing in an id can move a key to another slot.  An id is
 * the last part of a key's name and stands there as its bytes; inside members
 * and values it is a msgpack str, whatever it was, so that the same bytes
 * never make two members.  See qim-mailbox(5).
 */
#ifndef QIM_REDIS_MAILBOX_H
#define QIM_REDIS_MAILBOX_H

#include "base/err.h"
#include "message/dispatch.h"
#include "redis/commands.h"
#include "redis/reply.h"

#define MAILBOX_PREFIX_MAX 64
#define MAILBOX_PARTITIONS_MAX 100000

/* Largest offset: its mailbox_seq is exact in a double. */
#define MAILBOX_OFFSET_MAX ((int64_t)SEQ_MAX - 1)

/* Fields of a partition's quarantine; above it they are only counted. */
#define QUARANTINE_COUNT_MAX 10000

/* Bytes of a value that quarantine keeps. */
#define QUARANTINE_VALUE_BYTES 4096

/* What is the same for all keys of a chain. */
struct mailbox {
	const char *prefix; /* without braces */
	const char *topic; /* "" where it isn't known */
	uint32_t partitions; /* of the topic */
	uint32_t nodes; /* length of the list */
	uint32_t connections; /* a writer's, to each node; 0: one */
};

/* A writer's connections to all nodes.  Partition P goes over connection
 * P mod this, which is one to node P mod nodes. */
static inline uint32_t
mailbox_shares(const struct mailbox *mailbox)
{
	return mailbox->connections > 1 ? mailbox->nodes * mailbox->connections
					: mailbox->nodes;
}

/* "PREFIX:{P}:" */
struct stem {
	char text[MAILBOX_PREFIX_MAX + 16];
	size_t bytes;
};

/* -1 EX_USAGE: too long, or with a brace or a byte outside plain ASCII. */
int mailbox_check_prefix(const char *prefix, struct err *err);

/* An id as an option's value (NULL: not given); -1 EX_USAGE. */
int mailbox_check_id(const char *option, const char *id, struct err *err);

void stem_init(struct stem *stem, const char *prefix, uint32_t partition);

/* Appends the key STEM KIND ID as an argument; `kind` is "box:", "mark", ….
 * `id` is nil where the kind has none. */
void mailbox_key(struct commands *commands, const struct stem *stem,
    const char *kind, struct slice id);

/* The partition of a user's mailbox. */
uint32_t mailbox_partition(struct slice user, uint32_t partitions);

/* The one member of `mark`: it says whose mark it is, so that another topic,
 * partition count, list of nodes or place in it is noticed. */
#define MARK_TEXT_BYTES 320
void mark_text(
    const struct mailbox *mailbox, uint32_t place, char text[MARK_TEXT_BYTES]);

/* Appends the command whose reply mark_take() takes. */
void mark_ask(struct commands *commands, const struct stem *stem);

/* The mark of a partition that lives at `place`; 0 where there is none.  Any
 * topic's fits where the topic isn't known.  -1: EX_DATAERR not a mark,
 * EX_CONFIG that of another topic, partition count, list length or place. */
int mark_take(const struct reply *reply, const struct stem *stem,
    const struct mailbox *mailbox, uint32_t place, uint64_t *mark,
    struct err *err);

/* The log's field of a dispatch: "SEQ", or "SEQ/CHUNK" from chunk 2 on. */
#define FIELD_TEXT_BYTES 40
void log_field(uint64_t seq, uint32_t chunk, char text[FIELD_TEXT_BYTES]);

/* Appends the claim of a dispatch that stands at `offset`, as an argument:
 * [offset, digest, message_id, sender, created_at, payload, {others}], and
 * only [offset, digest] from chunk 2 on. */
void log_value(struct commands *commands, const struct dispatch *dispatch,
    int64_t offset, struct buf *scratch);

/* A claim as it was read. */
struct claim {
	int64_t offset;
	struct slice digest; /* HASH_BYTES */
	bool has_body; /* what follows is set */
	struct slice message, sender;
	uint64_t created_at_ms;
	struct slice payload; /* raw msgpack */
};

/* Slices point into `value`; -1 EX_DATAERR. */
int claim_decode(struct slice value, struct claim *claim, struct err *err);

/* A member of a box: [conversation, seq], in the sender's own box
 * [conversation, seq, true]. */
void reference_pack(
    struct buf *buf, struct slice conversation, uint64_t seq, bool own);

struct reference {
	struct slice conversation;
	uint64_t seq;
	bool own;
};

/* -1 EX_DATAERR. */
int reference_decode(
    struct slice member, struct reference *reference, struct err *err);

/* Appends the command that puts a copy into quarantine: id and digest name
 * it; `counted` false only counts it as dropped. */
void quarantine_add(struct commands *commands, const struct stem *stem,
    const uint8_t *id, const uint8_t *digest, int64_t offset,
    const char *reason, struct slice value, bool counted);

#endif
