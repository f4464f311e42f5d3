#include "redis/marks.h"

#include <inttypes.h>
#include <stdlib.h>

int
marks_check_place(struct client *client, const struct mailbox *mailbox,
    uint32_t place, struct err *err)
{
	struct stem stem;

	for (uint32_t p = 0; p < mailbox->nodes; p++) {
		stem_init(&stem, mailbox->prefix, p);
		mark_ask(&client->commands, &stem);
	}
	if (client_call(client, err) < 0)
		return -1;
	for (uint32_t p = 0; p < mailbox->nodes; p++) {
		const struct reply *reply = &client->replies[p];

		if (p == place || reply->count == 0)
			continue;
		return err_set(err, EX_CONFIG,
		    "redis %s: %s:{%lu}:mark: it is of '%.*s', but in -r this "
		    "node has place=%lu of nodes=%lu",
		    client->node->text, mailbox->prefix, (unsigned long)p,
		    (int)reply->items[0].text.bytes,
		    (const char *)reply->items[0].text.data,
		    (unsigned long)place, (unsigned long)mailbox->nodes);
	}
	return 0;
}

static int
read_node_marks(struct client *client, const struct mailbox *mailbox,
    uint32_t place, uint64_t *marks, struct err *err)
{
	struct stem stem;
	size_t reply = 0;

	if (marks_check_place(client, mailbox, place, err) < 0)
		return -1;
	for (uint32_t p = place; p < mailbox->partitions; p += mailbox->nodes) {
		stem_init(&stem, mailbox->prefix, p);
		mark_ask(&client->commands, &stem);
	}
	if (client->commands.count > 0 && client_call(client, err) < 0)
		return -1;
	for (uint32_t p = place; p < mailbox->partitions; p += mailbox->nodes) {
		stem_init(&stem, mailbox->prefix, p);
		if (mark_take(&client->replies[reply++], &stem, mailbox, place,
			&marks[p], err) < 0)
			return -1;
	}
	return 0;
}

int
marks_read(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, uint64_t *marks,
    struct err *err)
{
	struct client client;
	int result = 0;

	for (uint32_t i = 0; i < nodes->count && result == 0; i++) {
		result = client_init(
		    &client, &nodes->all[i], login, timeout_ms, err);
		if (result == 0)
			result =
			    read_node_marks(&client, mailbox, i, marks, err);
		client_release(&client);
	}
	return result;
}

static int
compare_marks(const struct mailbox *mailbox, const uint64_t *before,
    const uint64_t *marks, struct err *err)
{
	for (uint32_t p = 0; p < mailbox->partitions; p++)
		if (marks[p] < before[p])
			return err_set(err, EX_TEMPFAIL,
			    "%s:{%lu}:mark: went from %" PRIu64
			    " back to %" PRIu64
			    " meanwhile: its node lost data",
			    mailbox->prefix, (unsigned long)p, before[p],
			    marks[p]);
	return 0;
}

int
marks_check_since(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, const uint64_t *before,
    struct err *err)
{
	uint64_t *marks = calloc(mailbox->partitions, sizeof(*marks));
	int result;

	if (marks == NULL)
		return err_memory(err, "marks");
	result = marks_read(nodes, login, timeout_ms, mailbox, marks, err);
	if (result == 0)
		result = compare_marks(mailbox, before, marks, err);
	free(marks);
	return result;
}
