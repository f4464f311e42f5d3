/*
 * settings - the properties a user gave by -b, -g, -X and -F, as a list, and
 * what is refused of them.
 *
 * A property has one place: given twice with two values it is refused, so
 * that none hides another.  Properties with two names (acks and
 * request.required.acks) are one.
 */
#ifndef QIM_KAFKA_SETTINGS_H
#define QIM_KAFKA_SETTINGS_H

#include "kafka/conf.h"

/* The longest -F file. */
#define SETTINGS_FILE_BYTES ((size_t)1 << 20)

#define SETTINGS_COUNT 512

struct setting {
	const char *name; /* as it was given */
	const char *value;
	const char *canonical; /* librdkafka's first name for it */
	char where[64]; /* "-X", "-F line 12" */
};

struct settings {
	struct setting all[SETTINGS_COUNT];
	size_t count;
	char *file; /* text of -F, cut into names and values */
	size_t file_bytes;
	char *copies[SETTINGS_COUNT]; /* of -X */
	size_t copy_count;
};

/* Collects all that was given.  -1: EX_USAGE malformed, EX_CONFIG a secret on
 * the command line, one in a file others may read, or one property twice;
 * EX_NOINPUT.  settings_release() is due in any case. */
int settings_collect(struct settings *settings,
    const struct kafka_options *options, struct err *err);

/* Overwrites what may be secret and frees it. */
void settings_release(struct settings *settings);

/* NULL: not given.  `canonical` is librdkafka's first name. */
const struct setting *settings_find(
    const struct settings *settings, const char *canonical);

/* Refuses what breaks a rule, and what contradicts: -1 EX_CONFIG. */
int settings_check(const struct settings *settings,
    const struct kafka_options *options, enum kafka_role role, struct err *err);

/* True for a property whose value nobody may see. */
bool settings_is_secret(const char *name);

/* All second names, each followed by the first one; `count` strings. */
const char **settings_aliases(size_t *count);

/* The known property that is written most like `name`, into `out`; false
 * where none is near. */
bool settings_nearest(const char *name, char *out, size_t out_bytes);

#endif
