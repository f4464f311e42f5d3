#include "redis/shard.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/msg.h"

#define PAUSE_LEAST_MS 20
#define PAUSE_MOST_MS 1000

int
shard_init(struct shard *shard, const struct node *node,
    const struct login *login, uint64_t timeout_ms,
    const struct mailbox *mailbox, uint32_t place, struct err *err)
{
	*shard = (struct shard){.node = node,
	    .login = login,
	    .timeout_ms = timeout_ms,
	    .pause_ms = PAUSE_LEAST_MS};
	return round_init(&shard->round, mailbox, place, err);
}

void
shard_release(struct shard *shard)
{
	conn_close(&shard->conn);
	round_release(&shard->round);
	commands_release(&shard->commands);
}

int
shard_fd(const struct shard *shard)
{
	return conn_fd(&shard->conn);
}

short
shard_events(const struct shard *shard)
{
	return conn_events(&shard->conn);
}

static bool
is_waiting(const struct shard *shard)
{
	return shard->round.phase != ROUND_CLOSED &&
	    shard->round.phase != ROUND_IDLE;
}

uint64_t
shard_wake_us(const struct shard *shard)
{
	if (shard->round.phase == ROUND_CLOSED)
		return shard->retry_us;
	if (is_waiting(shard))
		return shard->asked_us + 1000 * shard->timeout_ms;
	return shard->renewed_us + 1000 * (uint64_t)SHARD_RENEW_MS;
}

/* A number in hex that no connection had before. */
static int
make_id(char id[ROUND_ID_BYTES], struct err *err)
{
	uint64_t words[2];

	if (getrandom(words, sizeof(words), 0) != sizeof(words))
		return err_set(err, EX_OSERR, "getrandom: no bytes");
	snprintf(id, ROUND_ID_BYTES, "%016llx%016llx",
	    (unsigned long long)words[0], (unsigned long long)words[1]);
	return 0;
}

static int
send_commands(struct shard *shard, struct err *err)
{
	if (shard->commands.bytes.failed)
		return err_memory(err, "round");
	shard->asked_us = clock_us();
	conn_send(&shard->conn, slice_of_buf(&shard->commands.bytes));
	return conn_write(&shard->conn, err);
}

static int
connect_node(struct shard *shard, struct err *err)
{
	char id[ROUND_ID_BYTES];

	if (make_id(id, err) < 0 ||
	    conn_open(&shard->conn, shard->node, err) < 0)
		return -1;
	commands_reset(&shard->commands);
	login_commands(shard->login, &shard->commands);
	shard->is_login_due = shard->commands.count > 0;
	round_open(&shard->round, id, &shard->commands);
	shard->renewed_us = clock_us();
	return send_commands(shard, err);
}

/* Closes, and says when to try again; -1 when the time is over. */
static int
back_off(struct shard *shard, struct err *err)
{
	uint64_t now_us = clock_us();

	if (shard->failed_us == 0) {
		/* It may have been silent for some time before. */
		shard->failed_us = is_waiting(shard) ? shard->asked_us : now_us;
		msg_write(MSG_WARNING, "redis %s: %s: connecting again",
		    shard->node->text, err->text);
	}
	conn_close(&shard->conn);
	round_close(&shard->round);
	if (now_us >= shard->failed_us + 1000 * shard->timeout_ms)
		return err_prefix(err, "nothing confirmed for %llu ms",
		    (unsigned long long)shard->timeout_ms);
	shard->retry_us = now_us + 1000 * shard->pause_ms;
	shard->pause_ms *= 2;
	if (shard->pause_ms > PAUSE_MOST_MS)
		shard->pause_ms = PAUSE_MOST_MS;
	return 0;
}

static int
take_login(struct shard *shard, const struct reply *reply, struct err *err)
{
	enum reply_fault fault;

	shard->is_login_due = false;
	if (reply->type != REPLY_ERROR)
		return ROUND_TAKEN;
	fault = reply_error(reply, (struct slice){0}, err);
	if (fault == FAULT_WAIT)
		return ROUND_RETRY;
	err->code = EX_NOPERM;
	return -1;
}

/* Hands the replies that have come to the round; as round_take(). */
static int
take_replies(struct shard *shard, struct err *err)
{
	struct reply reply = {0};
	int result = ROUND_TAKEN, more;

	while (result == ROUND_TAKEN && is_waiting(shard)) {
		more = conn_reply(&shard->conn, &reply, err);
		if (more < 0)
			return err->code == EX_TEMPFAIL ? ROUND_RETRY : -1;
		if (more == 0)
			break;
		result = shard->is_login_due
		    ? take_login(shard, &reply, err)
		    : round_take(&shard->round, &reply, err);
		reply_release(&reply);
	}
	return result;
}

/* Nothing is wrong any more: a round was confirmed, or none is wanted. */
static void
note_success(struct shard *shard)
{
	const struct round *round = &shard->round;

	if (shard->failed_us == 0 || round->phase != ROUND_IDLE ||
	    (round->confirmed == 0 && round_has_work(round)))
		return;
	msg_write(MSG_NOTICE, "redis %s: goes on after %llu ms",
	    shard->node->text,
	    (unsigned long long)(clock_us() - shard->failed_us) / 1000);
	shard->failed_us = 0;
	shard->pause_ms = PAUSE_LEAST_MS;
}

static int
send_round(struct shard *shard, struct err *err)
{
	uint64_t now_us = clock_us();
	bool renew =
	    now_us >= shard->renewed_us + 1000 * (uint64_t)SHARD_RENEW_MS;

	commands_reset(&shard->commands);
	if (!round_next(&shard->round, renew, &shard->commands))
		return 0;
	if (renew && shard->round.phase == ROUND_SENT)
		shard->renewed_us = now_us;
	return send_commands(shard, err);
}

/* As shard_move(), but what may pass is ROUND_RETRY. */
static int
move(struct shard *shard, short revents, struct err *err)
{
	int result = ROUND_TAKEN;

	if (shard->round.phase == ROUND_CLOSED) {
		if (clock_us() < shard->retry_us)
			return ROUND_TAKEN;
		result = connect_node(shard, err);
	}
	if (result == 0 && (revents & POLLOUT) != 0)
		result = conn_write(&shard->conn, err);
	if (result == 0 && (revents & ~POLLOUT) != 0) {
		result = conn_read(&shard->conn, err);
		shard->asked_us = clock_us();
	}
	if (result < 0)
		return err->code == EX_TEMPFAIL ? ROUND_RETRY : -1;
	result = take_replies(shard, err);
	if (result != ROUND_TAKEN)
		return result;
	note_success(shard);
	if (shard->round.phase == ROUND_IDLE && send_round(shard, err) < 0)
		return err->code == EX_TEMPFAIL ? ROUND_RETRY : -1;
	if (!is_waiting(shard) ||
	    clock_us() < shard->asked_us + 1000 * shard->timeout_ms)
		return ROUND_TAKEN;
	err_set(err, EX_TEMPFAIL, "no answer");
	return ROUND_RETRY;
}

int
shard_move(struct shard *shard, short revents, struct err *err)
{
	int result = move(shard, revents, err);

	if (result == ROUND_RETRY)
		result = back_off(shard, err);
	return result < 0 ? err_prefix(err, "redis %s", shard->node->text) : 0;
}
