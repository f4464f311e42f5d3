#define XXH_STATIC_LINKING_ONLY

#include "message/hash.h"

#include <xxhash.h>

#include "stream/pack.h"

void
hash_bytes(struct slice bytes, uint8_t hash[HASH_BYTES])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(
	    &canonical, XXH3_128bits(bytes.data, bytes.bytes));
	memcpy(hash, canonical.digest, HASH_BYTES);
}

static int
finish(const struct buf *scratch, uint8_t *hash, struct err *err)
{
	if (scratch->failed)
		return err_memory(err, "hash");
	hash_bytes(slice_of_buf(scratch), hash);
	return 0;
}

int
hash_payload_digest(const struct outbox_message *message, struct buf *scratch,
    uint8_t digest[HASH_BYTES], struct err *err)
{
	buf_reset(scratch);
	pack_array(scratch, 5);
	pack_str(scratch, message->message.bytes);
	pack_str(scratch, message->sender.bytes);
	pack_u64(scratch, message->created_at_ms);
	pack_raw(scratch, message->payload);
	pack_map(scratch, message->other_count);
	pack_raw(scratch, message->others);
	return finish(scratch, digest, err);
}

int
hash_dispatch_id(struct slice conversation, uint64_t conversation_seq,
    uint32_t partition, uint32_t chunk, struct buf *scratch,
    uint8_t id[HASH_BYTES], struct err *err)
{
	buf_reset(scratch);
	pack_array(scratch, 4);
	pack_str(scratch, conversation);
	pack_u64(scratch, conversation_seq);
	pack_u64(scratch, partition);
	pack_u64(scratch, chunk);
	return finish(scratch, id, err);
}

static uint32_t
read_little_endian(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	    (uint32_t)at[3] << 24;
}

uint32_t
hash_murmur2(struct slice key)
{
	const uint32_t seed = 0x9747b28c, m = 0x5bd1e995;
	const uint8_t *at = key.data;
	size_t left = key.bytes;
	uint32_t hash = seed ^ (uint32_t)left, word;

	for (; left >= 4; at += 4, left -= 4) {
		word = read_little_endian(at) * m;
		word = (word ^ word >> 24) * m;
		hash = (hash * m) ^ word;
	}
	if (left >= 3)
		hash ^= (uint32_t)at[2] << 16;
	if (left >= 2)
		hash ^= (uint32_t)at[1] << 8;
	if (left >= 1)
		hash = (hash ^ at[0]) * m;
	hash = (hash ^ hash >> 13) * m;
	return (hash ^ hash >> 15) & 0x7fffffff;
}

uint32_t
hash_partition(struct slice key, uint32_t count)
{
	return hash_murmur2(key) % count;
}
