#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "command.h"

/* "0.5ms", "100us", "2s". */
static int
parse_time(const char *text, uint64_t *time_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *unit;
	double number = strtod(text, &unit);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (unit != text && strcmp(unit, units[i].name) == 0 &&
		    number >= 0 && number * units[i].ns <= 3600e9) {
			*time_ns = (uint64_t)(number * units[i].ns);
			return 0;
		}
	return -1;
}

static int
set_delay(struct listener *listener, enum direction d, const char *text)
{
	return parse_time(text, &listener->link[d].delay_ns);
}

static int
set_rate(struct listener *listener, enum direction d, const char *text)
{
	struct err err;

	listener->link[d].free_ns = 0;
	return opt_number("throttle", text, 0, UINT32_MAX, "bytes/s",
	    &listener->link[d].rate, &err);
}

static int
set_cut_after(struct listener *listener, enum direction d, const char *text)
{
	uint64_t bytes;
	struct err err;

	if (opt_number(
		"cut-after", text, 1, UINT32_MAX, "bytes", &bytes, &err) < 0)
		return -1;
	listener->link[d].cut_after = bytes;
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		conn->flow[d].left = bytes;
	return 0;
}

static int
set_hold(struct listener *listener, enum direction d, const char *text)
{
	(void)text;
	listener->link[d].held = true;
	return 0;
}

static int
set_resume(struct listener *listener, enum direction d, const char *text)
{
	(void)text;
	listener->link[d].held = false;
	return 0;
}

static int
do_refuse(struct listener *listener)
{
	listener_close(listener);
	return 0;
}

/* One of set, each and run is there. */
static const struct command {
	const char *name;
	int (*set)(struct listener *, enum direction, const char *);
	void (*each)(struct conn *); /* for those there are */
	int (*run)(struct listener *);
	const char *value; /* what it is, where `set` wants one */
} commands[] = {
    {"delay", .set = set_delay, .value = " TIME"},
    {"throttle", .set = set_rate, .value = " BYTES"},
    {"cut-after", .set = set_cut_after, .value = " BYTES"},
    {"hold", .set = set_hold},
    {"resume", .set = set_resume},
    {"cut", .each = conn_cut},
    {"reset", .each = conn_reset},
    {"forget", .each = conn_forget},
    {"refuse", .run = do_refuse},
    {"listen", .run = listener_open},
    {"clear", .run = listener_clear},
};

/* Sets *first and *end so that d from first to below end are meant. */
static int
parse_direction(const char *text, enum direction *first, enum direction *end)
{
	bool both = strcmp(text, "both") == 0;

	if (!both && strcmp(text, "up") != 0 && strcmp(text, "down") != 0)
		return -1;
	*first = strcmp(text, "down") == 0 ? DOWN : UP;
	*end = both ? DIRECTIONS : *first + 1;
	return 0;
}

static int
set_rule(const struct command *command, struct listener *listener, char **words,
    int count)
{
	enum direction first, end;

	if (count != (command->value != NULL ? 4 : 3) ||
	    parse_direction(words[2], &first, &end) < 0)
		return -1;
	for (enum direction d = first; d < end; d++)
		if (command->set(listener, d, words[3]) < 0)
			return -1;
	return 0;
}

/* 0, PORT_TAKEN, or -1 where it isn't called so. */
static int
run_for(const struct command *command, struct listener *listener, char **words,
    int count)
{
	if (command->set != NULL)
		return set_rule(command, listener, words, count);
	if (count != 2)
		return -1;
	if (command->run != NULL)
		return command->run(listener);
	for (struct conn *conn = listener->conns; conn; conn = conn->next)
		command->each(conn);
	return 0;
}

static const struct command *
find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static bool
is_meant(const struct listener *listener, const char *name)
{
	return strcmp(name, listener->name) == 0 || strcmp(name, "all") == 0;
}

/* Counts of the named listener, or of all together. */
static void
show(struct listener *listeners, const char *name, char *answer)
{
	uint64_t accepted = 0, up = 0, down = 0;
	size_t count = 0, kept = 0;

	for (struct listener *l = listeners; l != NULL; l = l->next) {
		if (!is_meant(l, name))
			continue;
		accepted += l->accepted;
		up += l->link[UP].bytes;
		down += l->link[DOWN].bytes;
		for (struct conn *conn = l->conns; conn; conn = conn->next) {
			count++;
			kept += flow_waiting_bytes(&conn->flow[UP]) +
			    flow_waiting_bytes(&conn->flow[DOWN]);
		}
	}
	snprintf(answer, COMMAND_BYTES,
	    "ok connections=%zu accepted=%" PRIu64 " up=%" PRIu64
	    " down=%" PRIu64 " kept=%zu",
	    count, accepted, up, down, kept);
}

static void
refuse(const struct command *command, char *answer, int result)
{
	if (result == PORT_TAKEN)
		snprintf(answer, COMMAND_BYTES, "error: %s: its port is taken",
		    command->name);
	else
		snprintf(answer, COMMAND_BYTES, "error: wants NAME %s%s%s",
		    command->name, command->set != NULL ? " up|down|both" : "",
		    command->value != NULL ? command->value : "");
}

void
command_run(struct listener *listeners, char **words, int count,
    char answer[COMMAND_BYTES])
{
	const struct command *command =
	    count < 2 ? NULL : find_command(words[1]);
	bool is_show = count == 2 && strcmp(words[1], "show") == 0;
	size_t found = 0;
	int result;

	snprintf(answer, COMMAND_BYTES, "error: no such command");
	if (command == NULL && !is_show)
		return;
	for (struct listener *l = listeners; l != NULL; l = l->next) {
		if (!is_meant(l, words[0]))
			continue;
		found++;
		result = is_show ? 0 : run_for(command, l, words, count);
		if (result == 0)
			continue;
		refuse(command, answer, result);
		return;
	}
	if (is_show && found > 0)
		show(listeners, words[0], answer);
	else
		snprintf(answer, COMMAND_BYTES,
		    found > 0 ? "ok" : "error: no such name");
}
