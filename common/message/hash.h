/*
 * hash - who a dispatch is, what it says, and where a recipient belongs.
 *
 * These values are compared with those of earlier runs and of other
 * programs, so they can never change (docs/adr/0003-identity-and-digest.md).
 * Ids are hashed as msgpack str, integers in their shortest form; hashes are
 * XXH3-128 as 16 bytes, the most significant first.
 */
#ifndef QIM_MESSAGE_HASH_H
#define QIM_MESSAGE_HASH_H

#include "message/outbox.h"

/* Digest of [message_id, sender, created_at, payload, {other fields}].
 * `scratch` is emptied and filled; -1 EX_OSERR. */
int hash_payload_digest(const struct outbox_message *message,
    struct buf *scratch, uint8_t digest[HASH_BYTES], struct err *err);

/* Id of [conversation_id, conversation_seq, partition, chunk]; chunk from 1.
 * -1 EX_OSERR. */
int hash_dispatch_id(struct slice conversation, uint64_t conversation_seq,
    uint32_t partition, uint32_t chunk, struct buf *scratch,
    uint8_t id[HASH_BYTES], struct err *err);

/* XXH3-128 of any bytes. */
void hash_bytes(struct slice bytes, uint8_t hash[HASH_BYTES]);

/* murmur2 as Kafka's default partitioner computes it, sign bit cleared. */
uint32_t hash_murmur2(struct slice key);

/* The partition of `count` that Kafka's default partitioner gives a key. */
uint32_t hash_partition(struct slice key, uint32_t count);

#endif
