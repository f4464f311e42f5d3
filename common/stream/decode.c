/*
 * The maps of hello, batch and receipt.  Keys may stand in any order, each
 * once; a key that isn't known is passed over (hello keeps it, so that a
 * stage hands it on).
 */
#include <stdlib.h>

#include "stream/pack.h"
#include "stream/stream.h"

static const char *const kind_names[] = {
    "records", "dispatches", "receipts", "any"};

const char *
stream_kind_name(enum stream_kind kind)
{
	return kind_names[kind];
}

/* The pairs of a map, taken one by one. */
struct pairs {
	struct cursor cursor;
	uint32_t left;
	uint32_t seen; /* bit per name of `names` */
	const char *const *names;
	const char *what;
	bool no_memory; /* then cursor.bad is set too */
};

#define UNKNOWN (-2)

static void
open_pairs(struct pairs *pairs, struct slice map, const char *const *names,
    const char *what)
{
	*pairs = (struct pairs){
	    .cursor = cursor_of(map), .names = names, .what = what};
	pairs->left = cursor_map(&pairs->cursor);
}

/* The index of the next pair's key in names, UNKNOWN with the cursor at its
 * value; -1 when there are no more, or with cursor.bad set. */
static int
next_pair(struct pairs *pairs)
{
	struct slice key;

	if (pairs->left == 0 || pairs->cursor.bad)
		return -1;
	pairs->left--;
	key = cursor_str(&pairs->cursor);
	if (pairs->cursor.bad)
		return -1;
	for (int i = 0; pairs->names[i] != NULL; i++) {
		if (!slice_is(key, pairs->names[i]))
			continue;
		if ((pairs->seen & 1U << i) != 0) {
			pairs->cursor.bad = true;
			return -1;
		}
		pairs->seen |= 1U << i;
		return i;
	}
	return UNKNOWN;
}

static int
close_pairs(const struct pairs *pairs, uint32_t wanted, struct err *err)
{
	uint32_t missing = wanted & ~pairs->seen;

	if (pairs->no_memory)
		return err_memory(err, "input: frame");
	if (!cursor_done(&pairs->cursor))
		return err_set(err, EX_DATAERR,
		    "input: %s: a field of the wrong type, or twice",
		    pairs->what);
	for (int i = 0; pairs->names[i] != NULL; i++)
		if ((missing & 1U << i) != 0)
			return err_set(err, EX_DATAERR,
			    "input: %s: no field '%s'", pairs->what,
			    pairs->names[i]);
	return 0;
}

/* More partitions than any run has; bounds what is allocated by a count. */
#define ITEMS_MAX 100000

static void *
allocate_items(struct pairs *pairs, uint32_t count, size_t bytes)
{
	void *items = NULL;

	if (count <= ITEMS_MAX) {
		items = calloc(count == 0 ? 1 : count, bytes);
		pairs->no_memory = items == NULL;
	}
	if (items == NULL)
		pairs->cursor.bad = true;
	return items;
}

static bool
is_topic(struct slice topic)
{
	return topic.bytes > 0 && topic.bytes <= 249 &&
	    memchr(topic.data, '\0', topic.bytes) == NULL;
}

static void
decode_starts(struct pairs *pairs, struct hello *hello)
{
	struct cursor *cursor = &pairs->cursor;
	uint32_t count = cursor_array(cursor), beyond;

	hello->start = allocate_items(pairs, count, sizeof(*hello->start));
	for (uint32_t i = 0; i < count && !cursor->bad; i++) {
		struct start *start = &hello->start[i];

		beyond = cursor_array_of(cursor, 4);
		start->topic = cursor_str(cursor);
		start->partition = cursor_i32(cursor);
		start->offset = cursor_i64(cursor);
		start->how = cursor_str(cursor);
		cursor_skip(cursor, beyond);
		if (!is_topic(start->topic) || start->partition < 0 ||
		    start->offset < 0)
			cursor->bad = true;
	}
	hello->start_count = count;
}

