/*
 * outbox - a message of the Outbox, as a record's value has it.
 *
 * The value is a map in msgpack or JSON, told apart by its first byte:
 * message_id, conversation_id, sender (ids), conversation_seq, created_at,
 * payload (anything), recipients (an array of ids), in any order, each once.
 * Other fields are kept, sorted by name; they may not have a name of the
 * dispatch's own (v, id, digest, chunk, to).
 *
 * A message that names `members`, a frozen membership snapshot, in the place
 * of recipients is refused: this version can't read snapshots.
 */
#ifndef QIM_MESSAGE_OUTBOX_H
#define QIM_MESSAGE_OUTBOX_H

#include "message/dispatch.h"
#include "message/json.h"

#define OUTBOX_RECIPIENTS_MAX 1000000

/* One message; its slices point into the value or into the outbox's memory,
 * until the next outbox_decode() with the same outbox. */
struct outbox_message {
	struct ident conversation;
	uint64_t conversation_seq; /* 1 to SEQ_MAX */
	struct ident message;
	struct ident sender;
	uint64_t created_at_ms; /* 0 to SEQ_MAX */
	struct slice payload; /* raw msgpack */
	struct slice others; /* raw pairs, sorted by name, each once */
	uint32_t other_count;
	const struct ident *recipients; /* sorted by bytes, each once */
	uint32_t recipient_count; /* 1 to OUTBOX_RECIPIENTS_MAX */
};

/* A pair of a field that isn't the message's own. */
struct outbox_pair {
	struct slice name;
	struct slice value; /* raw msgpack */
};

/* Memory that is reused from one message to the next. */
struct outbox {
	struct json json;
	struct buf converted; /* the value, where it came as JSON */
	struct outbox_pair *pairs;
	uint32_t pair_count, pair_room;
	struct buf others;
	struct ident *recipients;
	uint32_t recipient_room;
};

void outbox_init(struct outbox *outbox);
void outbox_release(struct outbox *outbox);

/*
 * Decodes and checks a value, all but the sizes that planning limits.  A
 * writer calls it for each line before it produces it.
 * -1: EX_DATAERR names the field and what it wants, EX_OSERR.
 */
int outbox_decode(struct outbox *outbox, struct slice value,
    struct outbox_message *message, struct err *err);

/* Packs a message as a value: its fields in the order above, then the other
 * ones; equal messages give equal bytes, whether they came as JSON or not. */
void outbox_pack(struct buf *buf, const struct outbox_message *message);

#endif
