/*
 * figures - what programs count of Kafka: qim-figures(5) says what each means.
 */
#ifndef QIM_KAFKA_FIGURES_H
#define QIM_KAFKA_FIGURES_H

#include <librdkafka/rdkafka.h>

#include "base/figures.h"

/* By kind, for a program's table; see kafka_error_count(). */
extern struct figure kafka_errors_transport, kafka_errors_timeout,
    kafka_errors_leader, kafka_errors_replicas, kafka_errors_out_of_order,
    kafka_errors_authorisation, kafka_errors_data, kafka_errors_other;

#define KAFKA_ERRORS_FIGURES \
	&kafka_errors_transport, &kafka_errors_timeout, &kafka_errors_leader, \
	    &kafka_errors_replicas, &kafka_errors_out_of_order, \
	    &kafka_errors_authorisation, &kafka_errors_data, \
	    &kafka_errors_other

/* Counts an error that librdkafka has told, by its kind. */
void kafka_error_count(rd_kafka_resp_err_t error);

/* What became of records, in the order of enum producer_state. */
extern struct figure kafka_delivered, kafka_unproven, kafka_not_persisted,
    kafka_possibly_persisted;

#define KAFKA_DELIVERIES_FIGURES \
	&kafka_delivered, &kafka_unproven, &kafka_not_persisted, \
	    &kafka_possibly_persisted

/* Sets them to the counts by state. */
void kafka_deliveries_set(const uint64_t *counts);

/* Out of a producer's statistics, and so with them only. */
extern struct figure kafka_request_errors, kafka_request_timeouts,
    kafka_request_mean, kafka_request_99, kafka_queue_mean;

#define KAFKA_REQUESTS_FIGURES \
	&kafka_request_errors, &kafka_request_timeouts, &kafka_request_mean, \
	    &kafka_request_99, &kafka_queue_mean

/* Takes the statistics of a producer's client, of which each has a number
 * below KAFKA_FIGURES_CLIENTS; what isn't understood is left as it was. */
#define KAFKA_FIGURES_CLIENTS 65
void kafka_figures_take(uint32_t client, const char *json, size_t bytes);

/* Of a partition. */
extern struct figure kafka_lag, kafka_position, kafka_committed,
    kafka_acknowledged;

/*
 * The lag of a consumer: how far each partition's position is from the end of
 * its log, which librdkafka learns with each fetch.  lag_begin() has it looked
 * at each second by the thread that writes, from the partitions that lag_add()
 * has named; `topic` must live on.  One consumer has it.
 */
void lag_begin(rd_kafka_t *handle, const char *topic);

/* The next partition, and its position; nothing where figures aren't written.
 * -1 EX_OSERR. */
int lag_add(
    const char *topic, int32_t partition, int64_t next, struct err *err);

/* The position of the partition that was added as the index-th. */
void lag_move(uint32_t index, int64_t next);

#endif
