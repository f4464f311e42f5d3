#include "kafka/locks.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* The last commit of a chain that was killed and is started again, or moved,
 * at once. */
#define WAIT_US 2000000
#define LOOK_MS 50

int
locks_open(struct locks *locks, const struct lock_folder *folder,
    struct kafka_client *client, const char *group, uint64_t deadline_us,
    struct err *err)
{
	*locks = (struct locks){.folder = folder, .group = group};
	if (folder == NULL)
		return 0;
	return kafka_client_cluster(client, deadline_us, &locks->cluster, err);
}

void
locks_release(struct locks *locks)
{
	for (size_t i = 0; i < locks->count; i++) {
		lock_release(&locks->all[i].lock);
		free(locks->all[i].topic);
	}
	free(locks->all);
	free(locks->cluster);
	*locks = (struct locks){0};
}

static struct lock *
add(struct locks *locks, struct slice topic, struct err *err)
{
	struct topic_lock *all = realloc(
	    locks->all, checked_multiply(locks->count + 1, sizeof(*all)));
	char name[LOCK_NAME_BYTES];
	char *text = slice_dup(topic);

	if (all != NULL)
		locks->all = all;
	if (all == NULL || text == NULL) {
		free(text);
		err_memory(err, "locks");
		return NULL;
	}
	lock_name(
	    (const char *[]){locks->group, text, locks->cluster}, 3, name);
	all += locks->count++;
	all->topic = text;
	return lock_open(&all->lock, locks->folder, name, err) == 0 ? &all->lock
								    : NULL;
}

/* The lock file of a topic, opened where it is the first of it. */
static struct lock *
find(struct locks *locks, struct slice topic, struct err *err)
{
	for (size_t i = 0; i < locks->count; i++)
		if (slice_is(topic, locks->all[i].topic))
			return &locks->all[i].lock;
	return add(locks, topic, err);
}

static int
refuse(const struct lock *lock, struct slice topic, int32_t partition,
    pid_t holder, struct err *err)
{
	char who[48] = "a process outside of this pid namespace";

	if (holder > 0)
		snprintf(who, sizeof(who), "pid %d", (int)holder);
	return err_set(err, EX_CONFIG,
	    "%.*s[%d]: locked by %s: it commits for this group already: %s",
	    (int)topic.bytes, (const char *)topic.data, (int)partition, who,
	    lock->path);
}

int
locks_take(
    struct locks *locks, struct slice topic, int32_t partition, struct err *err)
{
	uint64_t until_us = clock_us() + WAIT_US;
	struct lock *lock;
	pid_t holder;
	int taken, wait_ms;

	if (locks->folder == NULL)
		return 0;
	lock = find(locks, topic, err);
	if (lock == NULL)
		return -1;
	for (;;) {
		taken = lock_take(lock, (uint32_t)partition, &holder, err);
		if (taken != 0)
			return taken < 0 ? -1 : 0;
		wait_ms = clock_left_ms(until_us, LOOK_MS);
		if (wait_ms == 0)
			return refuse(lock, topic, partition, holder, err);
		poll(NULL, 0, wait_ms);
	}
}
