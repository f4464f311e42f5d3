/*
 * Identity: golden values that may never change, and Kafka's partitioner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>

#include "message/hash.h"

static struct buf scratch;

static void
expect_hash(const uint8_t hash[HASH_BYTES], const char *want)
{
	char text[2 * HASH_BYTES + 1];

	for (size_t i = 0; i < HASH_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	assert_string_equal(text, want);
}

static void
expect_id(struct slice conversation, uint64_t seq, uint32_t partition,
    uint32_t chunk, const char *want)
{
	uint8_t id[HASH_BYTES];
	struct err err;

	assert_int_equal(hash_dispatch_id(conversation, seq, partition, chunk,
			     &scratch, id, &err),
	    0);
	expect_hash(id, want);
}

/* Computed with other tools: python3-msgpack and xxhsum -H2. */
static void
dispatch_ids_never_change(void **state)
{
	static uint8_t longest[255];

	(void)state;
	memset(longest, 'z', sizeof(longest));
	expect_id(slice_of("c1"), 1, 14, 1, "10032c1732236d4456961e3b665ab952");
	expect_id(slice_of("c1"), 1, 14, 2, "50de8fe7bb50e77f1cc13d7f01f79b4a");
	expect_id(slice_of("c1"), 1, 50, 1, "9d2a1251bff37f37b7303d8d7bdb98e6");
	expect_id(slice_of("c1"), 2, 14, 1, "97f183623f510f7a83ae45aa2782b481");
	expect_id((struct slice){(const uint8_t *)"\0\xff", 2}, 1, 0, 1,
	    "4fcfd78f9f762c6a6165a7ec434ca530");
	expect_id((struct slice){longest, sizeof(longest)}, SEQ_MAX, 99999,
	    1000000, "92545072a8aed0fa80d0e3309e7741dc");
}

static struct outbox_message
message_of(const char *payload, size_t payload_bytes)
{
	struct outbox_message message = {
	    .created_at_ms = 1700000000000,
	    .payload = {(const uint8_t *)payload, payload_bytes},
	};

	message.message.bytes = slice_of("m1");
	message.sender.bytes = slice_of("ann");
	return message;
}

static void
expect_digest(const struct outbox_message *message, const char *want)
{
	uint8_t digest[HASH_BYTES];
	struct err err;

	assert_int_equal(
	    hash_payload_digest(message, &scratch, digest, &err), 0);
	expect_hash(digest, want);
}

static void
digests_never_change(void **state)
{
	struct outbox_message message = message_of("\xa5hello", 6);

	(void)state;
	expect_digest(&message, "6564cd36d6e8707346f117d6b1084f8a");
	message.others = (struct slice){(const uint8_t *)"\xa1"
							 "a\x01\xa1"
							 "b\xc0",
	    6};
	message.other_count = 2;
	expect_digest(&message, "26773df605650c017d9cdc85fd5144cc");
	message = message_of("\xc0", 1);
	expect_digest(&message, "dc7788d8d5d8ede0106216a4b0952122");
	message.message.is_bin = message.sender.is_bin = true;
	expect_digest(&message, "dc7788d8d5d8ede0106216a4b0952122");
	/* What says who gets it, and where it stands, isn't what it says. */
	message.conversation.bytes = slice_of("c");
	message.conversation_seq = 9;
	message.recipient_count = 7;
	expect_digest(&message, "dc7788d8d5d8ede0106216a4b0952122");
}

/* The vectors of Kafka's own UtilsTest, without the sign bit. */
static void
murmur2_is_kafkas(void **state)
{
	static const struct {
		const char *key;
		int32_t hash;
	} cases[] = {
	    {"21", -973932308},
	    {"foobar", -790332482},
	    {"a-little-bit-long-string", -985981536},
	    {"a-little-bit-longer-string", -1486304829},
	    {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
	    {"abc", 479470107},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hash_murmur2(slice_of(cases[i].key)),
		    (uint32_t)cases[i].hash & 0x7fffffff);
}

static void
partitions_are_those_of_librdkafka(void **state)
{
	static const uint32_t counts[] = {1, 2, 3, 64, 1000, 100000};
	uint8_t key[64];

	(void)state;
	srand(7);
	for (int i = 0; i < 20000; i++) {
		size_t bytes = 1 + (size_t)rand() % sizeof(key);
		uint32_t count = counts[i % 6];

		for (size_t k = 0; k < bytes; k++)
			key[k] = (uint8_t)rand();
		assert_int_equal(
		    hash_partition((struct slice){key, bytes}, count),
		    rd_kafka_msg_partitioner_murmur2(
			NULL, key, bytes, (int32_t)count, NULL, NULL));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(dispatch_ids_never_change),
	    cmocka_unit_test(digests_never_change),
	    cmocka_unit_test(murmur2_is_kafkas),
	    cmocka_unit_test(partitions_are_those_of_librdkafka),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	buf_release(&scratch);
	return failed;
}
