#include "redis/shard.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/msg.h"

#define PAUSE_LEAST_MS 20
#define PAUSE_MOST_MS 1000

/* A node that was asked and is silent for so long is told of, at most once in
 * the other time. */
#define SILENCE_MS 1000
#define TELL_PAUSE_US 10000000

int
shard_init(struct shard *shard, const struct node *node, struct told *told,
    const struct login *login, uint64_t timeout_ms,
    const struct mailbox *mailbox, uint32_t share, struct round_wait wait,
    struct err *err)
{
	*shard = (struct shard){.node = node,
	    .told = told,
	    .login = login,
	    .timeout_ms = timeout_ms,
	    .pause_ms = PAUSE_LEAST_MS};
	if (told->figures.rewinds == NULL &&
	    node_figures_init(&told->figures, node->text, err) < 0)
		return -1;
	return round_init(&shard->round, mailbox, share, wait, err);
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

/* When the answer is late by `ms`. */
static uint64_t
late_us(const struct shard *shard, uint64_t ms)
{
	return shard->asked_us + 1000 * (shard->round.wait.ms + ms);
}

/* When to tell that no answer comes. */
static uint64_t
tell_us(const struct shard *shard)
{
	return shard->is_silent ? UINT64_MAX : late_us(shard, SILENCE_MS);
}

uint64_t
shard_wake_us(const struct shard *shard)
{
	uint64_t late = late_us(shard, shard->timeout_ms);

	if (shard->round.phase == ROUND_CLOSED)
		return shard->retry_us;
	if (round_is_waiting(&shard->round))
		return tell_us(shard) < late ? tell_us(shard) : late;
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
write_commands(struct shard *shard, struct err *err)
{
	if (conn_write(&shard->conn, err) < 0)
		return -1;
	if (shard->round.phase == ROUND_SENT && shard->conn.out.bytes == 0)
		FAILPOINT("round-sent");
	return 0;
}

static int
send_commands(struct shard *shard, struct err *err)
{
	if (shard->commands.bytes.failed)
		return err_memory(err, "round");
	shard->asked_us = clock_us();
	if (shard->round.phase == ROUND_SENT)
		shard->sent_us = shard->asked_us;
	conn_send(&shard->conn, slice_of_buf(&shard->commands.bytes));
	if (shard->round.phase == ROUND_SENT)
		FAILPOINT_HALF("round-half-sent");
	return write_commands(shard, err);
}

static int
connect_node(struct shard *shard, struct err *err)
{
	char id[ROUND_ID_BYTES];

	if (make_id(id, err) < 0 ||
	    conn_open(&shard->conn, shard->node, err) < 0)
		return -1;
	if (shard->renewed_us > 0)
		figure_add(shard->told->figures.reconnects, 1);
	shard->counted = 0;
	commands_reset(&shard->commands);
	login_commands(shard->login, &shard->commands);
	shard->is_login_due = shard->commands.count > 0;
	round_open(&shard->round, id, &shard->commands);
	shard->renewed_us = clock_us();
	return send_commands(shard, err);
}

/* Something is wrong, since when; said by the first of a node's connections
 * that finds it. */
static void
start_failing(struct shard *shard, uint64_t since_us, const char *why)
{
	if (shard->failed_us > 0)
		return;
	shard->failed_us = since_us;
	if (shard->told->failing++ == 0)
		msg_write(MSG_WARNING, "redis %s: %s", shard->node->text, why);
}

/* The same for a silence. */
static void
end_silence(struct shard *shard)
{
	if (shard->is_silent)
		shard->told->silent--;
	shard->is_silent = false;
}

/* Closes, and says when to try again; -1 when the time is over. */
static int
back_off(struct shard *shard, struct err *err)
{
	uint64_t now_us = clock_us(), since_us = now_us;
	char text[ERR_TEXT_BYTES + 32];

	/* It may have been silent for some time before. */
	if (round_is_waiting(&shard->round))
		since_us = shard->asked_us;
	snprintf(text, sizeof(text), "%s: connecting again", err->text);
	start_failing(shard, since_us, text);
	end_silence(shard);
	if (shard->round.first != NULL)
		figure_add(shard->told->figures.rewinds, 1);
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

static int
take_reply(struct shard *shard, const struct reply *reply, struct err *err)
{
	struct node_figures *figures = &shard->told->figures;
	int result;

	shard->kind = NODE_REPLY;
	if (shard->is_login_due)
		result = take_login(shard, reply, err);
	else
		result = round_take(&shard->round, reply, err);
	if (result < 0 && err->code == EX_TEMPFAIL)
		shard->kind = NODE_LOST_DATA;
	if (result == ROUND_TAKEN)
		shard->kind = NODE_TRANSPORT;
	if (shard->round.confirmed > shard->counted) {
		figure_add(figures->rounds, 1);
		figure_observe(
		    figures->round_seconds, clock_us() - shard->sent_us);
	}
	shard->counted = shard->round.confirmed;
	return result;
}

/* Hands the replies that have come to the round; as round_take(). */
static int
take_replies(struct shard *shard, struct err *err)
{
	struct reply reply = {0};
	int result = ROUND_TAKEN, more;

	while (result == ROUND_TAKEN && round_is_waiting(&shard->round)) {
		more = conn_reply(&shard->conn, &reply, err);
		if (more < 0)
			return err->code == EX_TEMPFAIL ? ROUND_RETRY : -1;
		if (more == 0)
			break;
		result = take_reply(shard, &reply, err);
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
	if (--shard->told->failing == 0)
		msg_write(MSG_NOTICE, "redis %s: goes on after %llu ms",
		    shard->node->text,
		    (unsigned long long)(clock_us() - shard->failed_us) / 1000);
	shard->failed_us = 0;
	shard->pause_ms = PAUSE_LEAST_MS;
}

/* Too few replicas have the round: they are asked again, for some time. */
static int
check_short(struct shard *shard, struct err *err)
{
	const struct round *round = &shard->round;
	char text[ERR_TEXT_BYTES + 32];

	if (round->phase != ROUND_SHORT)
		return 0;
	err_set(err, EX_TEMPFAIL,
	    "%llu replicas have what was written, --wait-replicas wants %lu",
	    (unsigned long long)round->replicas,
	    (unsigned long)round->wait.replicas);
	shard->kind = NODE_REPLICAS;
	if (shard->failed_us == 0)
		figure_add(shard->told->figures.errors[NODE_REPLICAS], 1);
	snprintf(text, sizeof(text), "%s: waiting for them", err->text);
	start_failing(shard, clock_us(), text);
	if (clock_us() >= shard->failed_us + 1000 * shard->timeout_ms)
		return err_prefix(err, "nothing confirmed for %llu ms",
		    (unsigned long long)shard->timeout_ms);
	shard->kind = NODE_TRANSPORT;
	return 0;
}

/* Says that a node is silent while its answer is awaited; -1 where that has
 * been too long. */
static int
check_silence(struct shard *shard, struct err *err)
{
	struct told *told = shard->told;
	uint64_t now_us = clock_us();

	if (!round_is_waiting(&shard->round))
		return 0;
	if (now_us >= late_us(shard, shard->timeout_ms)) {
		shard->kind = NODE_SILENCE;
		return err_set(err, EX_TEMPFAIL, "no answer");
	}
	if (now_us < tell_us(shard))
		return 0;
	shard->is_silent = true;
	if (told->silent++ > 0 ||
	    (told->silent_us > 0 && now_us < told->silent_us + TELL_PAUSE_US))
		return 0;
	told->silent_us = now_us;
	msg_write(MSG_WARNING,
	    "redis %s: no answer for %llu ms: waiting up to %llu ms",
	    shard->node->text,
	    (unsigned long long)(now_us - shard->asked_us) / 1000,
	    (unsigned long long)shard->timeout_ms);
	return 0;
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
		result = write_commands(shard, err);
	if (result == 0 && (revents & ~POLLOUT) != 0) {
		result = conn_read(&shard->conn, err);
		if (shard->round.phase == ROUND_SENT)
			FAILPOINT("reply-read");
		end_silence(shard);
		shard->asked_us = clock_us();
	}
	if (result < 0)
		return err->code == EX_TEMPFAIL ? ROUND_RETRY : -1;
	result = take_replies(shard, err);
	if (result != ROUND_TAKEN)
		return result;
	note_success(shard);
	if (check_short(shard, err) < 0)
		return -1;
	if (!round_is_waiting(&shard->round) &&
	    shard->round.phase != ROUND_CLOSED)
		result = send_round(shard, err);
	if (result == 0)
		result = check_silence(shard, err);
	if (result < 0)
		return err->code == EX_TEMPFAIL ? ROUND_RETRY : -1;
	return ROUND_TAKEN;
}

/* Counts it among those of its node that wait, or not any more. */
static void
show_waiting(struct shard *shard)
{
	bool is_waiting = round_is_waiting(&shard->round);

	if (is_waiting == shard->is_waiting)
		return;
	shard->is_waiting = is_waiting;
	if (is_waiting)
		shard->told->waiting++;
	else
		shard->told->waiting--;
	figure_set(shard->told->figures.in_flight, shard->told->waiting);
}

int
shard_move(struct shard *shard, short revents, struct err *err)
{
	int result;

	shard->kind = NODE_TRANSPORT;
	result = move(shard, revents, err);
	if (result != ROUND_TAKEN)
		figure_add(shard->told->figures.errors[shard->kind], 1);
	if (result == ROUND_RETRY)
		result = back_off(shard, err);
	show_waiting(shard);
	return result < 0 ? err_prefix(err, "redis %s", shard->node->text) : 0;
}
