#include "message/json.h"

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

#include <stdlib.h>

#include "message/number.h"
#include "message/text.h"
#include "stream/guard.h"
#include "stream/pack.h"

/* JSON_DEPTH_MAX in words. */
#define TOO_DEEP "nested deeper than 32"

_Static_assert(JSON_DEPTH_MAX == GUARD_DEPTH_MAX,
    "what is JSON here must pass the guard as msgpack");

#define TOKENS_FIRST 64

/* A shorter text costs jsmn less than 0.2 ms, however deep it is. */
#define DEEP_BYTES_LEAST ((size_t)1024)

/* One text on its way to msgpack.  The walk follows the text, byte by byte
 * between the tokens; the tokens say how many pairs or items there are and
 * where strings end. */
struct walk {
	struct json *json;
	struct slice text;
	size_t at; /* the next byte */
	uint32_t token, token_count; /* the next token */
	uint32_t depth; /* of containers that are open */
	struct buf *out;
	struct err *err;
};

void
json_init(struct json *json)
{
	*json = (struct json){0};
	buf_init(&json->string);
}

void
json_release(struct json *json)
{
	free(json->tokens);
	buf_release(&json->string);
	json_init(json);
}

static int
refuse(struct walk *walk, const char *what)
{
	return err_set(
	    walk->err, EX_DATAERR, "JSON: %s at byte %zu", what, walk->at);
}

/* jsmn's time grows with the square of the depth, so the depth is known
 * before it runs, where it can be so deep that it matters. */
static int
check_depth(struct walk *walk)
{
	const uint8_t *text = walk->text.data;
	size_t depth = 0;
	bool inside = false; /* of a string */

	if (walk->text.bytes < DEEP_BYTES_LEAST)
		return 0;
	for (size_t i = 0; i < walk->text.bytes; i++) {
		uint8_t c = text[i];

		if (c == '"')
			inside = !inside;
		else if (inside)
			i += c == '\\';
		else if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth > 0)
			depth--;
		walk->at = i;
		if (depth > JSON_DEPTH_MAX)
			return refuse(walk, TOO_DEEP);
	}
	return 0;
}

static int
grow_tokens(struct json *json, struct err *err)
{
	uint32_t room = json->room == 0 ? TOKENS_FIRST : 2 * json->room;
	void *tokens;

	if (room > JSON_TOKENS_MAX)
		return err_set(err, EX_DATAERR,
		    "JSON: more than %lu names and values",
		    (unsigned long)JSON_TOKENS_MAX);
	tokens = realloc(json->tokens, room * sizeof(jsmntok_t));
	if (tokens == NULL)
		return err_memory(err, "JSON");
	json->tokens = tokens;
	json->room = room;
	return 0;
}

static int
find_tokens(struct walk *walk)
{
	struct json *json = walk->json;
	const char *text = (const char *)walk->text.data;
	jsmn_parser parser;
	int count;

	jsmn_init(&parser);
	if (json->room == 0 && grow_tokens(json, walk->err) < 0)
		return -1;
	while ((count = jsmn_parse(&parser, text, walk->text.bytes,
		    json->tokens, json->room)) == JSMN_ERROR_NOMEM)
		if (grow_tokens(json, walk->err) < 0)
			return -1;
	walk->at = parser.pos;
	if (count == JSMN_ERROR_PART)
		return refuse(walk,
		    "the object isn't complete, or something follows it: "
		    "stopped");
	if (count < 0 || walk->at < walk->text.bytes)
		return refuse(walk, "not JSON");
	walk->token_count = (uint32_t)count;
	walk->at = 0;
	return 0;
}

static bool
is_blank(uint8_t c)
{
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r');
}

static inline void
skip_blanks(struct walk *walk)
{
	const uint8_t *text = walk->text.data;
	size_t at = walk->at;

	while (at < walk->text.bytes && is_blank(text[at]))
		at++;
	walk->at = at;
}

/* The next byte that isn't blank, or 0 at the end. */
static uint8_t
peek(struct walk *walk)
{
	skip_blanks(walk);
	return walk->at < walk->text.bytes ? walk->text.data[walk->at] : 0;
}

/* The next token, which must begin here (a string behind its quote). */
static const jsmntok_t *
take_token(struct walk *walk)
{
	const jsmntok_t *token = walk->json->tokens;
	size_t start;

	skip_blanks(walk);
	if (walk->token == walk->token_count)
		return NULL;
	token += walk->token;
	start = (size_t)token->start - (token->type == JSMN_STRING);
	if (start != walk->at)
		return NULL;
	walk->token++;
	return token;
}

