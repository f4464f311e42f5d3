#include "kafka/start.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/msg.h"
#include "base/opt.h"

static const char *const words[] = {
    [START_STORED] = "stored",
    [START_BEGINNING] = "beginning",
    [START_END] = "end",
    [START_OFFSET] = "an offset",
    [START_TIME] = "s@MS",
    [START_FILE] = "@FILE",
};

static int
refuse(const char *name, const char *text, unsigned allowed, struct err *err)
{
	char list[64] = "";

	for (unsigned i = 0; i < START_NONE; i++) {
		if ((allowed & 1U << i) == 0)
			continue;
		if (list[0] != '\0')
			strncat(list, ", ", sizeof(list) - strlen(list) - 1);
		strncat(list, words[i], sizeof(list) - strlen(list) - 1);
	}
	return err_set(
	    err, EX_USAGE, "%s: '%s': wants one of: %s", name, text, list);
}

static enum start_where
parse_where(const char *text, struct start_rule *rule)
{
	struct err ignored;
	uint64_t number;
	bool is_time = strncmp(text, "s@", 2) == 0;

	for (enum start_where i = START_STORED; i <= START_END; i++)
		if (strcmp(text, words[i]) == 0)
			return i;
	if (text[0] == '@' && text[1] != '\0') {
		rule->path = text + 1;
		return START_FILE;
	}
	if (opt_number("", is_time ? text + 2 : text, 0, INT64_MAX, NULL,
		&number, &ignored) < 0)
		return START_NONE;
	rule->number = (int64_t)number;
	return is_time ? START_TIME : START_OFFSET;
}

int
start_parse(const char *name, const char *text, unsigned allowed,
    struct start_rule *rule, struct err *err)
{
	*rule = (struct start_rule){.first = START_NONE};
	rule->where = parse_where(text, rule);
	if ((allowed & 1U << rule->where) == 0)
		return refuse(name, text, allowed, err);
	return 0;
}

/* Asks for one offset of every point, each given as `offset`. */
static rd_kafka_topic_partition_list_t *
ask_offsets(struct kafka_client *client, const char *topic,
    const struct start_point *points, size_t count, int64_t offset,
    uint64_t deadline_us, struct err *err)
{
	rd_kafka_topic_partition_list_t *list =
	    rd_kafka_topic_partition_list_new((int)count);

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(
		    list, topic, points[i].partition)
		    ->offset = offset;
	if (kafka_client_offsets(client, list, deadline_us, err) == 0)
		return list;
	rd_kafka_topic_partition_list_destroy(list);
	return NULL;
}

static int
resolve_bounds(struct kafka_client *client, const char *topic,
    uint64_t deadline_us, struct start_point *points, size_t count,
    struct err *err)
{
	rd_kafka_topic_partition_list_t *low, *high;

	low = ask_offsets(client, topic, points, count,
	    RD_KAFKA_OFFSET_BEGINNING, deadline_us, err);
	if (low == NULL)
		return -1;
	high = ask_offsets(client, topic, points, count, RD_KAFKA_OFFSET_END,
	    deadline_us, err);
	for (size_t i = 0; high != NULL && i < count; i++) {
		points[i].low = low->elems[i].offset;
		points[i].high = high->elems[i].offset;
	}
	rd_kafka_topic_partition_list_destroy(low);
	if (high == NULL)
		return -1;
	rd_kafka_topic_partition_list_destroy(high);
	return 0;
}

static int
check_bounds(const char *topic, const struct start_point *points, size_t count,
    struct err *err)
{
	for (size_t i = 0; i < count; i++)
		if (points[i].offset < points[i].low ||
		    points[i].offset > points[i].high)
			return err_set(err, EX_DATAERR,
			    "%s[%d]: offset out of range: start %" PRId64
			    " (%s), the log holds %" PRId64 " to %" PRId64,
			    topic, (int)points[i].partition, points[i].offset,
			    points[i].how, points[i].low, points[i].high);
	return 0;
}

/* Times to offsets; a time behind the last record is the end. */
static int
resolve_times(struct kafka_client *client, const char *topic, int64_t ms,
    uint64_t deadline_us, struct start_point *points, size_t count,
    struct err *err)
{
	rd_kafka_topic_partition_list_t *list =
	    ask_offsets(client, topic, points, count, ms, deadline_us, err);

	if (list == NULL)
		return -1;
	for (size_t i = 0; i < count; i++)
		points[i].offset = list->elems[i].offset < 0
		    ? points[i].high
		    : list->elems[i].offset;
	rd_kafka_topic_partition_list_destroy(list);
	return 0;
}

