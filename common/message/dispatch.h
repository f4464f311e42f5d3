/*
 * dispatch - the value of a dispatch record: one message for the recipients
 * of one dispatch partition, or for a chunk of them.
 *
 * A msgpack map in fixed order (qim-stream(5)): v, id, digest,
 * conversation_id, conversation_seq, message_id, sender, created_at,
 * chunk [k, n], to, payload, then the message's other fields by name.
 * Slices point into the value; nothing is copied or allocated.
 */
#ifndef QIM_MESSAGE_DISPATCH_H
#define QIM_MESSAGE_DISPATCH_H

#include "base/buf.h"
#include "base/err.h"
#include "stream/cursor.h"

/* Ids are compared as bytes, whether they came as str or as bin. */
struct ident {
	struct slice bytes; /* IDENT_BYTES_MIN to _MAX */
	bool is_bin; /* how it is written */
};

#define IDENT_BYTES_MIN 1
#define IDENT_BYTES_MAX 255

/* conversation_seq is 1 to here, created_at 0 to here: exact in a double. */
#define SEQ_MAX (((uint64_t)1 << 53) - 1)

#define DISPATCH_VERSION 1
#define HASH_BYTES 16

struct dispatch {
	uint8_t id[HASH_BYTES]; /* of [conversation, seq, partition, chunk] */
	uint8_t digest[HASH_BYTES]; /* of what the message says */
	struct ident conversation;
	uint64_t conversation_seq;
	struct ident message;
	struct ident sender;
	uint64_t created_at_ms;
	uint32_t chunk, chunk_count; /* chunk from 1 to chunk_count */
	struct cursor to; /* at the next recipient */
	uint32_t to_count; /* recipients not yet taken */
	struct slice payload; /* raw msgpack */
	struct slice others; /* raw pairs, sorted by name */
	uint32_t other_count;
};

/* Walks and decodes a value, whose keys may stand in any order, the other
 * fields together and sorted; -1 EX_DATAERR says what isn't as it should be. */
int dispatch_decode(
    struct slice value, struct dispatch *dispatch, struct err *err);

/* Takes the next recipient: 1, 0 no more.  dispatch_decode() has checked
 * them all, so that it can't fail. */
int dispatch_next_recipient(struct dispatch *dispatch, struct ident *user);

/* Packs a value; `to` is `to_count` packed ids, from dispatch->to's `at`
 * to its `end`. */
void dispatch_pack(struct buf *buf, const struct dispatch *dispatch);

/* The same in three pieces, for who packs one message many times: the front
 * up to created_at, of which only the id differs from dispatch to dispatch
 * (returns where it stands from the start of the front); chunk and to; the
 * back from payload on. */
size_t dispatch_pack_front(struct buf *buf, const struct dispatch *dispatch);
void dispatch_pack_recipients(struct buf *buf, const struct dispatch *dispatch);
void dispatch_pack_back(struct buf *buf, const struct dispatch *dispatch);

/* Reads an id (str or bin of 1 to 255 bytes), else marks the cursor bad. */
struct ident ident_read(struct cursor *cursor);
void ident_pack(struct buf *buf, struct ident ident);

/* Reads a number from `least` to SEQ_MAX, else marks the cursor bad. */
uint64_t number_read(struct cursor *cursor, uint64_t least);

#endif
