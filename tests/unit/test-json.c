/*
 * JSON to msgpack: what becomes what, and what RFC 8259 refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "message/json.h"
#include "stream/guard.h"

static struct json json;
static struct buf out;

static int
convert(struct slice text, struct err *err)
{
	buf_reset(&out);
	return json_to_msgpack(&json, text, &out, err);
}

/* With its literal, so that NUL bytes count. */
#define TEXT(literal) \
	{ \
		(const uint8_t *)(literal), sizeof(literal) - 1 \
	}

static void
good_texts_become_msgpack(void **state)
{
	static const struct {
		struct slice text, want;
	} cases[] = {
	    {TEXT("{}"), TEXT("\x80")},
	    {TEXT(" \t\r\n{ } \n"), TEXT("\x80")},
	    {TEXT("{\"a\":{}}"),
		TEXT("\x81\xa1"
		     "a\x80")},
	    {TEXT("{\"\":[]}"), TEXT("\x81\xa0\x90")},
	    {TEXT("{\"a\" : [ 1 , [ ] , { \"b\" : null } ] , \"c\" : true}"),
		TEXT("\x82\xa1"
		     "a\x93\x01\x90\x81\xa1"
		     "b\xc0\xa1"
		     "c\xc3")},
	    {TEXT("{\"a\":1,\"a\":2}"),
		TEXT("\x82\xa1"
		     "a\x01\xa1"
		     "a\x02")},
	    {TEXT("{\"a\":false}"),
		TEXT("\x81\xa1"
		     "a\xc2")},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = {0};

		if (convert(cases[i].text, &err) < 0)
			fail_msg("case %zu: %s", i, err.text);
		if (!slice_equal(slice_of_buf(&out), cases[i].want))
			fail_msg("case %zu: other bytes", i);
	}
}

/* The value of {"n":text}, or of {"n":[text]}. */
static struct slice
convert_value(const char *text, bool in_array)
{
	static char whole[4096];
	struct err err = {0};
	size_t head = in_array ? 4 : 3;

	snprintf(whole, sizeof(whole), in_array ? "{\"n\":[%s]}" : "{\"n\":%s}",
	    text);
	if (convert(slice_of(whole), &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_true(out.bytes > head);
	return (struct slice){out.data + head, out.bytes - head};
}

static void
numbers_become_the_shortest_integer_or_a_float(void **state)
{
	static const struct {
		const char *text;
		struct slice want;
	} cases[] = {
	    {"0", TEXT("\x00")},
	    {"-0", TEXT("\x00")},
	    {"127", TEXT("\x7f")},
	    {"128", TEXT("\xcc\x80")},
	    {"256", TEXT("\xcd\x01\x00")},
	    {"65536", TEXT("\xce\x00\x01\x00\x00")},
	    {"4294967296", TEXT("\xcf\x00\x00\x00\x01\x00\x00\x00\x00")},
	    {"9223372036854775808", TEXT("\xcf\x80\0\0\0\0\0\0\0")},
	    {"18446744073709551615",
		TEXT("\xcf\xff\xff\xff\xff\xff\xff\xff\xff")},
	    {"18446744073709551616", TEXT("\xcb\x43\xf0\0\0\0\0\0\0")},
	    {"-1", TEXT("\xff")},
	    {"-32", TEXT("\xe0")},
	    {"-33", TEXT("\xd0\xdf")},
	    {"-9223372036854775808", TEXT("\xd3\x80\0\0\0\0\0\0\0")},
	    {"-9223372036854775809", TEXT("\xcb\xc3\xe0\0\0\0\0\0\0")},
	    {"1.0", TEXT("\xcb\x3f\xf0\0\0\0\0\0\0")},
	    {"-0.0", TEXT("\xcb\x80\0\0\0\0\0\0\0")},
	    {"1e2", TEXT("\xcb\x40\x59\0\0\0\0\0\0")},
	    {"1E+2", TEXT("\xcb\x40\x59\0\0\0\0\0\0")},
	    {"0e-9", TEXT("\xcb\0\0\0\0\0\0\0\0")},
	    {"0.1", TEXT("\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a")},
	    {"1e-400", TEXT("\xcb\0\0\0\0\0\0\0\0")},
	    {"4.9e-324", TEXT("\xcb\0\0\0\0\0\0\0\x01")},
	    {"1.7976931348623157e308",
		TEXT("\xcb\x7f\xef\xff\xff\xff\xff\xff\xff")},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int in_array = 0; in_array <= 1; in_array++)
			if (!slice_equal(convert_value(cases[i].text, in_array),
				cases[i].want))
				fail_msg("%s: other bytes", cases[i].text);
}

static void
strings_are_unescaped(void **state)
{
	static const struct {
		const char *text;
		struct slice want;
	} cases[] = {
	    {"\"\"", TEXT("\xa0")},
	    {"\"plain ASCII \x7f text\"", TEXT("\xb2plain ASCII \x7f text")},
	    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", TEXT("\xa8\"\\/\b\f\n\r\t")},
	    {"\"a\\u0000b\"",
		TEXT("\xa3"
		     "a\0b")},
	    {"\"\\u00e9\\u00E9\"", TEXT("\xa4\xc3\xa9\xc3\xa9")},
	    {"\"\\u4f60\"", TEXT("\xa3\xe4\xbd\xa0")},
	    {"\"\\ud83d\\udc4b\"", TEXT("\xa4\xf0\x9f\x91\x8b")},
	    {"\"x\\uDBFF\\uDFFFy\"", TEXT("\xa6x\xf4\x8f\xbf\xbfy")},
	    {"\"\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x91\x8b\"",
		TEXT("\xa9\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x91\x8b")},
	    {"\"\xf4\x8f\xbf\xbf\xee\x80\x80\xed\x9f\xbf\"",
		TEXT("\xaa\xf4\x8f\xbf\xbf\xee\x80\x80\xed\x9f\xbf")},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!slice_equal(
			convert_value(cases[i].text, false), cases[i].want))
			fail_msg("%s: other bytes", cases[i].text);
}

