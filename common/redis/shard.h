/*
 * shard - a connection to a node and its rounds: for one poll(2) loop.
 *
 * After a transport error, or a reply that says "not now", the connection is
 * thrown away and a new one is tried, with growing pauses, until `timeout_ms`
 * have passed without a confirmed round; then it is an error.  While too few
 * replicas have a round the connection stays, for as long.
 */
#ifndef QIM_REDIS_SHARD_H
#define QIM_REDIS_SHARD_H

#include "redis/conn.h"
#include "redis/figures.h"
#include "redis/login.h"
#include "redis/round.h"

/* A connection's counter is renewed this often: a quiet one lives on. */
#define SHARD_RENEW_MS 3600000

/* What was said of a node, by whichever of its connections: they tell the
 * same.  Zeros at first. */
struct told {
	uint32_t failing, silent; /* connections that are */
	uint64_t silent_us; /* when it was said last */
	uint64_t waiting; /* connections that wait for an answer */
	struct node_figures figures; /* made with the first connection */
};

struct shard {
	const struct node *node;
	struct told *told;
	const struct login *login;
	uint64_t timeout_ms;
	struct round round;
	struct conn conn;
	struct commands commands; /* in flight */
	bool is_login_due; /* AUTH's reply comes before the round's */
	uint64_t
	    asked_us; /* when the commands were sent, or it last answered */
	uint64_t failed_us; /* since when nothing was confirmed; 0: it is */
	uint64_t retry_us; /* closed: when to connect again */
	uint64_t pause_ms;
	uint64_t renewed_us;
	bool is_silent; /* no answer comes */
	enum node_error kind; /* of an error that comes now */
	uint64_t sent_us; /* when the round was sent */
	uint64_t counted; /* of the rounds confirmed */
	bool is_waiting; /* counted in told->waiting */
};

/* Connection `share` of mailbox_shares(), to `node`; timeout_ms is more than
 * wait.ms, which is 0 where nothing is waited for.  -1 EX_OSERR. */
int shard_init(struct shard *shard, const struct node *node, struct told *told,
    const struct login *login, uint64_t timeout_ms,
    const struct mailbox *mailbox, uint32_t share, struct round_wait wait,
    struct err *err);
void shard_release(struct shard *shard);

/* What the loop has to wait for. */
int shard_fd(const struct shard *shard);
short shard_events(const struct shard *shard);
uint64_t shard_wake_us(const struct shard *shard);

/*
 * Moves on: reads what poll(2) said there is (revents 0: nothing), connects,
 * sends the next round.  Never blocks, but for the look-up of a host's name.
 * -1: EX_TEMPFAIL data lost or too long without success, EX_DATAERR,
 * EX_NOPERM, EX_CONFIG, EX_OSERR; the text names the node.
 */
int shard_move(struct shard *shard, short revents, struct err *err);

#endif
