/*
 * The forms of the mailbox (mailbox.h), of commands and replies, and the list
 * of nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "redis/mailbox.h"
#include "redis/nodes.h"
#include "redis/refs.h"
#include "redis/reply.h"
#include "redis/work.h"

static struct slice
bytes_of(const char *text, size_t bytes)
{
	return (struct slice){(const uint8_t *)text, bytes};
}

#define BYTES(text) bytes_of(text, sizeof(text) - 1)

static void
assert_slice(struct slice found, struct slice wanted)
{
	assert_int_equal(found.bytes, wanted.bytes);
	assert_memory_equal(found.data, wanted.data, wanted.bytes);
}

static void
test_commands(void **unused)
{
	struct commands commands = {0};

	(void)unused;
	commands_add(&commands, "PING", (char *)NULL);
	commands_begin(&commands, 4, "SET");
	commands_slice(&commands, BYTES("a\r\n\0b"));
	commands_u64(&commands, UINT64_MAX);
	commands_u64(&commands, 0);
	assert_slice(slice_of_buf(&commands.bytes),
	    BYTES("*1\r\n$4\r\nPING\r\n*4\r\n$3\r\nSET\r\n$5\r\na\r\n\0b\r\n"
		  "$20\r\n18446744073709551615\r\n$1\r\n0\r\n"));
	assert_int_equal(commands.count, 2);
	assert_slice(commands_argument(&commands, 0, 0), BYTES("PING"));
	assert_slice(commands_argument(&commands, 1, 1), BYTES("a\r\n\0b"));
	assert_slice(commands_argument(&commands, 1, 3), BYTES("0"));
	assert_null(commands_argument(&commands, 1, 4).data);
	assert_null(commands_argument(&commands, 2, 0).data);
	commands_release(&commands);
}

static void
test_keys(void **unused)
{
	struct commands commands = {0};
	struct stem stem;

	(void)unused;
	stem_init(&stem, "qim", 63);
	commands_begin(&commands, 2, "GET");
	mailbox_key(&commands, &stem, "box:", BYTES("{a}:\0"));
	assert_slice(
	    commands_argument(&commands, 0, 1), BYTES("qim:{63}:box:{a}:\0"));
	commands_release(&commands);
}

static void
test_mark_text(void **unused)
{
	const struct mailbox mailbox = {"qim", "dispatch", 64, 3};
	char text[MARK_TEXT_BYTES];

	(void)unused;
	mark_text(&mailbox, 2, text);
	assert_string_equal(text, "dispatch partitions=64 nodes=3 place=2");
}

static void
test_marks(void **unused)
{
	const struct mailbox mailbox = {"qim", "t", 4, 1},
			     any = {"qim", "", 4, 1};
	struct reply items[] = {
	    {.type = REPLY_TEXT,
		.text = slice_of("t partitions=4 nodes=1 place=0")},
	    {.type = REPLY_TEXT, .text = slice_of("7")},
	    {.type = REPLY_TEXT, .text = slice_of("other")},
	    {.type = REPLY_TEXT, .text = slice_of("8")}};
	struct reply reply = {.type = REPLY_ARRAY, .items = items};
	struct stem stem;
	uint64_t mark;
	struct err err;

	(void)unused;
	stem_init(&stem, "qim", 3);
	assert_int_equal(mark_take(&reply, &stem, &mailbox, 0, &mark, &err), 0);
	assert_int_equal(mark, 0);
	reply.count = 2;
	assert_int_equal(mark_take(&reply, &stem, &mailbox, 0, &mark, &err), 0);
	assert_int_equal(mark, 7);
	assert_int_equal(mark_take(&reply, &stem, &any, 0, &mark, &err), 0);
	assert_int_equal(mark_take(&reply, &stem, &any, 1, &mark, &err), -1);
	assert_int_equal(err.code, EX_CONFIG);
	reply.count = 4;
	assert_int_equal(
	    mark_take(&reply, &stem, &mailbox, 0, &mark, &err), -1);
	assert_int_equal(err.code, EX_CONFIG);
	/* What no Redis says: a member without its score. */
	reply.count = 1;
	assert_int_equal(
	    mark_take(&reply, &stem, &mailbox, 0, &mark, &err), -1);
	assert_int_equal(err.code, EX_DATAERR);
}

