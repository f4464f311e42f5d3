/* producer-inner - what the files of the producer share. */
#ifndef QIM_KAFKA_PRODUCER_INNER_H
#define QIM_KAFKA_PRODUCER_INNER_H

#include "kafka/producer.h"

/* Makes the next client with a copy of conf; -1 EX_CONFIG, EX_OSERR. */
int producer_make_client(
    struct producer *producer, const rd_kafka_conf_t *conf, struct err *err);

void producer_free_topics(struct producer *producer);

/* The topic of a report. */
struct producer_topic *producer_topic_of(
    const struct producer *producer, const rd_kafka_message_t *message);

/* Sends a record that was refused together with others once more, alone.
 * -1: that can't be done, and there is no report of it: EX_OSERR,
 * EX_TEMPFAIL. */
int producer_send_again(struct producer *producer,
    const rd_kafka_message_t *message, struct err *err);

/* Takes one report of a client. */
void producer_take_report(struct producer *producer,
    const struct producer_client *client, const rd_kafka_message_t *message);

#endif
