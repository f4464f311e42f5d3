/*
 * Outbox messages and dispatch values: decoded, packed, refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "message/outbox.h"
#include "stream/pack.h"

#define TEXT(literal) \
	{ \
		(const uint8_t *)(literal), sizeof(literal) - 1 \
	}

static struct outbox outbox;

#define GOOD \
	"\"message_id\":\"m1\",\"conversation_id\":\"c1\"," \
	"\"conversation_seq\":7,\"sender\":\"ann\",\"created_at\":1700," \
	"\"payload\":{\"text\":\"hi\"}"
#define GOOD_TO ",\"recipients\":[\"bob\",\"ann\",\"bob\"]"

static void
decode(struct slice value, struct outbox_message *message)
{
	struct err err = {0};

	if (outbox_decode(&outbox, value, message, &err) < 0)
		fail_msg("%s", err.text);
}

static void
refuses(struct slice value, const char *want)
{
	struct outbox_message message;
	struct err err = {0};

	if (outbox_decode(&outbox, value, &message, &err) == 0)
		fail_msg("not refused, wanted: %s", want);
	assert_int_equal(err.code, EX_DATAERR);
	assert_string_equal(err.text, want);
}

static void
check_good(const struct outbox_message *message)
{
	assert_true(slice_is(message->message.bytes, "m1"));
	assert_true(slice_is(message->conversation.bytes, "c1"));
	assert_true(slice_is(message->sender.bytes, "ann"));
	assert_int_equal(message->conversation_seq, 7);
	assert_int_equal(message->created_at_ms, 1700);
	assert_int_equal(message->payload.bytes, 9);
	assert_int_equal(message->recipient_count, 2);
	assert_true(slice_is(message->recipients[0].bytes, "ann"));
	assert_true(slice_is(message->recipients[1].bytes, "bob"));
}

static void
json_and_msgpack_are_one_message(void **state)
{
	struct outbox_message message;
	struct buf first, second;

	(void)state;
	buf_init(&first);
	buf_init(&second);
	decode(slice_of(" {" GOOD GOOD_TO ",\"z\":1,\"b\":[2]}"), &message);
	check_good(&message);
	assert_int_equal(message.other_count, 2);
	assert_memory_equal(message.others.data,
	    "\xa1"
	    "b\x91\x02\xa1"
	    "z\x01",
	    7);
	outbox_pack(&first, &message);
	decode(slice_of_buf(&first), &message);
	check_good(&message);
	outbox_pack(&second, &message);
	assert_true(slice_equal(slice_of_buf(&first), slice_of_buf(&second)));
	decode(slice_of("{\"z\":1,\"recipients\":[\"ann\",\"bob\"],"
			"\"b\":[2]," GOOD "}"),
	    &message);
	buf_reset(&second);
	outbox_pack(&second, &message);
	assert_true(slice_equal(slice_of_buf(&first), slice_of_buf(&second)));
	buf_release(&first);
	buf_release(&second);
}

/* A message whose field `name` is packed by `pack`, else as `GOOD`. */
static void
pack_message(struct buf *buf, const char *name, struct slice raw)
{
	static const struct {
		const char *name;
		struct slice raw;
	} fields[] = {
	    {"message_id", TEXT("\xa2m1")},
	    {"conversation_id",
		TEXT("\xa2"
		     "c1")},
	    {"conversation_seq", TEXT("\x07")},
	    {"sender",
		TEXT("\xa3"
		     "ann")},
	    {"created_at", TEXT("\xcd\x06\xa4")},
	    {"payload", TEXT("\x81\xa4text\xa2hi")},
	    {"recipients",
		TEXT("\x93\xa3"
		     "bob\xa3"
		     "ann\xa3"
		     "bob")},
	};

	buf_reset(buf);
	pack_map(buf, 7);
	for (size_t i = 0; i < 7; i++) {
		pack_text(buf, fields[i].name);
		pack_raw(buf,
		    strcmp(fields[i].name, name) == 0 ? raw : fields[i].raw);
	}
}

