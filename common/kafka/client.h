/*
 * client - a librdkafka handle, and the questions a stage asks before it
 * begins.
 *
 * Each question is asked again until it is answered, until its deadline, or
 * until an error comes that no waiting can mend: authentication and ACLs end
 * it at once.  The slices of time in between are short, because librdkafka
 * tells of a refused login only to who polls it.
 *
 * A handle is never destroyed, the process ends with _exit(2) instead:
 * rd_kafka_destroy() waits for good after a topic it read was deleted (seen
 * with 2.0.2), and exit(3) would tear down OpenSSL under its threads.  Nothing
 * is in the handle by then that must be kept.
 */
#ifndef QIM_KAFKA_CLIENT_H
#define QIM_KAFKA_CLIENT_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kafka/conf.h"

struct kafka_client {
	rd_kafka_t *handle;
	bool has_group;
	uint64_t limit_ms;
	struct err broken; /* code 0, or what no waiting can mend */
	/* Where librdkafka tells why it finds no coordinator for the group;
	 * NULL once the records come from there. */
	rd_kafka_queue_t *told;
	/* Asked between tries: true ends the question, EX_TEMPFAIL.  NULL at
	 * first: only the deadline ends it. */
	bool (*give_up)(void);
};

/* Makes the handle; nothing is asked yet.  `client` must stay where it is;
 * limit_ms is --connect-ms, for messages: the deadlines come with each call.
 * -1 as kafka_conf_build(), EX_OSERR. */
int kafka_client_open(struct kafka_client *client,
    const struct kafka_options *options, enum kafka_role role,
    uint64_t limit_ms, struct err *err);

/* Lets the client tell what has happened, without waiting; -1 with its
 * `broken`.  Not for a handle whose main queue is polled elsewhere. */
int kafka_client_poll(struct kafka_client *client, struct err *err);

/* From here on the records are read from the queue of the consumer, with all
 * else that it tells. */
void kafka_client_leave_queue(struct kafka_client *client);

/* How many partitions a topic has.
 * -1: EX_UNAVAILABLE no broker or no such topic by the deadline, EX_NOPERM,
 * EX_CONFIG not a name for a topic. */
int kafka_client_partitions(struct kafka_client *client, const char *topic,
    uint64_t deadline_us, uint32_t *count, struct err *err);

/* Waits for an answer of any broker: -1 as above. */
int kafka_client_reach(
    struct kafka_client *client, uint64_t deadline_us, struct err *err);

/* The id of the cluster, malloc()ed, which no two clusters share; -1 as
 * above. */
int kafka_client_cluster(struct kafka_client *client, uint64_t deadline_us,
    char **id, struct err *err);

/* Sets each offset of the list to what the group has committed,
 * RD_KAFKA_OFFSET_INVALID where it has nothing; -1 as above, EX_TEMPFAIL an
 * answer that isn't whole. */
int kafka_client_committed(struct kafka_client *client,
    rd_kafka_topic_partition_list_t *list, uint64_t deadline_us,
    struct err *err);

/* What the group has committed of each partition of a topic, by its number;
 * -1: nothing, which is so of all where the client has no group.  malloc()ed;
 * NULL: as above, EX_OSERR. */
int64_t *kafka_client_stored(struct kafka_client *client, const char *topic,
    uint32_t partitions, uint64_t deadline_us, struct err *err);

/*
 * Sets each offset of the list to what it stands for: a time in ms to the
 * first record at or after it, or RD_KAFKA_OFFSET_END where there is none;
 * RD_KAFKA_OFFSET_BEGINNING to the first offset, RD_KAFKA_OFFSET_END to the
 * next one to be written (behind the last committed transaction).  It is one
 * request per broker, unlike rd_kafka_query_watermark_offsets(), which takes
 * two per partition.  -1 as above.
 */
int kafka_client_offsets(struct kafka_client *client,
    rd_kafka_topic_partition_list_t *list, uint64_t deadline_us,
    struct err *err);

#endif