/* Wherever the byte stands in a string, and whatever stands before it, it
 * is seen: strings are scanned eight bytes at a time. */
static void
a_bad_byte_is_seen_at_every_place(void **state)
{
	static const uint8_t bad[] = {0x00, 0x01, 0x1f, '\n', 0x80, 0xc1, 0xff};
	char text[64];
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad); i++)
		for (size_t at = 0; at < 32; at++)
			for (size_t before = 0; before < 2; before++) {
				int bytes = snprintf(
				    text, sizeof(text), "{\"k\":\"%032d\"}", 0);

				text[6 + at] = (char)bad[i];
				if (at > 0 && before == 1)
					text[5 + at] = 0x7f;
				assert_int_equal(
				    convert((struct slice){(uint8_t *)text,
						(size_t)bytes},
					&err),
				    -1);
				assert_int_equal(err.code, EX_DATAERR);
			}
}

static void
what_is_not_json_is_refused(void **state)
{
	static const struct slice texts[] = {
	    /* no object */
	    TEXT(""),
	    TEXT(" "),
	    TEXT("[]"),
	    TEXT("1"),
	    TEXT("\"a\""),
	    TEXT("null"),
	    TEXT("\xef\xbb\xbf{}"),
	    /* more, or less, than one */
	    TEXT("{}{}"),
	    TEXT("{} 1"),
	    TEXT("{},"),
	    TEXT("{}]"),
	    TEXT("{}\0"),
	    TEXT("{"),
	    TEXT("{\"a\":"),
	    TEXT("{\"a\":1"),
	    TEXT("{\"a\":[1}"),
	    TEXT("{\"a\":[1]"),
	    TEXT("}"),
	    TEXT("{]"),
	    TEXT("{\"a"),
	    TEXT("{\"a\":1]"),
	    TEXT("{\"a\":{\"b\":1}"),
	    TEXT("{\0}"),
	    /* separators */
	    TEXT("{\"a\" 1}"),
	    TEXT("{\"a\"::1}"),
	    TEXT("{:1}"),
	    TEXT("{\"a\":1,}"),
	    TEXT("{,\"a\":1}"),
	    TEXT("{\"a\":1,,\"b\":2}"),
	    TEXT("{\"a\":1 \"b\":2}"),
	    TEXT("{\"a\",1}"),
	    TEXT("{\"a\"}"),
	    TEXT("{\"a\":}"),
	    TEXT("{\"a\":1:2}"),
	    TEXT("{\"a\":1,\"b\"}"),
	    TEXT("{\"a\":[1 2]}"),
	    TEXT("{\"a\":[1,]}"),
	    TEXT("{\"a\":[,1]}"),
	    TEXT("{\"a\":[1,,2]}"),
	    TEXT("{\"a\":[1:2]}"),
	    TEXT("{\"a\":[:]}"),
	    TEXT("{\"a\":[\"b\":1]}"),
	    TEXT("{\"a\":[1]2}"),
	    TEXT("{\"a\":{}{}}"),
	    TEXT("{\"a\":[][]}"),
	    TEXT("{\"a\":1[]}"),
	    TEXT("{\"a\":\"b\"\"c\"}"),
	    TEXT("{\"a\":\"b\" \"c\":1}"),
	    TEXT("{\"a\":{\"b\":1,\"c\"},\"d\":1}"),
	    TEXT("{\"a\":[{\"b\":1 \"c\":2}]}"),
	    TEXT("{\"a\":\v1}"),
	    TEXT("{\"a\":\f1}"),
	    TEXT("{\"a\":\xa0 1}"),
	    /* names */
	    TEXT("{a:1}"),
	    TEXT("{1:2}"),
	    TEXT("{null:1}"),
	    TEXT("{{}:1}"),
	    TEXT("{[]:1}"),
	    TEXT("{'a':1}"),
	    TEXT("{\"a\":1,2:3}"),
	    TEXT("{\"a\\x\":1}"),
	    TEXT("{\"\x01\":1}"),
	    TEXT("{\"\xff\":1}"),
	    /* words and numbers */
	    TEXT("{\"a\":tru}"),
	    TEXT("{\"a\":truee}"),
	    TEXT("{\"a\":True}"),
	    TEXT("{\"a\":nul}"),
	    TEXT("{\"a\":NaN}"),
	    TEXT("{\"a\":nan}"),
	    TEXT("{\"a\":Infinity}"),
	    TEXT("{\"a\":-Infinity}"),
	    TEXT("{\"a\":-}"),
	    TEXT("{\"a\":+1}"),
	    TEXT("{\"a\":01}"),
	    TEXT("{\"a\":-01}"),
	    TEXT("{\"a\":00}"),
	    TEXT("{\"a\":1.}"),
	    TEXT("{\"a\":.5}"),
	    TEXT("{\"a\":-.5}"),
	    TEXT("{\"a\":1e}"),
	    TEXT("{\"a\":1e+}"),
	    TEXT("{\"a\":1e1.5}"),
	    TEXT("{\"a\":0x10}"),
	    TEXT("{\"a\":1_000}"),
	    TEXT("{\"a\":1 000}"),
	    TEXT("{\"a\":--1}"),
	    TEXT("{\"a\":1.2.3}"),
	    TEXT("{\"a\":1f}"),
	    TEXT("{\"a\":1e400}"),
	    TEXT("{\"a\":-1e400}"),
	    TEXT("{\"a\":1\x30\xff}"),
	    TEXT("{\"a\":// comment\n1}"),
	    TEXT("{\"a\":/* */1}"),
	    /* strings */
	    TEXT("{\"a\":'b'}"),
	    TEXT("{\"a\":\"\\x41\"}"),
	    TEXT("{\"a\":\"\\a\"}"),
	    TEXT("{\"a\":\"\\'\"}"),
	    TEXT("{\"a\":\"\\u12\"}"),
	    TEXT("{\"a\":\"\\u12g4\"}"),
	    TEXT("{\"a\":\"\\U0041\"}"),
	    TEXT("{\"a\":\"\\\"}"),
	    TEXT("{\"a\":\"\\"),
	    TEXT("{\"a\":\"\\u00"),
	    TEXT("{\"a\":\"\n\"}"),
	    TEXT("{\"a\":\"\t\"}"),
	    TEXT("{\"a\":\"b\0c\"}"),
	    TEXT("{\"a\":\"\x1f\"}"),
	    /* surrogates */
	    TEXT("{\"a\":\"\\ud83d\"}"),
	    TEXT("{\"a\":\"\\udc4b\"}"),
	    TEXT("{\"a\":\"\\udc4b\\ud83d\"}"),
	    TEXT("{\"a\":\"\\ud83d\\ud83d\"}"),
	    TEXT("{\"a\":\"\\ud83dx\\udc4b\"}"),
	    TEXT("{\"a\":\"\\ud83d\\n\"}"),
	    TEXT("{\"a\":\"\\ud83d\\u0041\"}"),
	    /* UTF-8: a byte alone, cut short, overlong, surrogate, too high */
	    TEXT("{\"a\":\"\x80\"}"),
	    TEXT("{\"a\":\"\xc3\"}"),
	    TEXT("{\"a\":\"\xe4\xbd\"}"),
	    TEXT("{\"a\":\"\xf0\x9f\x91\"}"),
	    TEXT("{\"a\":\"\xc0\xaf\"}"),
	    TEXT("{\"a\":\"\xc1\xbf\"}"),
	    TEXT("{\"a\":\"\xe0\x9f\xbf\"}"),
	    TEXT("{\"a\":\"\xf0\x8f\xbf\xbf\"}"),
	    TEXT("{\"a\":\"\xed\xa0\x80\"}"),
	    TEXT("{\"a\":\"\xed\xbf\xbf\"}"),
	    TEXT("{\"a\":\"\xf4\x90\x80\x80\"}"),
	    TEXT("{\"a\":\"\xf5\x80\x80\x80\"}"),
	    TEXT("{\"a\":\"\xff\"}"),
	    TEXT("{\"a\":\"\xe4x\xa0\"}"),
	    TEXT("{\"a\":\"\xc3\xa9\x80\"}"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct err err = {0};

		if (convert(texts[i], &err) == 0)
			fail_msg("not refused: %.*s", (int)texts[i].bytes,
			    (const char *)texts[i].data);
		assert_int_equal(err.code, EX_DATAERR);
		if (strstr(err.text, "JSON: ") != err.text)
			fail_msg("message: %s", err.text);
	}
}

/* Every text cut at every byte, in memory that ends there. */
static void
a_cut_text_is_refused(void **state)
{
	static const char text[] =
	    "{\"a\\n\\u00e9\":[1,-2.5e3,\"\\ud83d\\udc4b\xf0\x9f\x91\x8b\","
	    "{\"b\":null}],\"c\":true}";
	struct err err;

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(text) - 1; bytes++) {
		uint8_t *copy = malloc(bytes + 1);

		assert_non_null(copy);
		memcpy(copy + 1, text, bytes);
		assert_int_equal(
		    convert((struct slice){copy + 1, bytes}, &err), -1);
		assert_int_equal(err.code, EX_DATAERR);
		free(copy);
	}
	assert_int_equal(convert(slice_of(text), &err), 0);
}

