/*
 * committer - commits a group's offsets as they are acknowledged.
 *
 * Its client has the group's name but never joins it.  A commit is sent with
 * rd_kafka_commit_queue() and its result is waited for in the caller's
 * poll(2), beside the stream: rd_kafka_commit() has no timeout and was seen
 * to block for good with the brokers down.  An error that may pass is tried
 * again, with what is acknowledged by then, until the deadline.
 */
#ifndef QIM_KAFKA_COMMITTER_H
#define QIM_KAFKA_COMMITTER_H

#include "kafka/client.h"
#include "kafka/commits.h"

struct committer_settings {
	uint64_t interval_us; /* least time from one commit to the next */
	uint64_t deadline_us; /* most for one, with all its tries */
	uint64_t renew_us; /* each offset is committed again after so long */
	bool dry_run; /* say it and take it for done */
};

struct committer {
	struct committer_settings settings;
	struct kafka_client *client; /* not owned */
	struct commits commits;
	rd_kafka_queue_t *queue; /* results of commits */
	rd_kafka_queue_t *main; /* errors of the client */
	int wake_fd; /* readable when either has something */
	uint64_t due_us; /* not before, for the interval or a back-off */
	uint64_t sent_us; /* of the commit in flight */
	uint64_t gone_us; /* since when what stood is gone; 0: it isn't */
	uint64_t trouble_us; /* first try of a commit not done; 0: none */
	uint64_t backoff_us; /* after the next error */
	rd_kafka_resp_err_t last_error;
	uint64_t renew_us; /* when all are committed again */
	bool warned; /* that somebody else commits for the group */
};

/* -1 EX_OSERR.  committer_release() is due in any case. */
int committer_open(struct committer *committer, struct kafka_client *client,
    const struct committer_settings *settings, struct err *err);
void committer_release(struct committer *committer);

/* Reads what the group has committed.
 * -1: as commits_set_committed(), EX_UNAVAILABLE, EX_NOPERM. */
int committer_read(
    struct committer *committer, uint64_t deadline_us, struct err *err);

/* Milliseconds until committer_work() has something to do by itself, -1:
 * only when wake_fd becomes readable or more is acknowledged. */
int committer_wait_ms(const struct committer *committer);

/*
 * Takes results, and sends a commit where one is due; waits only to read what
 * is committed, before each commit.
 * -1: EX_TEMPFAIL not done by the deadline, with what wasn't committed, or
 * EX_UNAVAILABLE where that is for a topic or partition that isn't there;
 * EX_CONFIG the group has members; EX_NOPERM; EX_DATAERR as above.
 */
int committer_work(struct committer *committer, struct err *err);

/* Works until all that was acknowledged is committed; 0 or -1 as above. */
int committer_finish(struct committer *committer, struct err *err);

/* Sets the figures of each partition to what is acknowledged and committed;
 * -1 EX_OSERR. */
int committer_show(struct committer *committer, struct err *err);

#endif
