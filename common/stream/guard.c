#include "stream/guard.h"

#include "stream/cursor.h"

static uint64_t
items_of(const struct mp_head *head)
{
	if (head->type == MP_ARRAY)
		return head->count;
	if (head->type == MP_MAP)
		return 2 * (uint64_t)head->count;
	return 0;
}

static bool
has_bytes(const struct mp_head *head)
{
	return head->type == MP_STR || head->type == MP_BIN ||
	    head->type == MP_EXT;
}

int
guard_walk_to(struct slice bytes, size_t depth_max, struct err *err)
{
	const uint8_t *at = bytes.data, *end = bytes.data + bytes.bytes;
	uint64_t left[GUARD_DEPTH_MAX + 2]; /* items to come, per level */
	size_t depth = 0;
	struct mp_head head;
	uint64_t items;

	left[0] = 1;
	while (depth > 0 || left[0] > 0) {
		if (left[depth] == 0) {
			depth--;
			continue;
		}
		left[depth]--;
		head = (struct mp_head){0};
		if (!mp_read_head(&at, end, &head))
			return err_set(err, EX_DATAERR,
			    "msgpack: cut short or a reserved byte at %zu "
			    "of %zu",
			    (size_t)(at - bytes.data), bytes.bytes);
		items = items_of(&head);
		if ((has_bytes(&head) ? head.count : items) >
		    (uint64_t)(end - at))
			return err_set(err, EX_DATAERR,
			    "msgpack: %llu declared at %zu, %zu bytes left",
			    (unsigned long long)(items > 0 ? items
							   : head.count),
			    (size_t)(at - bytes.data), (size_t)(end - at));
		if (has_bytes(&head))
			at += head.count;
		if (items == 0)
			continue;
		if (depth == depth_max)
			return err_set(err, EX_DATAERR,
			    "msgpack: nested deeper than %zu", depth_max);
		left[++depth] = items;
	}
	if (at != end)
		return err_set(err, EX_DATAERR,
		    "msgpack: %zu bytes left over after %zu",
		    (size_t)(end - at), (size_t)(at - bytes.data));
	return 0;
}

int
guard_walk(struct slice bytes, struct err *err)
{
	return guard_walk_to(bytes, GUARD_DEPTH_MAX, err);
}