static void
test_fields(void **unused)
{
	char text[FIELD_TEXT_BYTES];

	(void)unused;
	log_field(7, 1, text);
	assert_string_equal(text, "7");
	log_field(SEQ_MAX, UINT32_MAX, text);
	assert_string_equal(text, "9007199254740991/4294967295");
}

static void
test_claims(void **unused)
{
	struct dispatch dispatch = {.chunk = 1,
	    .message.bytes = slice_of("m"),
	    .sender.bytes = slice_of("s"),
	    .sender.is_bin = true,
	    .created_at_ms = 5,
	    .payload = BYTES("\x81\xa1x\x01"),
	    .others = BYTES("\xa1y\xc0"),
	    .other_count = 1,
	    .digest = "dddddddddddddddd"};
	struct commands commands = {0};
	struct buf scratch;
	struct claim claim;
	struct err err;
	struct slice value;

	(void)unused;
	buf_init(&scratch);
	commands_begin(&commands, 2, "X");
	log_value(&commands, &dispatch, 300, &scratch);
	value = commands_argument(&commands, 0, 1);
	assert_slice(value,
	    BYTES("\x97\xcd\x01\x2c\xc4\x10"
		  "dddddddddddddddd\xa1m\xa1s\x05\x81\xa1x\x01\x81\xa1y\xc0"));
	assert_int_equal(claim_decode(value, &claim, &err), 0);
	assert_int_equal(claim.offset, 300);
	assert_true(claim.has_body);
	assert_slice(claim.sender, BYTES("s"));
	assert_slice(claim.payload, BYTES("\x81\xa1x\x01"));
	for (size_t i = 0; i < value.bytes; i++)
		assert_int_equal(
		    claim_decode(
			bytes_of((const char *)value.data, i), &claim, &err),
		    -1);
	commands_reset(&commands);
	dispatch.chunk = 2;
	commands_begin(&commands, 2, "X");
	log_value(&commands, &dispatch, 300, &scratch);
	value = commands_argument(&commands, 0, 1);
	assert_int_equal(claim_decode(value, &claim, &err), 0);
	assert_false(claim.has_body);
	commands_release(&commands);
	buf_release(&scratch);
}

/* [0, digest, {"x": arrays}], a claim as far as its depth goes. */
static int
decode_deep(int arrays)
{
	struct slice head = BYTES("\x93\x00\xc4\x10"
				  "dddddddddddddddd\x81\xa1x");
	struct claim claim;
	struct buf buf;
	struct err err;
	int result;

	buf_init(&buf);
	buf_append(&buf, head.data, head.bytes);
	while (arrays-- > 0)
		buf_append(&buf, "\x91", 1);
	buf_append(&buf, "\x01", 1);
	result = claim_decode(slice_of_buf(&buf), &claim, &err);
	buf_release(&buf);
	return result;
}

static void
test_deep_claims(void **unused)
{
	(void)unused;
	assert_int_equal(decode_deep(31), 0);
	assert_int_equal(decode_deep(32), -1);
}

/* A batch of two ranges of partition 0, with a record of each. */
static int
init_work(uint32_t first_src, int64_t due[1], struct err *err)
{
	const struct mailbox mailbox = {"qim", "topic", 1, 1};
	struct range ranges[] = {
	    {slice_of("topic"), 0, 0, 5}, {slice_of("topic"), 0, 5, 9}};
	struct batch batch = {
	    .head.src = ranges, .head.src_count = 2, .rec_count = 2};
	struct work work;
	struct buf buf;
	int result;

	buf_init(&buf);
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t src = first_src ^ i;
		struct record record = {.src = src, .offset = 4 + src};

		record_pack(&buf, &record);
	}
	batch.rec = cursor_of(slice_of_buf(&buf));
	result = work_init(&work, &batch, &mailbox, due, err);
	if (result == 0)
		work_release(&work);
	buf_release(&buf);
	return result;
}

