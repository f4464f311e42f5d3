#include "redis/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/msg.h"
#include "redis/marks.h"

#define VALUE_BYTES 64

#define REPLICAS_RETRY_MS 50
#define REPLICAS_NOTICE_MS 1000

/* Settings under which a node may lose what it confirmed. */
static const struct {
	const char *name, *wanted[2], *why;
	bool of_log; /* matters with appendonly alone, which is the first */
} settings[] = {
    {"appendonly", {"yes"}, "what it confirmed doesn't outlive it", false},
    {"appendfsync", {"everysec", "always"},
	"a crash of the host may lose any length of what it confirmed", false},
    {"aof-load-truncated", {"no"},
	"after a crash of the host it may start with a transaction open, and "
	"lose what it confirms then",
	true},
    {"maxmemory-policy", {"noeviction"}, "it may drop parts of mailboxes",
	false},
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* A node while it is looked at. */
struct check {
	struct client client;
	const struct nodes *nodes;
	uint32_t place;
	const struct check_rules *rules;
	char (*ids)[VALUE_BYTES]; /* of all nodes before, and of this one */
};

static const char *
name_of(const struct check *check)
{
	return check->nodes->all[check->place].text;
}

/* Sends client.commands; error replies are left in replies[]. */
static int
ask(struct check *check, struct err *err)
{
	int result = client_send(&check->client, err);

	commands_reset(&check->client.commands);
	return result;
}

/* The value of a field of INFO's text, "" where it has none. */
static void
find_field(
    const struct reply *reply, const char *field, char value[VALUE_BYTES])
{
	struct slice text = reply->text;
	const uint8_t *end = text.data + text.bytes, *at;

	*value = '\0';
	if (reply->type != REPLY_TEXT)
		return;
	at = memmem(text.data, text.bytes, field, strlen(field));
	if (at == NULL)
		return;
	at += strlen(field);
	snprintf(value, VALUE_BYTES, "%.*s", (int)(end - at), (const char *)at);
	value[strcspn(value, "\r\n")] = '\0';
}

/* That the server is one by itself, and in the list once: as another it would
 * be written to as two places, and then be found at the wrong one. */
static int
check_server(struct check *check, struct err *err)
{
	char mode[VALUE_BYTES], *id = check->ids[check->place];
	const struct reply *reply;

	commands_add(&check->client.commands, "INFO", "server", (char *)NULL);
	if (ask(check, err) < 0)
		return -1;
	reply = &check->client.replies[0];
	find_field(reply, "\nredis_mode:", mode);
	find_field(reply, "\nrun_id:", id);
	if (*mode != '\0' && strcmp(mode, "standalone") != 0)
		return err_set(err, EX_CONFIG,
		    "redis %s: redis_mode is '%s', wants 'standalone'",
		    name_of(check), mode);
	if (*id == '\0' && check->nodes->count > 1)
		msg_write(MSG_NOTICE,
		    "redis %s: doesn't tell whether it is in -r twice: INFO "
		    "is refused",
		    name_of(check));
	for (uint32_t i = 0; i < check->place && *id != '\0'; i++)
		if (strcmp(check->ids[i], id) == 0)
			return err_set(err, EX_CONFIG,
			    "-r: '%s' and '%s' are the same Redis",
			    check->nodes->all[i].text, name_of(check));
	return 0;
}

/* One setting; `value` nil: it wasn't told. */
static int
check_setting(
    const struct check *check, size_t i, struct slice value, struct err *err)
{
	const char *const *wanted = settings[i].wanted;

	if (slice_is(value, wanted[0]) ||
	    (wanted[1] != NULL && slice_is(value, wanted[1])))
		return 0;
	err_set(err, EX_CONFIG, "redis %s: %s is '%.*s', wants '%s'%s%s%s: %s",
	    name_of(check), settings[i].name, (int)value.bytes,
	    (const char *)value.data, wanted[0],
	    wanted[1] == NULL ? "" : " or '",
	    wanted[1] == NULL ? "" : wanted[1], wanted[1] == NULL ? "" : "'",
	    settings[i].why);
	if (check->rules->strict)
		return -1;
	msg_write(MSG_WARNING, "%s", err->text);
	return 0;
}

static int
check_settings(struct check *check, struct err *err)
{
	bool has_log = false;

	for (size_t i = 0; i < SETTINGS; i++)
		commands_add(&check->client.commands, "CONFIG", "GET",
		    settings[i].name, (char *)NULL);
	if (ask(check, err) < 0)
		return -1;
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct reply *reply = &check->client.replies[i];

		if (reply->type != REPLY_ARRAY || reply->count != 2) {
			msg_write(MSG_NOTICE,
			    "redis %s: doesn't tell whether it keeps its "
			    "data: CONFIG GET is refused",
			    name_of(check));
			return 0;
		}
		if (i == 0)
			has_log = slice_is(reply->items[1].text, "yes");
		if (settings[i].of_log && !has_log)
			continue;
		if (check_setting(check, i, reply->items[1].text, err) < 0)
			return -1;
	}
	return 0;
}

