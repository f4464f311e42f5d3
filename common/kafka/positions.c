#include "kafka/positions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/topic.h"

static int
compare(const void *a, const void *b)
{
	const struct position *left = a, *right = b;
	int order = strcmp(left->topic, right->topic);

	if (order != 0)
		return order;
	return (left->partition > right->partition) -
	    (left->partition < right->partition);
}

/* Cuts the next field off *at; NULL at the end of the line. */
static char *
next_field(char **at)
{
	char *field = *at + strspn(*at, " \t\r");
	char *end = field + strcspn(field, " \t\r");

	if (*field == '\0')
		return NULL;
	*at = *end == '\0' ? end : end + 1;
	*end = '\0';
	return field;
}

static bool
scan_number(const char *text, int64_t most, int64_t *number)
{
	*number = 0;
	if (text == NULL || *text == '\0')
		return false;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, *text - '0', number))
			return false;
	return *text == '\0' && *number <= most;
}

/* 1 a position, 0 an empty line, -1 neither. */
static int
parse_line(char *line, struct position *position)
{
	char *partition, *offset;
	int64_t number;

	line[strcspn(line, "#")] = '\0';
	position->topic = next_field(&line);
	if (position->topic == NULL)
		return 0;
	partition = next_field(&line);
	offset = next_field(&line);
	if (!topic_is_name(slice_of(position->topic)) ||
	    !scan_number(partition, INT32_MAX, &number) ||
	    !scan_number(offset, INT64_MAX, &position->offset) ||
	    next_field(&line) != NULL)
		return -1;
	position->partition = (int32_t)number;
	return 1;
}

static int
parse(struct positions *positions, const char *path, struct err *err)
{
	char *line = positions->text;
	char *end;

	for (unsigned number = 1; line != NULL; number++) {
		struct position *position = &positions->all[positions->count];
		int result;

		end = strchr(line, '\n');
		if (end != NULL)
			*end = '\0';
		position->line = number;
		result = parse_line(line, position);
		if (result < 0)
			return err_set(err, EX_DATAERR,
			    "%s: line %u: wants 'topic partition offset'", path,
			    number);
		positions->count += result == 1;
		line = end == NULL ? NULL : end + 1;
	}
	return 0;
}

static int
check_twice(
    const struct positions *positions, const char *path, struct err *err)
{
	for (size_t i = 1; i < positions->count; i++) {
		const struct position *a = &positions->all[i - 1];
		const struct position *b = &positions->all[i];

		if (compare(a, b) == 0)
			return err_set(err, EX_DATAERR,
			    "%s: line %u: %s %d stands in line %u too", path,
			    a->line > b->line ? a->line : b->line, b->topic,
			    (int)b->partition,
			    a->line > b->line ? b->line : a->line);
	}
	return 0;
}

int
positions_read(struct positions *positions, const char *path, struct err *err)
{
	size_t bytes = 0, lines = 1;
	struct stat st;

	*positions = (struct positions){0};
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(
		    err, EX_NOINPUT, "%s: %s", path, strerror(EISDIR));
	positions->text =
	    io_read_file(path, POSITIONS_FILE_BYTES, false, &bytes, err);
	if (positions->text == NULL)
		return -1;
	for (size_t i = 0; i < bytes; i++) {
		lines += positions->text[i] == '\n';
		/* A NUL would hide what follows it. */
		if (positions->text[i] == '\0')
			positions->text[i] = '?';
	}
	positions->all =
	    malloc(checked_multiply(lines, sizeof(*positions->all)));
	if (positions->all == NULL)
		return err_memory(err, path);
	if (parse(positions, path, err) < 0)
		return -1;
	qsort(
	    positions->all, positions->count, sizeof(*positions->all), compare);
	return check_twice(positions, path, err);
}

void
positions_release(struct positions *positions)
{
	free(positions->text);
	free(positions->all);
	*positions = (struct positions){0};
}

const struct position *
positions_find(
    const struct positions *positions, const char *topic, int32_t partition)
{
	struct position key = {.topic = topic, .partition = partition};

	if (positions->count == 0)
		return NULL;
	return bsearch(&key, positions->all, positions->count,
	    sizeof(*positions->all), compare);
}
