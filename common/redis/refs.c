#include "redis/refs.h"

#include <stdlib.h>

#define ROOM_LEAST 256

int
refs_add(struct refs *refs, const struct reference *reference,
    uint64_t mailbox_seq, struct err *err)
{
	if (refs->count == refs->room) {
		size_t room = refs->room == 0 ? ROOM_LEAST : 2 * refs->room;
		struct ref *all = realloc(
		    refs->all, checked_multiply(room, sizeof(*refs->all)));

		if (all == NULL)
			return err_memory(err, "box");
		refs->all = all;
		refs->room = room;
	}
	refs->all[refs->count++] =
	    (struct ref){*reference, refs->ids.bytes, mailbox_seq};
	buf_append(&refs->ids, reference->conversation.data,
	    reference->conversation.bytes);
	return refs->ids.failed ? err_memory(err, "box") : 0;
}

static int
compare_place(
    const struct reference *a, struct slice conversation, uint64_t seq)
{
	int order = slice_compare(a->conversation, conversation);

	return order != 0 ? order : (a->seq > seq) - (a->seq < seq);
}

static int
compare_refs(const void *a, const void *b)
{
	const struct reference *left = &((const struct ref *)a)->reference;
	const struct reference *right = &((const struct ref *)b)->reference;
	int order = compare_place(left, right->conversation, right->seq);

	return order != 0 ? order : left->own - right->own;
}

void
refs_sort(struct refs *refs)
{
	struct ref *all = refs->all;
	size_t count = 0;

	/* The buffer no longer moves. */
	for (size_t i = 0; i < refs->count; i++)
		all[i].reference.conversation.data =
		    refs->ids.data + all[i].conversation_at;
	if (refs->count > 0)
		qsort(all, refs->count, sizeof(*all), compare_refs);
	for (size_t i = 0; i < refs->count; i++)
		if (count == 0 ||
		    compare_place(&all[count - 1].reference,
			all[i].reference.conversation,
			all[i].reference.seq) != 0)
			all[count++] = all[i];
	refs->count = count;
}

size_t
refs_find(const struct refs *refs, struct slice conversation, uint64_t seq)
{
	size_t low = 0, high = refs->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_place(
			&refs->all[middle].reference, conversation, seq) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void
refs_release(struct refs *refs)
{
	free(refs->all);
	buf_release(&refs->ids);
	*refs = (struct refs){0};
}
