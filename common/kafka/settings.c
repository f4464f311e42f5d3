#include "kafka/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

/* Second and first name in turn. */
/* clang-format off */
static const char *aliases[] = {
    "bootstrap.servers", "metadata.broker.list",
    "max.in.flight", "max.in.flight.requests.per.connection",
    "acks", "request.required.acks",
    "retries", "message.send.max.retries",
    "delivery.timeout.ms", "message.timeout.ms",
    "linger.ms", "queue.buffering.max.ms",
    "compression.type", "compression.codec",
    "sasl.mechanism", "sasl.mechanisms",
    "max.partition.fetch.bytes", "fetch.message.max.bytes",
    "auto.commit.enable", "enable.auto.commit",
};
/* clang-format on */

#define ALIASES_COUNT (sizeof(aliases) / sizeof(aliases[0]))

const char **
settings_aliases(size_t *count)
{
	*count = ALIASES_COUNT;
	return aliases;
}

/* The first name of a property that has two. */
static const char *
first_name(const char *name)
{
	for (size_t i = 0; i < ALIASES_COUNT; i += 2)
		if (strcmp(aliases[i], name) == 0)
			return aliases[i + 1];
	return name;
}

bool
settings_is_secret(const char *name)
{
	return strstr(name, "password") != NULL ||
	    strstr(name, "secret") != NULL ||
	    strcmp(name, "ssl.key.pem") == 0 ||
	    strcmp(name, "sasl.oauthbearer.config") == 0;
}

/* What makes a file one that others may not read: a secret, or a name or
 * place that belongs to one. */
static bool
is_confidential(const char *name)
{
	return settings_is_secret(name) || strncmp(name, "sasl.", 5) == 0 ||
	    strncmp(name, "ssl.key", 7) == 0;
}

const struct setting *
settings_find(const struct settings *settings, const char *canonical)
{
	for (size_t i = 0; i < settings->count; i++)
		if (strcmp(settings->all[i].canonical, canonical) == 0)
			return &settings->all[i];
	return NULL;
}

static int
refuse_twice(
    const struct setting *old, const struct setting *new, struct err *err)
{
	bool secret = settings_is_secret(new->name);

	return err_set(err, EX_CONFIG,
	    "%s: '%s' by %s and '%s' by %s: it is one property, give it once",
	    new->name, secret ? "(secret)" : old->value, old->where,
	    secret ? "(secret)" : new->value, new->where);
}

/* Adds one; name and value must live as long as the settings. */
static int
add(struct settings *settings, const char *where, const char *name,
    const char *value, struct err *err)
{
	const char *canonical = first_name(name);
	const struct setting *old = settings_find(settings, canonical);
	struct setting new = {name, value, canonical, ""};

	snprintf(new.where, sizeof(new.where), "%s", where);
	if (old != NULL && strcmp(old->value, value) == 0)
		return 0;
	if (old != NULL)
		return refuse_twice(old, &new, err);
	if (settings->count == SETTINGS_COUNT)
		return err_set(err, EX_CONFIG, "%s: more than %d properties",
		    where, SETTINGS_COUNT);
	settings->all[settings->count++] = new;
	return 0;
}

static char *
trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && strchr(" \t\r", end[-1]) != NULL)
		*--end = '\0';
	while (*text == ' ' || *text == '\t')
		text++;
	return text;
}

/* Cuts "name=value" in two; NULL where there is no name or no "=". */
static char *
cut(char *text, char **value)
{
	char *equals = strchr(text, '=');
	char *name;

	if (equals == NULL)
		return NULL;
	*equals = '\0';
	*value = trim(equals + 1);
	name = trim(text);
	return *name == '\0' ? NULL : name;
}

static int
collect_properties(
    struct settings *settings, const struct opt_list *list, struct err *err)
{
	for (size_t i = 0; i < list->count; i++) {
		char *copy = strdup(list->text[i]);
		char *name, *value;

		if (copy == NULL)
			return err_memory(err, "-X");
		settings->copies[settings->copy_count++] = copy;
		name = cut(copy, &value);
		if (name == NULL)
			return err_set(err, EX_USAGE,
			    "-X: '%s': wants name=value", list->text[i]);
		if (settings_is_secret(name))
			return err_set(err, EX_CONFIG,
			    "-X %s: every user can read the command line: put "
			    "it into a file for -F, of mode 0600",
			    name);
		if (add(settings, "-X", name, value, err) < 0)
			return -1;
	}
	return 0;
}

/* The next line of *at, which is cut there; NULL at the end. */
static char *
next_line(char **at)
{
	char *line = *at;
	char *end;

	if (line == NULL || *line == '\0')
		return NULL;
	end = strchr(line, '\n');
	if (end != NULL)
		*end = '\0';
	*at = end == NULL ? NULL : end + 1;
	return trim(line);
}

/* True when some line gives a confidential property; changes nothing. */
static bool
holds_confidential(const char *text)
{
	char name[128];

	for (; *text != '\0'; text += *text == '\n') {
		if (sscanf(text, " %127[^=# \t\n]", name) == 1 &&
		    is_confidential(name))
			return true;
		text += strcspn(text, "\n");
	}
	return false;
}

static void
wipe_file(struct settings *settings)
{
	if (settings->file != NULL)
		explicit_bzero(settings->file, settings->file_bytes);
	free(settings->file);
	settings->file = NULL;
}

/* A file with something confidential is read again, with the check of its
 * owner and mode; what the first reading saw isn't used. */
static int
read_file(struct settings *settings, const char *path, struct err *err)
{
	settings->file = io_read_file(
	    path, SETTINGS_FILE_BYTES, false, &settings->file_bytes, err);
	if (settings->file == NULL)
		return -1;
	if (!holds_confidential(settings->file))
		return 0;
	wipe_file(settings);
	settings->file = io_read_file(
	    path, SETTINGS_FILE_BYTES, true, &settings->file_bytes, err);
	return settings->file == NULL ? -1 : 0;
}

static int
collect_file(struct settings *settings, const char *path, struct err *err)
{
	char where[64];
	char *at, *line, *name, *value;

	if (read_file(settings, path, err) < 0)
		return -1;
	if (strlen(settings->file) != settings->file_bytes)
		return err_set(err, EX_CONFIG, "%s: it holds a NUL byte", path);
	at = settings->file;
	for (int number = 1; (line = next_line(&at)) != NULL; number++) {
		if (*line == '\0' || *line == '#')
			continue;
		name = cut(line, &value);
		if (name == NULL) /* no text of it: it may be a secret */
			return err_set(err, EX_CONFIG,
			    "%s: line %d: wants name=value", path, number);
		snprintf(where, sizeof(where), "-F line %d", number);
		if (add(settings, where, name, value, err) < 0)
			return -1;
	}
	return 0;
}

int
settings_collect(struct settings *settings, const struct kafka_options *options,
    struct err *err)
{
	*settings = (struct settings){0};
	if (options->brokers != NULL &&
	    add(settings, "-b", "bootstrap.servers", options->brokers, err) < 0)
		return -1;
	if (options->file != NULL &&
	    collect_file(settings, options->file, err) < 0)
		return -1;
	if (collect_properties(settings, &options->properties, err) < 0)
		return -1;
	if (settings_find(settings, "metadata.broker.list") == NULL)
		return err_set(err, EX_USAGE,
		    "-b: missing (or bootstrap.servers in the -F file)");
	return 0;
}

void
settings_release(struct settings *settings)
{
	wipe_file(settings);
	for (size_t i = 0; i < settings->copy_count; i++)
		free(settings->copies[i]);
	*settings = (struct settings){0};
}
