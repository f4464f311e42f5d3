/*
 * locks - that one process of this host commits for a group's partition.
 *
 * A file for each topic of a group in a cluster, a number in it for each
 * partition (base/lock.h): chains that have different partitions of a topic
 * don't meet.  What is taken is held until the process ends.
 *
 * The broker is the same for all hosts, these locks are of one: between
 * hosts only the reading before each commit (kafka/commits.h) protects.
 */
#ifndef QIM_KAFKA_LOCKS_H
#define QIM_KAFKA_LOCKS_H

#include "base/buf.h"
#include "base/lock.h"
#include "kafka/client.h"

struct topic_lock {
	char *topic; /* owned */
	struct lock lock;
};

struct locks {
	const struct lock_folder *folder; /* not owned; NULL: take none */
	const char *group; /* not owned */
	char *cluster; /* owned */
	struct topic_lock *all; /* owned */
	size_t count;
};

/* Asks which cluster it is.  -1 as kafka_client_cluster().  locks_release()
 * is due in any case. */
int locks_open(struct locks *locks, const struct lock_folder *folder,
    struct kafka_client *client, const char *group, uint64_t deadline_us,
    struct err *err);
void locks_release(struct locks *locks);

/*
 * Takes one; fine where it has it.  Where another process holds it that may
 * be one that is just ending, so it waits a little.
 * -1: EX_CONFIG with the process that holds it and the file; EX_OSERR.
 */
int locks_take(struct locks *locks, struct slice topic, int32_t partition,
    struct err *err);

#endif