/* {"a":[[...]]}, `depth` containers in all. */
static int
convert_deep(size_t depth, size_t padding, struct err *err)
{
	struct buf text;
	int result;

	buf_init(&text);
	for (size_t i = 0; i < padding; i++)
		buf_append(&text, " ", 1);
	buf_append(&text, "{\"a\":", 5);
	for (size_t i = 1; i < depth; i++)
		buf_append(&text, "[", 1);
	buf_append(&text, "1", 1);
	for (size_t i = 1; i < depth; i++)
		buf_append(&text, "]", 1);
	buf_append(&text, "}", 1);
	result = convert(slice_of_buf(&text), err);
	buf_release(&text);
	return result;
}

static void
nesting_has_the_limit_of_the_guard(void **state)
{
	struct err err;

	(void)state;
	for (size_t padding = 0; padding <= 4096; padding += 4096) {
		assert_int_equal(convert_deep(32, padding, &err), 0);
		assert_int_equal(guard_walk(slice_of_buf(&out), &err), 0);
		assert_int_equal(convert_deep(33, padding, &err), -1);
		assert_non_null(strstr(err.text, "nested deeper than 32"));
	}
	/* Quadratic work would take minutes here. */
	assert_int_equal(convert_deep(4000000, 0, &err), -1);
	assert_non_null(strstr(err.text, "nested deeper than 32"));
}

