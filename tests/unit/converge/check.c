#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

void
complain(const char *format, ...)
{
	va_list arguments;

	if (*world.wrong != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(world.wrong, sizeof(world.wrong), format, arguments);
	va_end(arguments);
}

const struct row *
find_row(const struct model *model, const struct topic *topic, const char *kind,
    const char *id, struct slice field)
{
	char key[64];
	size_t i;

	snprintf(key, sizeof(key), "qim:{%u}:%s%s", (unsigned)topic->partition,
	    kind, id);
	i = model_find(model, slice_of(key), field);
	return i == model->data.count ? NULL : model->data.slots[i].row;
}

size_t
mark_of(const struct model *model, const struct topic *topic)
{
	const struct row *rows[MODEL_ROWS];
	char key[32];

	snprintf(key, sizeof(key), "qim:{%u}:mark", (unsigned)topic->partition);
	if (model_rows(model, slice_of(key), rows) == 0)
		return 0;
	return (size_t)rows[0]->score;
}

uint64_t
floor_of(const struct model *model, const struct topic *topic, const char *user)
{
	const struct row *row =
	    find_row(model, topic, "floor", "", slice_of(user));

	return row == NULL ? 0 : row->score;
}

/* Claims of later messages of the conversation that may keep their body. */
static size_t
count_newer(const struct topic *topic, size_t offset)
{
	const struct said *said = &topic->said[offset];
	size_t count = 0;

	for (size_t i = 0; i < topic->count; i++)
		count += topic->said[i].seq > said->seq &&
		    topic->said[i].chunk == 1 &&
		    topic_first_copy(topic, i) == i &&
		    slice_equal(conversation_of(&topic->said[i]),
			conversation_of(said));
	return count;
}

static bool
may_lack_body(const struct topic *topic, size_t offset)
{
	return world.rules.bodies != TRIM_NONE &&
	    count_newer(topic, offset) >= world.rules.bodies;
}

static bool
may_lack_claim(const struct topic *topic, size_t offset)
{
	return world.rules.retention_days != TRIM_NONE &&
	    offset < topic->start && may_lack_body(topic, offset);
}

static void
check_claim(const struct model *model, const struct topic *topic, size_t offset,
    bool trimmed)
{
	const struct said *said = &topic->said[offset];
	char field[FIELD_TEXT_BYTES];
	const struct row *row;
	struct claim claim;
	struct err err;

	log_field(said->seq, said->chunk, field);
	row = find_row(model, topic,
	    "log:", (const char *)conversation_of(said).data, slice_of(field));
	if (row == NULL) {
		if (!trimmed || !may_lack_claim(topic, offset))
			complain("claim of %u/%zu: missing", topic->partition,
			    offset);
		return;
	}
	if (claim_decode(row->value, &claim, &err) < 0)
		complain(
		    "claim of %u/%zu: %s", topic->partition, offset, err.text);
	else if (claim.offset != (int64_t)offset ||
	    claim.digest.data[0] != said->digest)
		complain("claim of %u/%zu: another's, at %lld",
		    topic->partition, offset, (long long)claim.offset);
	else if (claim.has_body != (said->chunk == 1) &&
	    !(trimmed && may_lack_body(topic, offset)))
		complain("claim of %u/%zu: its body", topic->partition, offset);
}

/* The entries of a first copy; returns how many there are. */
static size_t
check_entries(const struct model *model, const struct topic *topic,
    size_t offset, bool trimmed)
{
	const struct said *said = &topic->said[offset];
	struct buf member = {0};
	size_t count = 0;

	for (size_t i = 0; i < USERS; i++) {
		const char *user = topic->users[i];
		const struct row *row;

		if (!topic_is_for(topic, offset, i))
			continue;
		buf_reset(&member);
		reference_pack(
		    &member, conversation_of(said), said->seq, i == 0);
		row =
		    find_row(model, topic, "box:", user, slice_of_buf(&member));
		count += row != NULL;
		if (row != NULL && row->score != offset + 1)
			complain("entry of %u/%zu for %s: mailbox_seq %llu",
			    topic->partition, offset, user,
			    (unsigned long long)row->score);
		if (row == NULL &&
		    !(trimmed && offset < floor_of(model, topic, user)))
			complain("entry of %u/%zu for %s: missing",
			    topic->partition, offset, user);
	}
	buf_release(&member);
	return count;
}

static size_t
count_kind(
    const struct model *model, const struct topic *topic, const char *kind)
{
	char start[64];
	size_t bytes = (size_t)snprintf(start, sizeof(start), "qim:{%u}:%s",
	    (unsigned)topic->partition, kind);
	size_t count = 0;

	for (size_t i = 0; i < model->data.count; i++) {
		struct slice key = model->data.slots[i].row->key;

		count +=
		    key.bytes >= bytes && memcmp(key.data, start, bytes) == 0;
	}
	return count;
}

static void
check_noted(const struct model *model, const struct topic *topic, size_t offset,
    uint8_t digest)
{
	uint8_t field[2 * HASH_BYTES];

	memset(field,
	    (int)(topic->said[offset].seq + topic->said[offset].chunk),
	    HASH_BYTES);
	memset(field + HASH_BYTES, digest, HASH_BYTES);
	if (find_row(model, topic, "quarantine", "",
		(struct slice){field, sizeof(field)}) == NULL)
		complain(
		    "conflict of %u/%zu: not noted", topic->partition, offset);
}

static void
check_topic(const struct model *model, const struct topic *topic, bool trimmed)
{
	size_t entries = 0, bad = 0;

	if (mark_of(model, topic) != topic->count)
		complain("mark of %u: %zu of %zu", topic->partition,
		    mark_of(model, topic), topic->count);
	for (size_t i = 0; i < topic->count; i++) {
		const struct said *said = &topic->said[i];
		size_t first = topic_first_copy(topic, i);

		if (said->seq == 0) {
			bad += said->digest > 0;
			continue;
		}
		if (first == i) {
			check_claim(model, topic, i, trimmed);
			entries += check_entries(model, topic, i, trimmed);
		} else if (said->digest != topic->said[first].digest) {
			check_noted(model, topic, i, said->digest);
			check_noted(model, topic, i, topic->said[first].digest);
			bad++;
		}
	}
	if (count_kind(model, topic, "box:") != entries)
		complain(
		    "boxes of %u: hold what isn't theirs", topic->partition);
	if ((count_kind(model, topic, "quarantine") > 0) != (bad > 0))
		complain("quarantine of %u", topic->partition);
}

void
check_state(const struct model *model, bool trimmed)
{
	for (size_t i = 0; i < PARTITIONS; i++)
		check_topic(model, &topics[i], trimmed);
}

/* What a plain run has not, or what check_state() looks at in full. */
static bool
is_other(const struct row *row, bool trimmed)
{
	struct slice key = row->key;

	return key_is(key, "round:") || key_is(key, "device:") ||
	    key_is(key, "floor") || key_is(key, "times") ||
	    (trimmed && (key_is(key, "box:") || key_is(key, "log:")));
}

/* A trimmed claim is kept as it is in quarantine. */
static bool
has_value(const struct row *a, const struct row *b, bool trimmed)
{
	return a->score == b->score &&
	    (slice_equal(a->value, b->value) ||
		(trimmed && key_is(a->key, "quarantine")));
}

static void
check_rows(const struct model *a, const struct model *b, const char *name)
{
	bool trimmed = world.has_trims;

	for (size_t i = 0; i < a->data.count; i++) {
		const struct row *row = a->data.slots[i].row;
		size_t at = model_find(b, row->key, row->field);

		if (is_other(row, trimmed))
			continue;
		if (at == b->data.count ||
		    !has_value(row, b->data.slots[at].row, trimmed))
			complain("%.*s: only the %s has it so",
			    (int)row->key.bytes, (const char *)row->key.data,
			    name);
	}
}

void
check_same(const struct model *plain, const struct model *model)
{
	check_rows(plain, model, "plain run");
	check_rows(model, plain, "other run");
}