static int
unescape(struct walk *walk, struct slice content)
{
	struct buf *string = &walk->json->string;
	size_t bytes;

	buf_reset(string);
	while (content.bytes > 0) {
		bytes = text_plain(content);
		buf_append(string, content.data, bytes);
		if (bytes == 0)
			bytes = text_unescape(content, string);
		if (bytes == 0)
			return refuse(
			    walk, "an invalid escape, control byte or UTF-8");
		content.data += bytes;
		content.bytes -= bytes;
		walk->at += bytes;
	}
	if (string->failed)
		return err_memory(walk->err, "JSON");
	pack_str(walk->out, slice_of_buf(string));
	return 0;
}

/* A string token, without its quotes; a name or a value. */
static int
convert_string(struct walk *walk, const jsmntok_t *token)
{
	size_t bytes = (size_t)(token->end - token->start);
	struct slice content = {walk->text.data + token->start, bytes};

	walk->at = (size_t)token->start;
	if (text_plain(content) == bytes)
		pack_str(walk->out, content);
	else if (unescape(walk, content) < 0)
		return -1;
	walk->at = (size_t)token->end + 1;
	return 0;
}

static int
convert_number(struct walk *walk, struct slice text)
{
	enum number_result result = number_pack(text, walk->out);

	if (result == NUMBER_INVALID)
		return refuse(walk, "an invalid number or word");
	if (result == NUMBER_TOO_LARGE)
		return refuse(walk, "a number too large for a float 64");
	return 0;
}

static int
convert_primitive(struct walk *walk, const jsmntok_t *token)
{
	struct slice text = {walk->text.data + token->start,
	    (size_t)(token->end - token->start)};

	if (slice_is(text, "null"))
		pack_nil(walk->out);
	else if (slice_is(text, "true") || slice_is(text, "false"))
		pack_bool(walk->out, text.data[0] == 't');
	else if (convert_number(walk, text) < 0)
		return -1;
	walk->at = (size_t)token->end;
	return 0;
}

static int convert_value(struct walk *walk);

static int
convert_pair(struct walk *walk)
{
	const jsmntok_t *token = take_token(walk);

	if (token == NULL || token->type != JSMN_STRING)
		return refuse(walk, "wants a name");
	if (convert_string(walk, token) < 0)
		return -1;
	if (peek(walk) != ':')
		return refuse(walk, "wants a colon");
	walk->at++;
	return convert_value(walk);
}

/* The pairs or items of a container, up to its closing bracket. */
static int
convert_items(struct walk *walk, const jsmntok_t *token)
{
	bool object = token->type == JSMN_OBJECT;
	uint8_t close = object ? '}' : ']';
	uint32_t count = (uint32_t)token->size;

	if (walk->depth++ == JSON_DEPTH_MAX)
		return refuse(walk, TOO_DEEP);
	walk->at++;
	if (object)
		pack_map(walk->out, count);
	else
		pack_array(walk->out, count);
	for (uint32_t i = 0; i < count; i++) {
		if (i > 0 && peek(walk) != ',')
			return refuse(walk, "wants a comma or the end");
		walk->at += i > 0;
		if ((object ? convert_pair(walk) : convert_value(walk)) < 0)
			return -1;
	}
	if (peek(walk) == ',')
		return refuse(walk, "a comma too many");
	if (peek(walk) != close)
		return refuse(walk, "wants a comma or the end");
	walk->depth--;
	walk->at++;
	return 0;
}

static int
convert_value(struct walk *walk)
{
	const jsmntok_t *token = take_token(walk);

	if (token == NULL)
		return refuse(walk, "wants a value");
	if (token->type == JSMN_STRING)
		return convert_string(walk, token);
	if (token->type == JSMN_PRIMITIVE)
		return convert_primitive(walk, token);
	return convert_items(walk, token);
}

int
json_to_msgpack(
    struct json *json, struct slice text, struct buf *out, struct err *err)
{
	struct walk walk = {.json = json, .text = text, .out = out, .err = err};

	if (text.bytes > JSON_BYTES_MAX)
		return err_set(err, EX_DATAERR,
		    "JSON: %zu bytes, the limit is %zu", text.bytes,
		    JSON_BYTES_MAX);
	if (peek(&walk) != '{')
		return refuse(&walk, "wants an object");
	if (check_depth(&walk) < 0 || find_tokens(&walk) < 0 ||
	    convert_value(&walk) < 0)
		return -1;
	skip_blanks(&walk);
	if (walk.at < text.bytes)
		return refuse(&walk, "something follows the object");
	return out->failed ? err_memory(err, "JSON") : 0;
}