int
start_resolve_explicit(struct kafka_client *client,
    const struct start_rule *rule, const char *topic, uint64_t deadline_us,
    struct start_point *points, size_t count, struct err *err)
{
	if (resolve_bounds(client, topic, deadline_us, points, count, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		points[i].how = "explicit";
		points[i].offset = rule->where == START_BEGINNING
		    ? points[i].low
		    : rule->where == START_END ? points[i].high
					       : rule->number;
	}
	if (rule->where == START_TIME &&
	    resolve_times(client, topic, rule->number, deadline_us, points,
		count, err) < 0)
		return -1;
	return check_bounds(topic, points, count, err);
}

static int
refuse_first_run(
    const struct start_rule *rule, const char *topic, struct err *err)
{
	if (rule->where == START_FILE)
		return err_set(err, EX_CONFIG,
		    "%s: neither %s nor the group says where to start: wants "
		    "--first beginning or --first end",
		    topic, rule->path);
	return err_set(err, EX_CONFIG,
	    "%s: the group has nothing stored for it: wants --first beginning "
	    "or --first end",
	    topic);
}

/* Marks of a topic of which the group knows nothing: most likely they count
 * the offsets of one that was deleted, and would skip what is new. */
static int
check_recreated(const struct start_rule *rule,
    const struct positions *positions, const char *topic, const int64_t *stored,
    uint32_t partitions, struct err *err)
{
	const struct position *ahead = NULL;

	for (uint32_t i = 0; i < partitions; i++) {
		const struct position *position =
		    positions_find(positions, topic, (int32_t)i);

		if (stored[i] >= 0)
			return 0;
		if (ahead == NULL && position != NULL && position->offset > 0)
			ahead = position;
	}
	if (ahead == NULL)
		return 0;
	return err_set(err, EX_CONFIG,
	    "%s[%d]: %s has position %" PRId64 ", the group has nothing stored "
	    "for the topic: the topic was re-created, or the group is new: "
	    "offset-commit --set %s=... says where to go on",
	    topic, (int)ahead->partition, rule->path, ahead->offset, topic);
}

/* A point that neither the file nor the group knows: of a first run, or of
 * a partition that is new. */
static void
place_unknown(const struct start_rule *rule, bool is_new, const char *topic,
    struct start_point *point)
{
	point->how = "first";
	point->offset = point->low;
	if (!is_new && rule->first == START_END)
		point->offset = point->high;
	if (is_new)
		msg_write(MSG_NOTICE,
		    "%s[%d]: nothing stored, others have: a new partition, "
		    "from its beginning %" PRId64,
		    topic, (int)point->partition, point->offset);
}

/* True when the file or the group knows some partition of the topic. */
static bool
knows_any(const struct positions *positions, const char *topic,
    const int64_t *stored, uint32_t partitions)
{
	for (uint32_t i = 0; i < partitions; i++)
		if (stored[i] >= 0 ||
		    positions_find(positions, topic, (int32_t)i) != NULL)
			return true;
	return false;
}

static void
place(const struct start_rule *rule, const struct positions *positions,
    const char *topic, const int64_t *stored, bool known,
    struct start_point *point)
{
	int64_t offset = stored[point->partition];
	const struct position *position =
	    positions_find(positions, topic, point->partition);

	point->how = "stored";
	if (position != NULL) {
		point->how = "file";
		if (offset < 0 || position->offset < offset)
			offset = position->offset;
	}
	point->offset = offset;
	if (offset < 0)
		place_unknown(rule, known, topic, point);
}

/* A file that knows more partitions than there are is of another topic. */
static int
check_file(const struct start_rule *rule, const struct positions *positions,
    const char *topic, uint32_t partitions, struct err *err)
{
	for (size_t i = 0; i < positions->count; i++) {
		const struct position *position = &positions->all[i];

		if (strcmp(position->topic, topic) == 0 &&
		    (uint32_t)position->partition >= partitions)
			return err_set(err, EX_DATAERR,
			    "%s: line %u: partition %d, %s has %" PRIu32
			    " of them",
			    rule->path, position->line,
			    (int)position->partition, topic, partitions);
	}
	return 0;
}

int
start_resolve(struct kafka_client *client, const struct start_rule *rule,
    const struct positions *positions, const char *topic, uint32_t partitions,
    uint64_t deadline_us, struct start_point *points, size_t count,
    struct err *err)
{
	int64_t *stored;
	bool known;
	int result;

	if (rule->where != START_STORED && rule->where != START_FILE)
		return start_resolve_explicit(
		    client, rule, topic, deadline_us, points, count, err);
	if (check_file(rule, positions, topic, partitions, err) < 0)
		return -1;
	stored =
	    kafka_client_stored(client, topic, partitions, deadline_us, err);
	if (stored == NULL)
		return -1;
	known = knows_any(positions, topic, stored, partitions);
	if (!known && rule->first == START_NONE)
		result = refuse_first_run(rule, topic, err);
	else if (client->has_group && rule->first == START_NONE)
		result = check_recreated(
		    rule, positions, topic, stored, partitions, err);
	else
		result = 0;
	if (result == 0)
		result = resolve_bounds(
		    client, topic, deadline_us, points, count, err);
	for (size_t i = 0; result == 0 && i < count; i++)
		place(rule, positions, topic, stored, known, &points[i]);
	free(stored);
	return result == 0 ? check_bounds(topic, points, count, err) : -1;
}

/* No file is asked: one that knew them would have been refused. */
int
start_resolve_joined(struct kafka_client *client, const struct start_rule *rule,
    const char *topic, uint32_t partitions, uint64_t deadline_us,
    struct start_point *points, size_t count, struct err *err)
{
	const struct start_rule beginning = {.where = START_BEGINNING};
	int64_t *stored;

	if (start_resolve_explicit(
		client, &beginning, topic, deadline_us, points, count, err) < 0)
		return -1;
	if (rule->where != START_STORED && rule->where != START_FILE)
		return 0;
	stored =
	    kafka_client_stored(client, topic, partitions, deadline_us, err);
	if (stored == NULL)
		return -1;
	for (size_t i = 0; i < count; i++) {
		int64_t offset = stored[points[i].partition];

		points[i].how = offset < 0 ? "first" : "stored";
		if (offset >= 0)
			points[i].offset = offset;
	}
	free(stored);
	return check_bounds(topic, points, count, err);
}
