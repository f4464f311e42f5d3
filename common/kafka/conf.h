/*
 * conf - librdkafka's configuration from -b, -X and -F, checked.
 *
 * Everything is checked before anything is connected (R11): a property that
 * isn't known, has a value librdkafka refuses, is on the deny list (it would
 * load code, run a command, or break a rule of design), or contradicts
 * another one, is refused with one line that names it, the value found and
 * what is allowed.  Nothing is overridden in silence.
 */
#ifndef QIM_KAFKA_CONF_H
#define QIM_KAFKA_CONF_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

/* What a program does with Kafka: decides the defaults and the deny list. */
enum kafka_role {
	KAFKA_CONSUMER, /* reads a topic by assignment, never commits */
	KAFKA_PRODUCER, /* acks and idempotence are checked */
	KAFKA_COMMITTER, /* only commits offsets of a group */
};

/* The options every Kafka program has; filled by opt_parse(). */
struct kafka_options {
	const char *brokers; /* -b */
	struct opt_list properties; /* -X name=value */
	const char *file; /* -F: name=value lines, # comments */
	const char *group; /* consumer, committer: group.id, or NULL */
	bool not_durable; /* producer: acks other than all are allowed */
	bool idempotent; /* producer: enable.idempotence */
	bool statistics; /* producer: each second unless set otherwise */
};

/* QIM_FANOUT_PRODUCER_IDEMPOTENCE: exactly "true" or "false", unset: false;
 * -1 EX_CONFIG. */
int kafka_conf_idempotence(bool *idempotent, struct err *err);

/* Builds the configuration for rd_kafka_new(), which owns it afterwards;
 * until then the caller frees it with rd_kafka_conf_destroy().  The log
 * callback goes through msg.
 * -1: EX_USAGE malformed or -b missing, EX_CONFIG refused, EX_NOINPUT. */
int kafka_conf_build(const struct kafka_options *options, enum kafka_role role,
    rd_kafka_conf_t **conf, struct err *err);

#endif
