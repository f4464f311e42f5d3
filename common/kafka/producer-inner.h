/* producer-inner - what the files of the producer share. */
#ifndef QIM_KAFKA_PRODUCER_INNER_H
#define QIM_KAFKA_PRODUCER_INNER_H

#include "kafka/producer.h"

void producer_free_topics(struct producer *producer);

#endif
