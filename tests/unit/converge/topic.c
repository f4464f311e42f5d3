#include "topic.h"

#include <string.h>

#include "dice.h"
#include "stream/pack.h"

struct topic topics[PARTITIONS] = {
    {.partition = 0, .users = {"ann", "bob", "cid", "eve"}},
    {.partition = 1, .users = {"dan", "gus", "joy", "kim"}},
};

struct mailbox mailbox = {"qim", "topic", PARTITIONS, 1, 1};

struct slice
conversation_of(const struct said *said)
{
	return slice_of(said->seq % 3 == 0 ? "c" : "d");
}

static void
pack_value(struct buf *buf, const struct topic *topic, struct said said)
{
	struct dispatch dispatch = {.conversation_seq = said.seq,
	    .created_at_ms = 100 + said.digest,
	    .chunk = said.chunk,
	    .chunk_count = 2,
	    .conversation.bytes = conversation_of(&said),
	    .message.bytes = slice_of("m"),
	    .sender.bytes = slice_of(topic->users[0]),
	    .payload = slice_of("\x01")};
	struct buf to = {0};

	memset(dispatch.id, (int)(said.seq + said.chunk), HASH_BYTES);
	memset(dispatch.digest, said.digest, HASH_BYTES);
	for (int i = 0; i < USERS; i++)
		if ((said.users & 1 << i) != 0) {
			pack_text(&to, topic->users[i]);
			dispatch.to_count++;
		}
	dispatch.to = cursor_of(slice_of_buf(&to));
	dispatch_pack(buf, &dispatch);
	buf_release(&to);
}

static void
add_record(struct topic *topic, struct said said)
{
	struct buf *buf = &topic->values[topic->count];

	topic->said[topic->count++] = said;
	buf_reset(buf);
	if (said.seq > 0)
		pack_value(buf, topic, said);
	else if (said.digest > 0)
		buf_append(buf, &said.digest, 1);
}

/* Copies come of what came since `epoch`: after a while none of it does. */
void
topic_make(struct topic *topic)
{
	uint32_t messages = 3 + random_below(9), epoch = 0;
	struct said all[16];

	topic->count = topic->start = 0;
	for (uint32_t i = 0; i < messages; i++) {
		uint32_t since = i + 1 - epoch;

		all[i] = (struct said){i + 1, 1 + random_below(2), 1,
		    (uint8_t)(1 + random_below(15))};
		add_record(topic, all[i]);
		if (chance(30))
			add_record(topic, all[epoch + random_below(since)]);
		if (chance(10)) {
			struct said other = all[epoch + random_below(since)];

			other.digest++;
			add_record(topic, other);
		}
		if (chance(10))
			add_record(topic, (struct said){0}); /* no record */
		if (chance(5))
			add_record(topic, (struct said){.digest = 0x91});
		if (chance(15))
			epoch = i + 1;
	}
}

size_t
topic_first_copy(const struct topic *topic, size_t offset)
{
	size_t first = 0;

	while (topic->said[first].seq != topic->said[offset].seq)
		first++;
	return first;
}

bool
topic_is_for(const struct topic *topic, size_t offset, size_t user)
{
	const struct said *said = &topic->said[offset];

	return said->seq > 0 && (said->users & 1U << user) != 0 &&
	    topic_first_copy(topic, offset) == offset;
}

bool
topic_is_settled(const struct topic *topic, size_t mark)
{
	for (size_t i = mark; i < topic->count; i++)
		if (topic->said[i].seq > 0 && topic_first_copy(topic, i) < mark)
			return false;
	return true;
}