static void
test_order_of_offsets(void **unused)
{
	int64_t due[1] = {0};
	struct err err;

	(void)unused;
	assert_int_equal(init_work(0, due, &err), 0);
	assert_int_equal(due[0], 6);
	due[0] = 0;
	assert_int_equal(init_work(1, due, &err), -1);
	assert_int_equal(err.code, EX_DATAERR);
	assert_string_equal(err.text, "input: batch 0: offset 4 after 5");
}

static void
test_references(void **unused)
{
	struct reference reference;
	struct buf buf;
	struct err err;

	(void)unused;
	buf_init(&buf);
	reference_pack(&buf, BYTES("c\0"), 9, false);
	assert_slice(slice_of_buf(&buf),
	    BYTES("\x92\xa2"
		  "c\0\x09"));
	assert_int_equal(
	    reference_decode(slice_of_buf(&buf), &reference, &err), 0);
	assert_false(reference.own);
	buf_reset(&buf);
	reference_pack(&buf, BYTES("c"), 9, true);
	assert_slice(slice_of_buf(&buf),
	    BYTES("\x93\xa1"
		  "c\x09\xc3"));
	assert_int_equal(
	    reference_decode(slice_of_buf(&buf), &reference, &err), 0);
	assert_true(reference.own);
	assert_slice(reference.conversation, BYTES("c"));
	assert_int_equal(reference.seq, 9);
	assert_int_equal(reference_decode(BYTES("\x91\xa1"
						"c"),
			     &reference, &err),
	    -1);
	assert_int_equal(reference_decode(BYTES("\x94\xa1"
						"c\x09\xc3\xc3"),
			     &reference, &err),
	    -1);
	assert_int_equal(reference_decode(BYTES(""), &reference, &err), -1);
	buf_release(&buf);
}

static void
test_faults(void **unused)
{
	static const struct {
		const char *text;
		int code;
	} faults[] = {
	    {"LOADING Redis is loading the dataset in memory", EX_TEMPFAIL},
	    {"BUSY Redis is busy running a script.", EX_TEMPFAIL},
	    {"OOM command not allowed when used memory > 'maxmemory'.",
		EX_TEMPFAIL},
	    {"MISCONF Redis is configured to save", EX_TEMPFAIL},
	    {"TRYAGAIN Multiple keys request during rehashing", EX_TEMPFAIL},
	    {"CLUSTERDOWN The cluster is down", EX_TEMPFAIL},
	    {"NOREPLICAS Not enough good replicas to write.", EX_TEMPFAIL},
	    {"MASTERDOWN Link with MASTER is down", EX_TEMPFAIL},
	    {"READONLY You can't write against a read only replica.",
		EX_TEMPFAIL},
	    {"ERR max number of clients reached", EX_TEMPFAIL},
	    {"ERR WAIT cannot be used with replica instances", EX_TEMPFAIL},
	    {"UNBLOCKED force unblock from blocking operation", EX_TEMPFAIL},
	    {"EXECABORT Transaction discarded because of: OOM command",
		EX_TEMPFAIL},
	    {"EXECABORT Transaction discarded because of: WRONGTYPE",
		EX_DATAERR},
	    {"EXECABORT Transaction discarded because of previous errors.",
		EX_DATAERR},
	    {"NOAUTH Authentication required.", EX_NOPERM},
	    {"WRONGPASS invalid username-password pair", EX_NOPERM},
	    {"NOPERM this user has no permissions", EX_NOPERM},
	    {"DENIED Redis is running in protected mode", EX_NOPERM},
	    {"MOVED 3999 127.0.0.1:6381", EX_CONFIG},
	    {"ASK 3999 127.0.0.1:6381", EX_CONFIG},
	    {"CROSSSLOT Keys in request don't hash to the same slot",
		EX_CONFIG},
	    {"WRONGTYPE Operation against a key", EX_DATAERR},
	    {"ERR unknown command", EX_DATAERR},
	    {"", EX_DATAERR},
	};
	char wanted[256];

	(void)unused;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct reply reply = {
		    .type = REPLY_ERROR, .text = slice_of(faults[i].text)};
		struct err err;

		reply_error(&reply, BYTES("key"), &err);
		assert_int_equal(err.code, faults[i].code);
		snprintf(wanted, sizeof(wanted), "key: %s", faults[i].text);
		assert_string_equal(err.text, wanted);
	}
}

