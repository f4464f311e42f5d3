#include "redis/joins.h"

#include <xxhash.h>

void
joins_reset(struct joins *joins)
{
	joins->count = 0;
	memset(joins->heads, -1, sizeof(joins->heads));
}

static uint32_t
hash_user(const struct stem *stem, struct slice user)
{
	return (uint32_t)(XXH3_64bits_withSeed(
			      user.data, user.bytes, (uintptr_t)stem) %
	    JOINS_HEADS);
}

static struct join *
find_first(struct joins *joins, int16_t head, const struct join *join)
{
	for (; head >= 0; head = joins->all[head].other) {
		struct join *first = &joins->all[head];

		if (first->stem == join->stem &&
		    slice_equal(first->user, join->user))
			return first;
	}
	return NULL;
}

void
joins_add(struct joins *joins, const struct stem *stem, struct slice user,
    const struct entry *entry)
{
	int16_t index = (int16_t)joins->count++;
	int16_t *head = &joins->heads[hash_user(stem, user)];
	struct join *join = &joins->all[index], *first;

	*join = (struct join){stem, user, entry, .next = -1, .other = *head,
	    .last = index, .count = 1};
	join->own = user.data != NULL &&
	    slice_equal(user, entry->dispatch.sender.bytes);
	first = find_first(joins, *head, join);
	if (first == NULL) {
		*head = index;
		return;
	}
	joins->all[first->last].next = index;
	first->last = index;
	first->count++;
	join->count = 0;
}

/* The sender's own reference is the recipients' with one item more. */
static void
add_reference(struct commands *commands, const struct join *join)
{
	struct slice reference = join->entry->reference;
	const struct slice own[] = {
	    {(const uint8_t *)"\x93", 1},
	    {reference.data + 1, reference.bytes - 1},
	    {(const uint8_t *)"\xc3", 1},
	};

	if (join->own)
		commands_pieces(commands, own, 3);
	else
		commands_slice(commands, reference);
}

static void
begin(const struct join *first, const char *option, const char *kind,
    struct commands *commands)
{
	commands_begin(commands, 3 + 2 * (uint32_t)first->count, "ZADD");
	mailbox_key(commands, first->stem, kind, first->user);
	commands_text(commands, option);
}

static const struct join *
next(const struct joins *joins, const struct join *join)
{
	return join->next < 0 ? NULL : &joins->all[join->next];
}

static void
emit_top(const struct joins *joins, const struct join *first,
    struct commands *commands)
{
	begin(first, "GT", "top", commands);
	for (const struct join *join = first; join != NULL;
	     join = next(joins, join)) {
		const struct dispatch *dispatch = &join->entry->dispatch;

		commands_u64(commands, dispatch->conversation_seq);
		commands_slice(commands, dispatch->conversation.bytes);
	}
}

static void
emit_user(const struct joins *joins, const struct join *first,
    struct commands *commands)
{
	begin(first, "NX", "box:", commands);
	for (const struct join *join = first; join != NULL;
	     join = next(joins, join)) {
		commands_u64(commands, (uint64_t)join->entry->first + 1);
		add_reference(commands, join);
	}
	begin(first, "GT", "conv:", commands);
	for (const struct join *join = first; join != NULL;
	     join = next(joins, join)) {
		const struct dispatch *dispatch = &join->entry->dispatch;

		commands_u64(commands, dispatch->created_at_ms);
		commands_slice(commands, dispatch->conversation.bytes);
	}
}

void
joins_emit(const struct joins *joins, struct commands *commands)
{
	for (size_t i = 0; i < joins->count; i++) {
		const struct join *join = &joins->all[i];

		if (join->count == 0)
			continue;
		if (join->user.data == NULL)
			emit_top(joins, join, commands);
		else
			emit_user(joins, join, commands);
	}
}
