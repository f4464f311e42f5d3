/*
 * topic - which names a topic may have: Kafka's own rule.
 *
 * A stream carries names as bytes: each is checked before it becomes a C
 * string, for with a NUL among them that would be another topic's name.
 */
#ifndef QIM_BASE_TOPIC_H
#define QIM_BASE_TOPIC_H

#include "base/buf.h"
#include "base/err.h"

#define TOPIC_BYTES_MAX 249

/* For messages: "wants " TOPIC_WANTED. */
#define TOPIC_WANTED "a topic's name, 1 to 249 of letters, digits and ._-"

/* True for such a name that is neither "." nor "..". */
bool topic_is_name(struct slice name);

/* The same for the value of an option; -1 EX_USAGE. */
int topic_check(const char *option, const char *name, struct err *err);

#endif
