#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "message/hash.h"
#include "world.h"

#define USERS 30
#define COPIES (MESSAGES * PARTITIONS * 4)

struct change change;
struct ledger ledger;
struct ledger_outbox planner;
struct buf messages[MESSAGES];
struct copy copies[COPIES];
size_t copy_count;
enum ledger_kind last_kind;

static struct outbox decoder;
static struct plan plan;
static int64_t ends[PARTITIONS];
static struct err err;

int
note(const struct finding *finding, struct err *ignored)
{
	(void)ignored;
	assert_non_null(finding->why);
	last_kind = finding->kind;
	return 0;
}

static void
pack_message(struct buf *buf, unsigned number)
{
	char text[32];
	struct outbox_message message = {
	    .conversation_seq = number / 4 + 1, .created_at_ms = 1000 + number};
	static struct ident to[USERS];
	static char names[USERS][16];

	snprintf(text, sizeof(text), "c%u", number % 4);
	message.conversation.bytes = slice_of(text);
	message.message.bytes = slice_of("m");
	for (unsigned i = 0; i < USERS; i++) {
		snprintf(names[i], sizeof(names[i]), "u%02u", i);
		to[i].bytes = slice_of(names[i]);
	}
	message.sender = to[number % USERS];
	message.payload = slice_of("\xc0");
	message.recipients = to + number % 7;
	message.recipient_count = number % 11 + 1;
	buf_init(buf);
	outbox_pack(buf, &message);
}

static void
add_copy(uint32_t partition, const struct buf *value, int64_t first)
{
	struct copy *copy = &copies[copy_count++];

	assert_true(copy_count <= COPIES);
	*copy = (struct copy){.partition = partition,
	    .offset = ends[partition]++,
	    .is_repeat = first >= 0,
	    .first = first};
	if (first < 0)
		copy->first = copy->offset;
	buf_init(&copy->value);
	buf_append(&copy->value, value->data, value->bytes);
}

/* Plans a message, and puts each dispatch into the topic. */
static void
dispatch_number(unsigned number)
{
	struct outbox_message message;
	struct buf value;
	uint32_t partition;

	buf_init(&value);
	assert_int_equal(outbox_decode(&decoder,
			     slice_of_buf(&messages[number]), &message, &err),
	    0);
	assert_int_equal(plan_message(&plan, &message, 0, &err), 0);
	while (plan_next(&plan, &partition, &value, &err) == 1) {
		add_copy(partition, &value, -1);
		buf_reset(&value);
	}
	buf_release(&value);
}

int
world_start(void **state)
{
	size_t count;

	(void)state;
	outbox_init(&decoder);
	assert_int_equal(plan_init(&plan, PARTITIONS, 2, 1000000, &err), 0);
	assert_int_equal(
	    ledger_outbox_init(&planner, PARTITIONS, 2, 1000000, &err), 0);
	for (unsigned i = 0; i < MESSAGES; i++) {
		pack_message(&messages[i], i);
		dispatch_number(i);
	}
	/* Every third once more. */
	count = copy_count;
	for (size_t i = 0; i < count; i += 3)
		add_copy(
		    copies[i].partition, &copies[i].value, copies[i].first);
	return 0;
}

int
world_stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < copy_count; i++)
		buf_release(&copies[i].value);
	for (size_t i = 0; i < MESSAGES; i++)
		buf_release(&messages[i]);
	outbox_release(&decoder);
	plan_release(&plan);
	ledger_outbox_release(&planner);
	return 0;
}

uint64_t
mark_of(uint32_t partition)
{
	return change.mark < (uint64_t)ends[partition]
	    ? change.mark
	    : (uint64_t)ends[partition];
}

static void
tell_entries(const struct copy *copy, struct dispatch *message, int *number)
{
	struct ident user;

	while (dispatch_next_recipient(message, &user) == 1) {
		bool own = slice_equal(user.bytes, message->sender.bytes);
		uint64_t seq = (uint64_t)copy->offset + 1;
		int n = (*number)++;

		if (n != change.skip_entry && !change.trimmed)
			assert_int_equal(
			    ledger_entry(&ledger, copy->partition, user.bytes,
				message->conversation.bytes,
				message->conversation_seq,
				own != (n == change.own_entry),
				seq + (n == change.move_entry), &err),
			    0);
		if (n == change.extra_entry)
			assert_int_equal(
			    ledger_entry(&ledger, copy->partition, user.bytes,
				message->conversation.bytes, 999, own, seq,
				&err),
			    0);
		if (n != change.skip_conv)
			assert_int_equal(ledger_conv(&ledger, user.bytes,
					     message->conversation.bytes,
					     message->created_at_ms, &err),
			    0);
		if (change.trimmed)
			assert_int_equal(
			    ledger_floor(&ledger, user.bytes, SEQ_MAX, &err),
			    0);
	}
}

void
tell_mailboxes(void)
{
	struct dispatch message;
	int number = 0;

	for (size_t i = 0; i < copy_count; i++) {
		const struct copy *copy = &copies[i];
		uint8_t digest[HASH_BYTES];

		if (copy->is_repeat ||
		    (uint64_t)copy->offset >= mark_of(copy->partition))
			continue;
		assert_int_equal(
		    dispatch_decode(slice_of_buf(&copy->value), &message, &err),
		    0);
		memcpy(digest, message.digest, HASH_BYTES);
		digest[0] ^= (int)i == change.other_digest;
		if ((int)i != change.skip_claim)
			assert_int_equal(
			    ledger_claim(&ledger, copy->partition,
				message.conversation.bytes,
				message.conversation_seq, message.chunk,
				copy->offset, digest, true, &err),
			    0);
		assert_int_equal(ledger_top(&ledger, copy->partition,
				     message.conversation.bytes,
				     message.conversation_seq +
					 ((int)i == change.late_top ? 999 : 0),
				     &err),
		    0);
		tell_entries(copy, &message, &number);
	}
}

void
tell_message(unsigned number)
{
	struct ledger_source source = {0, number, !change.undue};
	struct record record = {.value = slice_of_buf(&messages[number])};

	assert_int_equal(
	    ledger_outbox_take(&planner, &ledger, &record, &source, &err), 0);
}

uint64_t
tell(int times)
{
	uint64_t all = 0;

	assert_int_equal(ledger_init(&ledger, PARTITIONS, SEED, note, &err), 0);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		ledger.parts[p].mark = mark_of(p);
		ledger.parts[p].old = change.old ? UINT64_MAX : 0;
	}
	for (int i = 0; i < times; i++)
		tell_mailboxes();
	for (uint32_t p = 0; p < PARTITIONS; p++)
		ledger.parts[p].low = change.low;
	for (size_t i = 0; i < copy_count; i++)
		if (copies[i].offset >= change.low &&
		    (int)i != change.skip_copy)
			assert_int_equal(
			    ledger_copy(&ledger, copies[i].partition,
				copies[i].offset,
				slice_of_buf(&copies[i].value), &err),
			    0);
	ledger.has_outbox = ledger.is_whole = true;
	for (unsigned i = 0; i < MESSAGES; i++)
		if ((int)i != change.skip_plan)
			tell_message(i);
	assert_int_equal(ledger_end(&ledger, &err), 0);
	for (int i = 0; i < LEDGER_KINDS; i++)
		all += ledger.kinds[i];
	return all;
}

struct change
no_change(void)
{
	return (struct change){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, false,
	    false, 0, UINT64_MAX, false};
}