/* Brackets in strings are no nesting, quotes behind a backslash no end. */
static void
brackets_in_strings_do_not_nest(void **state)
{
	struct buf text;
	struct err err;

	(void)state;
	buf_init(&text);
	buf_append(&text, "{\"a\":\"", 6);
	for (int i = 0; i < 2000; i++)
		buf_append(&text, "[{\\\"", 4);
	buf_append(&text, "\"}", 2);
	assert_int_equal(convert(slice_of_buf(&text), &err), 0);
	buf_release(&text);
}

static void
limits_are_kept(void **state)
{
	struct buf text;
	struct err err;

	(void)state;
	buf_init(&text);
	buf_append(&text, "{\"a\":[1", 7);
	for (uint32_t i = 0; i < 100000; i++)
		buf_append(&text, ",1", 2);
	buf_append(&text, "]}", 2);
	assert_int_equal(convert(slice_of_buf(&text), &err), 0);
	assert_int_equal(out.bytes, 3 + 5 + 100001);
	text.bytes -= 2;
	for (uint32_t i = 0; i < JSON_TOKENS_MAX; i++)
		buf_append(&text, ",1", 2);
	buf_append(&text, "]}", 2);
	assert_int_equal(convert(slice_of_buf(&text), &err), -1);
	assert_string_equal(
	    err.text, "JSON: more than 1048576 names and values");
	buf_release(&text);
	assert_int_equal(
	    convert((struct slice){out.data, JSON_BYTES_MAX + 1}, &err), -1);
	assert_string_equal(
	    err.text, "JSON: 16777217 bytes, the limit is 16777216");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good_texts_become_msgpack),
	    cmocka_unit_test(numbers_become_the_shortest_integer_or_a_float),
	    cmocka_unit_test(strings_are_unescaped),
	    cmocka_unit_test(a_bad_byte_is_seen_at_every_place),
	    cmocka_unit_test(what_is_not_json_is_refused),
	    cmocka_unit_test(a_cut_text_is_refused),
	    cmocka_unit_test(nesting_has_the_limit_of_the_guard),
	    cmocka_unit_test(brackets_in_strings_do_not_nest),
	    cmocka_unit_test(limits_are_kept),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	json_init(&json);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	json_release(&json);
	buf_release(&out);
	return failed;
}