static void
fields_have_types_and_ranges(void **state)
{
	static uint8_t longest[257] = {0xd9, 255}, longer[259] = {0xc5, 1, 0};
	static const char id[] = "an id of 1 to 255 bytes";
	const struct {
		const char *name;
		struct slice raw;
		const char *wants; /* NULL: taken */
	} cases[] = {
	    {"", TEXT(""), NULL},
	    {"message_id", TEXT("\xa0"), id},
	    {"message_id", TEXT("\x01"), id},
	    {"message_id", TEXT("\xc0"), id},
	    {"message_id", {longest, sizeof(longest)}, NULL},
	    {"message_id", {longer, sizeof(longer)}, id},
	    {"conversation_id", TEXT("\xc4\x02\x00\xff"), NULL},
	    {"conversation_id", TEXT("\xc4\x00"), id},
	    {"sender", TEXT("\x91\xa1x"), id},
	    {"conversation_seq", TEXT("\x00"), "an integer from 1 to 2^53 - 1"},
	    {"conversation_seq", TEXT("\xff"), "an integer from 1 to 2^53 - 1"},
	    {"conversation_seq",
		TEXT("\xa1"
		     "1"),
		"an integer from 1 to 2^53 - 1"},
	    {"conversation_seq", TEXT("\xcb\x3f\xf0\0\0\0\0\0\0"),
		"an integer from 1 to 2^53 - 1"},
	    {"conversation_seq", TEXT("\xcf\0\x1f\xff\xff\xff\xff\xff\xff"),
		NULL},
	    {"conversation_seq", TEXT("\xcf\0\x20\0\0\0\0\0\0"),
		"an integer from 1 to 2^53 - 1"},
	    {"created_at", TEXT("\x00"), NULL},
	    {"created_at", TEXT("\xcf\0\x20\0\0\0\0\0\0"),
		"an integer from 0 to 2^53 - 1"},
	    {"payload", TEXT("\xc0"), NULL},
	    {"payload", TEXT("\xc7\x01\x05x"), NULL},
	    {"recipients",
		TEXT("\xa3"
		     "bob"),
		"an array of ids of 1 to 255 bytes"},
	    {"recipients",
		TEXT("\x92\xa1"
		     "a\xa0"),
		"an array of ids of 1 to 255 bytes"},
	    {"recipients", TEXT("\x91\xc0"),
		"an array of ids of 1 to 255 bytes"},
	};
	struct outbox_message message;
	struct buf value;
	char want[128];

	(void)state;
	buf_init(&value);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pack_message(&value, cases[i].name, cases[i].raw);
		snprintf(want, sizeof(want), "field '%s': wants %s",
		    cases[i].name, cases[i].wants);
		if (cases[i].wants == NULL)
			decode(slice_of_buf(&value), &message);
		else
			refuses(slice_of_buf(&value), want);
	}
	pack_message(&value, "recipients", (struct slice)TEXT("\x90"));
	refuses(slice_of_buf(&value), "no recipients");
	buf_release(&value);
}