/* How many replicas are connected: 1; 0 it isn't told; -1. */
static int
count_replicas(struct check *check, uint64_t *count, struct err *err)
{
	char text[VALUE_BYTES];

	commands_add(
	    &check->client.commands, "INFO", "replication", (char *)NULL);
	if (ask(check, err) < 0)
		return -1;
	find_field(&check->client.replies[0], "\nconnected_slaves:", text);
	*count = strtoull(text, NULL, 10);
	return *text != '\0';
}

/* Waits for them: they may come back with their master. */
static int
check_replicas(struct check *check, struct err *err)
{
	uint64_t wanted = check->rules->replicas, count, passed_us;
	uint64_t most_us = 1000 * check->rules->timeout_ms;
	uint64_t start_us = clock_us();
	bool is_told = false;
	int told;

	while (wanted > 0) {
		told = count_replicas(check, &count, err);
		if (told < 0 || (told == 1 && count >= wanted))
			return told < 0 ? -1 : 0;
		if (told == 0) {
			msg_write(MSG_NOTICE,
			    "redis %s: doesn't tell its replicas: INFO is "
			    "refused",
			    name_of(check));
			return 0;
		}
		err_set(err, EX_TEMPFAIL,
		    "redis %s: %llu replicas are connected, --wait-replicas "
		    "wants %llu",
		    name_of(check), (unsigned long long)count,
		    (unsigned long long)wanted);
		passed_us = clock_us() - start_us;
		if (passed_us >= most_us)
			return -1;
		if (!is_told && passed_us > 1000 * REPLICAS_NOTICE_MS)
			msg_write(MSG_NOTICE, "%s: waiting up to %llu ms",
			    err->text,
			    (unsigned long long)check->rules->timeout_ms);
		is_told = passed_us > 1000 * REPLICAS_NOTICE_MS;
		usleep(1000 * REPLICAS_RETRY_MS);
	}
	return 0;
}

static int
check_node(struct check *check, const struct login *login,
    const struct mailbox *mailbox, struct err *err)
{
	struct client *client = &check->client;
	int result = -1;

	if (client_init(client, &check->nodes->all[check->place], login,
		check->rules->timeout_ms, err) == 0 &&
	    check_server(check, err) == 0 &&
	    marks_check_place(client, mailbox, check->place, err) == 0 &&
	    check_settings(check, err) == 0)
		result = check_replicas(check, err);
	client_release(client);
	return result;
}

int
check_nodes(const struct nodes *nodes, const struct login *login,
    const struct mailbox *mailbox, const struct check_rules *rules,
    struct err *err)
{
	struct check check = {.nodes = nodes, .rules = rules};
	int result = 0;

	check.ids = calloc(nodes->count, sizeof(*check.ids));
	if (check.ids == NULL)
		return err_memory(err, "nodes");
	for (; check.place < nodes->count && result == 0; check.place++)
		result = check_node(&check, login, mailbox, err);
	free(check.ids);
	return result;
}
