/*
 * error - librdkafka's errors as exit codes.
 */
#ifndef QIM_KAFKA_ERROR_H
#define QIM_KAFKA_ERROR_H

#include <librdkafka/rdkafka.h>

#include "base/err.h"

/* The exit code of design 7 and interfaces "Exit codes": EX_NOPERM
 * authentication and ACL, EX_UNAVAILABLE no broker or topic, EX_DATAERR the
 * record's own fault or an offset out of range, EX_CONFIG, EX_TEMPFAIL. */
int kafka_error_code(rd_kafka_resp_err_t error);

/* err_set() with that code: "WHAT: the error's text"; returns -1. */
int kafka_error_set(
    struct err *err, rd_kafka_resp_err_t error, const char *what);

/* For a client's error callback or event: keeps in *err the first error
 * that no waiting can mend (authentication, fatal, a resource of the system),
 * and ignores the rest. */
void kafka_error_keep(rd_kafka_t *client, rd_kafka_resp_err_t error,
    const char *reason, struct err *err);

#endif