static void
decode_kind(struct cursor *cursor, struct hello *hello)
{
	struct slice kind = cursor_str(cursor);

	hello->kind = STREAM_RECORDS;
	while (hello->kind < STREAM_ANY &&
	    !slice_is(kind, stream_kind_name(hello->kind)))
		hello->kind++;
}

/* The version comes before all else: another one may have other fields. */
static int
check_version(struct slice map, struct err *err)
{
	static const char *const names[] = {"qim", NULL};
	struct pairs pairs;
	uint64_t major = 0;
	int field;

	open_pairs(&pairs, map, names, "hello");
	while ((field = next_pair(&pairs)) != -1) {
		if (field == 0)
			major = cursor_u64(&pairs.cursor);
		else
			cursor_skip(&pairs.cursor, 1);
	}
	if (pairs.seen == 0 || pairs.cursor.bad)
		return err_set(
		    err, EX_DATAERR, "input: the first frame isn't a hello");
	if (major != STREAM_MAJOR)
		return err_set(err, EX_PROTOCOL,
		    "input: stream version %llu, wants %d",
		    (unsigned long long)major, STREAM_MAJOR);
	return 0;
}

static void
keep_unknown(struct cursor *cursor, const uint8_t *key, struct hello *hello,
    struct buf *extra)
{
	cursor_skip(cursor, 1);
	pack_raw(extra, (struct slice){key, (size_t)(cursor->at - key)});
	hello->extra_count++;
}

int
hello_decode(
    struct slice map, struct hello *hello, struct buf *extra, struct err *err)
{
	enum {
		QIM,
		MINOR,
		KIND,
		FROM,
		RUN,
		TOPIC,
		GROUP,
		START,
		PARTITIONS,
		RECIPIENTS,
		DURABLE
	};
	static const char *const names[] = {"qim", "minor", "kind", "from",
	    "run", "topic", "group", "start", "partitions", "max_recipients",
	    "durable", NULL};
	const uint32_t wanted = 1U << QIM | 1U << KIND | 1U << FROM |
	    1U << RUN | 1U << TOPIC | 1U << START;
	struct pairs pairs;
	struct cursor *cursor = &pairs.cursor;
	const uint8_t *key;
	int field;

	*hello = (struct hello){0};
	if (check_version(map, err) < 0)
		return -1;
	open_pairs(&pairs, map, names, "hello");
	while (key = cursor->at, (field = next_pair(&pairs)) != -1) {
		if (field == KIND)
			decode_kind(cursor, hello);
		else if (field == FROM)
			hello->from = cursor_str(cursor);
		else if (field == RUN)
			hello->run = cursor_u64(cursor);
		else if (field == TOPIC)
			hello->topic = cursor_str(cursor);
		else if (field == GROUP)
			hello->group = cursor_str_or_nil(cursor);
		else if (field == START)
			decode_starts(&pairs, hello);
		else if (field == PARTITIONS)
			hello->partitions = cursor_u32(cursor);
		else if (field == RECIPIENTS)
			hello->max_recipients = cursor_u32(cursor);
		else if (field == DURABLE)
			hello->durable = cursor_bool(cursor);
		else if (field == UNKNOWN)
			keep_unknown(cursor, key, hello, extra);
		else
			cursor_u64(cursor);
	}
	if (!is_topic(hello->topic))
		cursor->bad = true;
	hello->extra = slice_of_buf(extra);
	return close_pairs(&pairs, wanted, err);
}

static struct slice
decode_ranges(struct pairs *pairs, struct item_head *head)
{
	struct cursor *cursor = &pairs->cursor;
	const uint8_t *start = cursor->at;
	uint32_t beyond;

	head->src_count = cursor_array(cursor);
	head->src = allocate_items(pairs, head->src_count, sizeof(*head->src));
	for (uint32_t i = 0; i < head->src_count && !cursor->bad; i++) {
		struct range *range = &head->src[i];

		beyond = cursor_array_of(cursor, 4);
		range->topic = cursor_str(cursor);
		range->partition = cursor_i32(cursor);
		range->from = cursor_i64(cursor);
		range->next = cursor_i64(cursor);
		cursor_skip(cursor, beyond);
		if (!is_topic(range->topic) || range->partition < 0 ||
		    range->from < 0)
			cursor->bad = true;
	}
	return (struct slice){start, (size_t)(cursor->at - start)};
}