static void
a_message_has_its_fields_once(void **state)
{
	static const struct {
		const char *json, *want;
	} cases[] = {
	    {"{}", "no field 'message_id'"},
	    {"{\"message_id\":\"m\"}", "no field 'conversation_id'"},
	    {"{" GOOD "}", "no field 'recipients' or 'members'"},
	    {"{" GOOD GOOD_TO ",\"members\":\"v1\"}",
		"fields 'recipients' and 'members': one or the other"},
	    {"{" GOOD ",\"members\":\"v1\"}",
		"field 'members': membership snapshots can't be planned by "
		"this version"},
	    {"{" GOOD GOOD_TO ",\"sender\":\"x\"}",
		"field 'sender' stands twice"},
	    {"{" GOOD GOOD_TO ",\"zz\":1,\"yy\":2,\"zz\":1}",
		"field 'zz' stands twice"},
	    {"{" GOOD GOOD_TO ",\"to\":1}",
		"field 'to': a name that the dispatch itself has"},
	    {"{" GOOD GOOD_TO ",\"v\":1}",
		"field 'v': a name that the dispatch itself has"},
	    {"{" GOOD GOOD_TO ",\"digest\":1}",
		"field 'digest': a name that the dispatch itself has"},
	    {"{" GOOD ",}", "JSON: a comma too many at byte 119"},
	    {"[1]",
		"not a message: starts with 0x5b, wants a map in msgpack "
		"or JSON"},
	    {"", "empty value"},
	    {"\x82\xa1"
	     "a",
		"msgpack: 4 declared at 1, 2 bytes left"},
	    {"\x81\x01\x01", "a field's name isn't a str"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuses(slice_of(cases[i].json), cases[i].want);
	refuses((struct slice){NULL, 0}, "null value");
}

/* The same bytes as str and as bin are one recipient, in the form that
 * doesn't depend on which came first. */
static void
ids_are_compared_as_bytes(void **state)
{
	static const struct slice orders[] = {
	    TEXT("\x93\xc4\x01x\xa1x\xc4\x01x"),
	    TEXT("\x93\xa1x\xc4\x01x\xa1x")};
	struct outbox_message message;
	struct buf value;

	(void)state;
	buf_init(&value);
	for (size_t i = 0; i < 2; i++) {
		pack_message(&value, "recipients", orders[i]);
		decode(slice_of_buf(&value), &message);
		assert_int_equal(message.recipient_count, 1);
		assert_false(message.recipients[0].is_bin);
	}
	buf_release(&value);
}

static struct dispatch
dispatch_of(void)
{
	static const uint8_t to[] = "\xa3"
				    "ann\xc4\x01\xff";
	struct dispatch dispatch = {
	    .id = "0123456789abcde",
	    .digest = "fedcba987654321",
	    .conversation_seq = SEQ_MAX,
	    .created_at_ms = 1700,
	    .chunk = 2,
	    .chunk_count = 3,
	    .to_count = 2,
	    .payload = TEXT("\x81\x01\x02"),
	    .others = TEXT("\xa1"
			   "b\x01\xa1"
			   "z\xc0"),
	    .other_count = 2,
	};

	dispatch.conversation = (struct ident){slice_of("c"), true};
	dispatch.message = (struct ident){slice_of("m"), false};
	dispatch.sender = (struct ident){slice_of("s"), false};
	dispatch.to = (struct cursor){to, to + sizeof(to) - 1, false};
	return dispatch;
}

static void
a_dispatch_decodes_as_it_was_packed(void **state)
{
	struct dispatch dispatch = dispatch_of(), decoded;
	struct buf first, second;
	struct ident user;
	struct err err;

	(void)state;
	buf_init(&first);
	buf_init(&second);
	dispatch_pack(&first, &dispatch);
	assert_int_equal(
	    dispatch_decode(slice_of_buf(&first), &decoded, &err), 0);
	dispatch_pack(&second, &decoded);
	assert_true(slice_equal(slice_of_buf(&first), slice_of_buf(&second)));
	assert_int_equal(dispatch_next_recipient(&decoded, &user), 1);
	assert_true(slice_is(user.bytes, "ann") && !user.is_bin);
	assert_int_equal(dispatch_next_recipient(&decoded, &user), 1);
	assert_true(slice_is(user.bytes, "\xff") && user.is_bin);
	assert_int_equal(dispatch_next_recipient(&decoded, &user), 0);
	/* Cut anywhere it isn't one. */
	for (size_t bytes = 0; bytes < first.bytes; bytes++)
		assert_int_equal(
		    dispatch_decode(
			(struct slice){first.data, bytes}, &decoded, &err),
		    -1);
	buf_release(&first);
	buf_release(&second);
}

/* The pairs of a map in reverse, but for others, which stay together. */
static void
keys_may_come_in_any_order(void **state)
{
	struct dispatch dispatch = dispatch_of(), decoded;
	struct slice pairs[12];
	struct buf packed, turned, again;
	struct cursor cursor;
	struct err err;

	(void)state;
	buf_init(&packed);
	buf_init(&turned);
	buf_init(&again);
	dispatch_pack(&packed, &dispatch);
	cursor = cursor_of(slice_of_buf(&packed));
	assert_int_equal(cursor_map(&cursor), 13);
	for (size_t i = 0; i < 12; i++) {
		pairs[i].data = cursor.at;
		cursor_skip(&cursor, i == 11 ? 4 : 2);
		pairs[i].bytes = (size_t)(cursor.at - pairs[i].data);
	}
	pack_map(&turned, 13);
	for (size_t i = 12; i-- > 0;)
		pack_raw(&turned, pairs[i]);
	assert_int_equal(
	    dispatch_decode(slice_of_buf(&turned), &decoded, &err), 0);
	dispatch_pack(&again, &decoded);
	assert_true(slice_equal(slice_of_buf(&packed), slice_of_buf(&again)));
	buf_release(&packed);
	buf_release(&turned);
	buf_release(&again);
}

static void
refuses_dispatch(const struct dispatch *dispatch, const char *want)
{
	struct dispatch decoded;
	struct buf value;
	struct err err = {0};

	buf_init(&value);
	dispatch_pack(&value, dispatch);
	assert_int_equal(
	    dispatch_decode(slice_of_buf(&value), &decoded, &err), -1);
	assert_int_equal(err.code, EX_DATAERR);
	assert_string_equal(err.text, want);
	buf_release(&value);
}

static void
wrong_dispatches_are_refused(void **state)
{
	const struct dispatch good = dispatch_of();
	struct dispatch bad = good;

	(void)state;
	bad.chunk = 4;
	refuses_dispatch(&bad, "dispatch: 'chunk' isn't of its type or range");
	bad.chunk = 0;
	refuses_dispatch(&bad, "dispatch: 'chunk' isn't of its type or range");
	bad = good;
	bad.to_count = 0;
	bad.to.at = bad.to.end;
	refuses_dispatch(&bad, "dispatch: 'to' isn't of its type or range");
	bad = good;
	bad.conversation_seq = 0;
	refuses_dispatch(
	    &bad, "dispatch: 'conversation_seq' isn't of its type or range");
	bad = good;
	bad.sender.bytes = slice_of("");
	refuses_dispatch(&bad, "dispatch: 'sender' isn't of its type or range");
	bad = good;
	bad.others = (struct slice)TEXT("\xa1z\x01\xa1"
					"b\xc0");
	refuses_dispatch(
	    &bad, "dispatch: its other fields aren't together and sorted");
	bad.others = (struct slice)TEXT("\xa1"
					"b\x01\xa1"
					"b\xc0");
	refuses_dispatch(
	    &bad, "dispatch: its other fields aren't together and sorted");
	bad.others = (struct slice)TEXT("\xa2to\x01\xa1"
					"b\xc0");
	refuses_dispatch(&bad, "dispatch: 'to' stands twice");
}

static void
other_versions_and_no_maps_are_refused(void **state)
{
	static const struct {
		struct slice value;
		const char *want;
	} cases[] = {
	    {TEXT("\x81\xa1v\x02"), "dispatch: version 2, wants 1"},
	    {TEXT("\x81\xa1v\xa1"
		  "1"),
		"dispatch: 'v' isn't of its type or range"},
	    {TEXT("\x81\xa1v\x01"), "dispatch: no field 'id'"},
	    {TEXT("\x80"), "dispatch: no field 'v'"},
	    {TEXT("\x90"), "dispatch: not a msgpack map"},
	    {TEXT("{}"), "dispatch: msgpack: 1 bytes left over after 1"},
	    {TEXT("\xdf\xff\0\0\0"),
		"dispatch: msgpack: 8556380160 declared at 5, 0 bytes left"},
	    {TEXT("\x81\xa2id\xc4\x01x"),
		"dispatch: 'id' isn't of its type or range"},
	    {TEXT("\x81\x01\x01"), "dispatch: a field's name isn't a str"},
	};
	struct dispatch decoded;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = {0};

		assert_int_equal(
		    dispatch_decode(cases[i].value, &decoded, &err), -1);
		assert_int_equal(err.code, EX_DATAERR);
		assert_string_equal(err.text, cases[i].want);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(json_and_msgpack_are_one_message),
	    cmocka_unit_test(fields_have_types_and_ranges),
	    cmocka_unit_test(a_message_has_its_fields_once),
	    cmocka_unit_test(ids_are_compared_as_bytes),
	    cmocka_unit_test(a_dispatch_decodes_as_it_was_packed),
	    cmocka_unit_test(keys_may_come_in_any_order),
	    cmocka_unit_test(wrong_dispatches_are_refused),
	    cmocka_unit_test(other_versions_and_no_maps_are_refused),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	outbox_init(&outbox);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	outbox_release(&outbox);
	return failed;
}
