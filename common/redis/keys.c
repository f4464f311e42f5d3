#include "redis/keys.h"

#include <stdio.h>

/* Keys that one SCAN passes. */
#define PAGE_COUNT 500

static bool
pass_start(struct slice *text, struct slice start)
{
	if (text->bytes < start.bytes ||
	    memcmp(text->data, start.data, start.bytes) != 0)
		return false;
	text->data += start.bytes;
	text->bytes -= start.bytes;
	return true;
}

bool
key_pass(struct slice *text, const char *start)
{
	return pass_start(text, slice_of(start));
}

/* The number before "}:"; -1: not ours. */
static int64_t
pass_partition(struct slice *text)
{
	int64_t number = 0;
	size_t i = 0;

	for (; i < text->bytes && i < 6; i++) {
		if (text->data[i] < '0' || text->data[i] > '9')
			break;
		number = 10 * number + (text->data[i] - '0');
	}
	text->data += i;
	text->bytes -= i;
	return i > 0 && key_pass(text, "}:") ? number : -1;
}

bool
key_take(const struct mailbox *mailbox, struct slice name, struct key *key)
{
	struct slice whole = name;
	int64_t partition;

	if (!key_pass(&name, mailbox->prefix) || !key_pass(&name, ":{"))
		return false;
	partition = pass_partition(&name);
	if (partition < 0 || partition >= mailbox->partitions)
		return false;
	*key = (struct key){.partition = (uint32_t)partition, .rest = name};
	stem_init(&key->stem, mailbox->prefix, key->partition);
	/* Digits as we write them, not those of another writer's "{01}". */
	return pass_start(&whole,
	    (struct slice){(const uint8_t *)key->stem.text, key->stem.bytes});
}

/* A prefix may hold what a pattern takes for its own. */
static void
add_pattern(struct commands *commands, const char *prefix)
{
	char text[2 * MAILBOX_PREFIX_MAX + 8];
	size_t bytes = 0;

	for (; *prefix != '\0'; prefix++) {
		if (strchr("*?[]\\^-", *prefix) != NULL)
			text[bytes++] = '\\';
		text[bytes++] = *prefix;
	}
	snprintf(&text[bytes], sizeof(text) - bytes, ":{*}:*");
	commands_text(commands, text);
}

void
keys_ask(struct commands *commands, const struct mailbox *mailbox,
    const char *cursor)
{
	commands_begin(commands, 6, "SCAN");
	commands_text(commands, cursor);
	commands_text(commands, "MATCH");
	add_pattern(commands, mailbox->prefix);
	commands_text(commands, "COUNT");
	commands_u64(commands, PAGE_COUNT);
}
