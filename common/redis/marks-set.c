#include <stdlib.h>
#include <string.h>

#include "base/topic.h"
#include "redis/marks.h"

static int
refuse(const char *option, const char *text, struct err *err)
{
	return err_set(err, EX_USAGE,
	    "%s: '%s': wants topic:partitions=offset, as in t:0-3,7=9", option,
	    text);
}

/* The first text's topic is that of all. */
static int
take_topic(const char *option, const char *text, size_t bytes,
    struct mark_moves *moves, struct err *err)
{
	struct slice name = {(const uint8_t *)text, bytes};

	if (!topic_is_name(name))
		return err_set(err, EX_USAGE, "%s: '%s': wants " TOPIC_WANTED,
		    option, text);
	if (moves->topic == NULL) {
		moves->topic = strndup(text, bytes);
		return moves->topic == NULL ? err_memory(err, option) : 0;
	}
	if (slice_is(name, moves->topic))
		return 0;
	return err_set(err, EX_USAGE, "%s: '%s': another topic than '%s'",
	    option, text, moves->topic);
}

static int
take_partitions(const char *option, const char *list, uint64_t offset,
    struct mark_moves *moves, struct err *err)
{
	struct mark_move *all;
	uint32_t *numbers;
	size_t count;

	if (opt_ranges(option, list, MAILBOX_PARTITIONS_MAX - 1, &numbers,
		&count, err) < 0)
		return -1;
	all = realloc(
	    moves->all, checked_multiply(moves->count + count, sizeof(*all)));
	if (all != NULL)
		moves->all = all;
	for (size_t i = 0; all != NULL && i < count; i++)
		all[moves->count++] = (struct mark_move){
		    .partition = numbers[i], .offset = offset};
	free(numbers);
	return all == NULL ? err_memory(err, option) : 0;
}

static int
take_text(const char *option, const char *text, struct mark_moves *moves,
    struct err *err)
{
	const char *colon = strchr(text, ':'), *equals = strchr(text, '=');
	uint64_t offset;
	char *list;
	int result;

	if (colon == NULL || equals == NULL || equals < colon)
		return refuse(option, text, err);
	if (take_topic(option, text, (size_t)(colon - text), moves, err) < 0 ||
	    opt_number(option, equals + 1, 0, MAILBOX_OFFSET_MAX, "offsets",
		&offset, err) < 0)
		return -1;
	list = strndup(colon + 1, (size_t)(equals - colon - 1));
	if (list == NULL)
		return err_memory(err, option);
	result = take_partitions(option, list, offset, moves, err);
	free(list);
	return result;
}

static int
compare_moves(const void *a, const void *b)
{
	uint32_t left = ((const struct mark_move *)a)->partition;
	uint32_t right = ((const struct mark_move *)b)->partition;

	return (left > right) - (left < right);
}

int
mark_moves_parse(const char *option, const struct opt_list *texts,
    struct mark_moves *moves, struct err *err)
{
	*moves = (struct mark_moves){0};
	for (size_t i = 0; i < texts->count; i++)
		if (take_text(option, texts->text[i], moves, err) < 0)
			return -1;
	if (moves->count > 0)
		qsort(moves->all, moves->count, sizeof(*moves->all),
		    compare_moves);
	for (size_t i = 1; i < moves->count; i++)
		if (compare_moves(&moves->all[i - 1], &moves->all[i]) == 0)
			return err_set(err, EX_CONFIG,
			    "%s: partition %lu is given twice", option,
			    (unsigned long)moves->all[i].partition);
	return 0;
}

void
mark_moves_release(struct mark_moves *moves)
{
	free(moves->topic);
	free(moves->all);
	*moves = (struct mark_moves){0};
}

static int
fill_old(struct mark_moves *moves, const struct mailbox *mailbox,
    const uint64_t *marks, struct err *err)
{
	for (size_t i = 0; i < moves->count; i++) {
		struct mark_move *move = &moves->all[i];

		if (move->partition >= mailbox->partitions)
			return err_set(err, EX_CONFIG,
			    "%s[%lu]: the topic has the %lu partitions of -n",
			    moves->topic, (unsigned long)move->partition,
			    (unsigned long)mailbox->partitions);
		move->old = marks[move->partition];
	}
	return 0;
}

static void
add_marks(struct commands *commands, const struct mark_moves *moves,
    const struct mailbox *mailbox, uint32_t place)
{
	char text[MARK_TEXT_BYTES];
	struct stem stem;

	mark_text(mailbox, place, text);
	for (size_t i = 0; i < moves->count; i++) {
		const struct mark_move *move = &moves->all[i];

		if (move->partition % mailbox->nodes != place)
			continue;
		stem_init(&stem, mailbox->prefix, move->partition);
		commands_begin(commands, 4, "ZADD");
		mailbox_key(commands, &stem, "mark", (struct slice){0});
		commands_u64(commands, move->offset);
		commands_text(commands, text);
	}
}

static int
set_node(struct client *client, const struct mark_moves *moves,
    const struct mailbox *mailbox, uint32_t place, struct err *err)
{
	add_marks(&client->commands, moves, mailbox, place);
	return client->commands.count == 0 ? 0 : client_call(client, err);
}

int
marks_set(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox,
    struct mark_moves *moves, struct err *err)
{
	uint64_t *marks = calloc(mailbox->partitions, sizeof(*marks));
	struct client client;
	int result;

	if (marks == NULL)
		return err_memory(err, "partitions");
	result = marks_read(nodes, login, timeout_ms, mailbox, marks, err);
	if (result == 0)
		result = fill_old(moves, mailbox, marks, err);
	free(marks);
	for (uint32_t i = 0; i < nodes->count && result == 0; i++) {
		result = client_init(
		    &client, &nodes->all[i], login, timeout_ms, err);
		if (result == 0)
			result = set_node(&client, moves, mailbox, i, err);
		client_release(&client);
	}
	return result;
}