static void
test_numbers(void **unused)
{
	static const char *const bad[] = {"", "-1", "1.5", "1e3", "inf",
	    "9007199254740992", "99999999999999999999"};
	struct reply reply = {.type = REPLY_TEXT};
	uint64_t number;

	(void)unused;
	reply.text = slice_of("9007199254740991");
	assert_true(reply_number(&reply, &number));
	assert_int_equal(number, SEQ_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reply.text = slice_of(bad[i]);
		assert_false(reply_number(&reply, &number));
	}
}

static void
test_nodes(void **unused)
{
	struct nodes nodes;
	struct err err;

	(void)unused;
	assert_int_equal(
	    nodes_parse("a:1,unix:/b,[::1]:65535", &nodes, &err), 0);
	assert_int_equal(nodes.count, 3);
	assert_string_equal(nodes.all[0].host, "a");
	assert_int_equal(nodes.all[0].port, 1);
	assert_string_equal(nodes.all[1].path, "/b");
	assert_string_equal(nodes.all[2].host, "::1");
	assert_int_equal(nodes.all[2].port, 65535);
	assert_string_equal(nodes.all[2].text, "[::1]:65535");
	nodes_release(&nodes);
	assert_int_equal(nodes_parse("[]:1", &nodes, &err), -1);
	assert_int_equal(err.code, EX_USAGE);
}

/* More than the first allocations hold, of two conversations, backwards. */
static void
test_refs(void **unused)
{
	struct refs refs = {0};
	struct reference reference;
	struct err err;

	(void)unused;
	refs_sort(&refs);
	assert_int_equal(refs_find(&refs, BYTES("a"), 1), 0);
	for (uint64_t seq = 1000; seq > 0; seq--) {
		reference = (struct reference){BYTES("b"), 2 * seq, true};
		assert_int_equal(refs_add(&refs, &reference, seq, &err), 0);
		reference.conversation = BYTES("ab");
		assert_int_equal(refs_add(&refs, &reference, seq, &err), 0);
	}
	/* The same as another's: one of the two is kept. */
	reference = (struct reference){BYTES("b"), 10, false};
	assert_int_equal(refs_add(&refs, &reference, 5, &err), 0);
	refs_sort(&refs);
	assert_int_equal(refs.count, 2000);
	assert_int_equal(refs_find(&refs, BYTES("a"), SEQ_MAX), 0);
	assert_int_equal(refs_find(&refs, BYTES("ab"), 2), 0);
	assert_int_equal(refs_find(&refs, BYTES("ab"), 5), 2);
	assert_int_equal(refs_find(&refs, BYTES("b"), 0), 1000);
	assert_int_equal(refs_find(&refs, BYTES("b"), 2000), 1999);
	assert_int_equal(refs_find(&refs, BYTES("b"), SEQ_MAX), 2000);
	assert_slice(refs.all[1004].reference.conversation, BYTES("b"));
	assert_int_equal(refs.all[1004].reference.seq, 10);
	assert_false(refs.all[1004].reference.own);
	assert_true(refs.all[1005].reference.own);
	assert_int_equal(refs.all[1005].mailbox_seq, 6);
	refs_release(&refs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_commands),
	    cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_mark_text),
	    cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_fields),
	    cmocka_unit_test(test_claims),
	    cmocka_unit_test(test_deep_claims),
	    cmocka_unit_test(test_order_of_offsets),
	    cmocka_unit_test(test_references),
	    cmocka_unit_test(test_faults),
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_nodes),
	    cmocka_unit_test(test_refs),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