static void
decode_steps(struct cursor *cursor, struct item_head *head)
{
	head->at_count = cursor_array(cursor);
	head->at.data = cursor->at;
	cursor_skip(cursor, head->at_count);
	head->at.bytes = (size_t)(cursor->at - head->at.data);
}

/* The records are left in place; written last, they needn't be passed. */
static void
decode_records(struct pairs *pairs, struct batch *batch)
{
	struct cursor *cursor = &pairs->cursor;

	batch->rec_count = cursor_array(cursor);
	batch->rec = *cursor;
	if (pairs->left == 0)
		cursor->at = cursor->end;
	else
		cursor_skip(cursor, batch->rec_count);
}

int
batch_decode(struct slice map, struct batch *batch, struct slice *src_raw,
    struct err *err)
{
	enum {
		BATCH,
		SRC,
		REC,
		AT,
		PART,
		MORE
	};
	static const char *const names[] = {
	    "batch", "src", "rec", "at", "part", "more", NULL};
	struct pairs pairs;
	struct cursor *cursor = &pairs.cursor;
	int field;

	*batch = (struct batch){0};
	open_pairs(&pairs, map, names, "batch");
	while ((field = next_pair(&pairs)) != -1) {
		if (field == BATCH)
			batch->head.number = cursor_u64(cursor);
		else if (field == SRC)
			*src_raw = decode_ranges(&pairs, &batch->head);
		else if (field == REC)
			decode_records(&pairs, batch);
		else if (field == AT)
			decode_steps(cursor, &batch->head);
		else if (field == PART)
			batch->part = cursor_u32(cursor);
		else if (field == MORE)
			batch->more = cursor_bool(cursor);
		else
			cursor_skip(cursor, 1);
	}
	if (batch->rec_count > STREAM_RECORDS_MAX)
		return err_set(err, EX_DATAERR,
		    "input: batch %llu: %lu records in a frame, the limit is "
		    "%d",
		    (unsigned long long)batch->head.number,
		    (unsigned long)batch->rec_count, STREAM_RECORDS_MAX);
	return close_pairs(&pairs, 1U << BATCH | 1U << SRC | 1U << REC, err);
}

int
receipt_decode(struct slice map, struct receipt *receipt, struct err *err)
{
	enum {
		BATCH,
		SRC,
		IN,
		OUT,
		DEAD,
		BYTES,
		AT
	};
	static const char *const names[] = {
	    "batch", "src", "in", "out", "dead", "bytes", "at", NULL};
	struct pairs pairs;
	struct cursor *cursor = &pairs.cursor;
	int field;

	*receipt = (struct receipt){0};
	open_pairs(&pairs, map, names, "receipt");
	while ((field = next_pair(&pairs)) != -1) {
		if (field == BATCH)
			receipt->head.number = cursor_u64(cursor);
		else if (field == SRC)
			decode_ranges(&pairs, &receipt->head);
		else if (field == IN)
			receipt->in = cursor_u64(cursor);
		else if (field == OUT)
			receipt->out = cursor_u64(cursor);
		else if (field == DEAD)
			receipt->dead = cursor_u64(cursor);
		else if (field == BYTES)
			receipt->bytes = cursor_u64(cursor);
		else if (field == AT)
			decode_steps(cursor, &receipt->head);
		else
			cursor_skip(cursor, 1);
	}
	return close_pairs(&pairs,
	    1U << BATCH | 1U << SRC | 1U << IN | 1U << OUT | 1U << DEAD, err);
}
