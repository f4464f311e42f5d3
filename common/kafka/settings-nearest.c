/* "Did you mean": the known property nearest to an unknown one. */
#include <stdio.h>
#include <string.h>

#include "kafka/settings.h"

#define NAME_BYTES_MAX 64

/* More edits than a quarter of its letters, and it is another word. */
#define LETTERS_PER_EDIT 4

static size_t
least_of(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* Insertions, deletions and replacements from a to b (Levenshtein). */
static size_t
edits(const char *a, const char *b)
{
	size_t row[NAME_BYTES_MAX + 1];
	size_t columns = strlen(b);

	if (columns > NAME_BYTES_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= columns; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= columns; j++) {
			size_t above = row[j];

			row[j] = least_of(above + 1, row[j - 1] + 1,
			    diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[columns];
}

/* Looks through a dump: names and values in turn. */
static size_t
search(const char *name, const char **dump, size_t count, size_t least,
    char *out, size_t out_bytes)
{
	for (size_t i = 0; dump != NULL && i + 1 < count; i += 2) {
		size_t distance = edits(name, dump[i]);

		if (distance < least) {
			least = distance;
			snprintf(out, out_bytes, "%s", dump[i]);
		}
	}
	return least;
}

bool
settings_nearest(const char *name, char *out, size_t out_bytes)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
	size_t most = 1 + strlen(name) / LETTERS_PER_EDIT;
	size_t count, least = most + 1;
	const char **dump = rd_kafka_conf_dump(conf, &count);

	least = search(name, dump, count, least, out, out_bytes);
	rd_kafka_conf_dump_free(dump, count);
	dump = rd_kafka_topic_conf_dump(topic_conf, &count);
	least = search(name, dump, count, least, out, out_bytes);
	rd_kafka_conf_dump_free(dump, count);
	rd_kafka_topic_conf_destroy(topic_conf);
	rd_kafka_conf_destroy(conf);
	/* A dump has only the first name of a property that has two. */
	dump = settings_aliases(&count);
	return search(name, dump, count, least, out, out_bytes) <= most;
}
