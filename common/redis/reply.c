#include "redis/reply.h"

#include <stdlib.h>

/* Longest part of a key that a message shows. */
#define KEY_TEXT_BYTES 160

/* By the reply's first word, or more of its text; anything else (WRONGTYPE,
 * ERR) is FAULT_DATA.  The first entry that fits counts.  NOSCRIPT never comes
 * here: script.c sends the script. */
static const struct {
	const char *start;
	enum reply_fault fault;
} faults[] = {
    {"ERR max number of clients", FAULT_WAIT},
    {"LOADING ", FAULT_WAIT},
    {"BUSY ", FAULT_WAIT},
    {"OOM ", FAULT_WAIT},
    {"MISCONF ", FAULT_WAIT},
    {"TRYAGAIN ", FAULT_WAIT},
    {"CLUSTERDOWN ", FAULT_WAIT},
    {"NOREPLICAS ", FAULT_WAIT},
    {"MASTERDOWN ", FAULT_WAIT},
    {"READONLY ", FAULT_WAIT}, /* the name may lead to a new master */
    {"ERR WAIT cannot be used with replica", FAULT_WAIT}, /* the same */
    {"UNBLOCKED ", FAULT_WAIT}, /* the same, while WAIT was under way */
    {"NOAUTH ", FAULT_ACCESS},
    {"WRONGPASS ", FAULT_ACCESS},
    {"NOPERM ", FAULT_ACCESS},
    {"DENIED ", FAULT_ACCESS},
    {"ERR The user executing the script ", FAULT_ACCESS},
    {"MOVED ", FAULT_CONFIG},
    {"ASK ", FAULT_CONFIG},
    {"CROSSSLOT ", FAULT_CONFIG},
};

/* EXEC says so where what is told after it came up behind MULTI. */
static const char discarded[] = "EXECABORT Transaction discarded because of: ";

static const int codes[] = {
    [FAULT_WAIT] = EX_TEMPFAIL,
    [FAULT_ACCESS] = EX_NOPERM,
    [FAULT_CONFIG] = EX_CONFIG,
    [FAULT_DATA] = EX_DATAERR,
};

enum reply_fault
reply_fault(struct slice error)
{
	size_t skip = sizeof(discarded) - 1;

	if (error.bytes > skip && memcmp(error.data, discarded, skip) == 0) {
		error.data += skip;
		error.bytes -= skip;
	}
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct slice start = slice_of(faults[i].start);

		if (error.bytes >= start.bytes &&
		    memcmp(error.data, start.data, start.bytes) == 0)
			return faults[i].fault;
	}
	return FAULT_DATA;
}

enum reply_fault
reply_error(const struct reply *reply, struct slice key, struct err *err)
{
	enum reply_fault fault = reply_fault(reply->text);

	err_set(err, codes[fault], "%.*s", (int)reply->text.bytes,
	    (const char *)reply->text.data);
	if (key.data == NULL)
		return fault;
	err_prefix(err, "%.*s",
	    key.bytes > KEY_TEXT_BYTES ? KEY_TEXT_BYTES : (int)key.bytes,
	    (const char *)key.data);
	return fault;
}

bool
reply_number(const struct reply *reply, uint64_t *number)
{
	uint64_t value = 0;

	if (reply->type != REPLY_TEXT || reply->text.bytes == 0 ||
	    reply->text.bytes > 16)
		return false;
	for (size_t i = 0; i < reply->text.bytes; i++) {
		uint8_t digit = reply->text.data[i];

		if (digit < '0' || digit > '9')
			return false;
		value = value * 10 + (uint64_t)(digit - '0');
	}
	*number = value;
	return value < (uint64_t)1 << 53;
}

bool
reply_cursor(const struct reply *page, char cursor[REPLY_CURSOR_BYTES])
{
	struct slice text;

	if (page->type != REPLY_ARRAY || page->count == 0 ||
	    page->items[0].type != REPLY_TEXT ||
	    page->items[0].text.bytes >= REPLY_CURSOR_BYTES)
		return false;
	text = page->items[0].text;
	memcpy(cursor, text.data, text.bytes);
	cursor[text.bytes] = '\0';
	return true;
}

void
reply_release(struct reply *reply)
{
	for (size_t i = 0; i < reply->count; i++)
		reply_release(&reply->items[i]);
	free(reply->items);
	if (reply->type == REPLY_TEXT || reply->type == REPLY_ERROR)
		free((void *)(uintptr_t)reply->text.data);
	*reply = (struct reply){0};
}
