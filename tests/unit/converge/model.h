/*
 * model - a Redis in memory, as far as the mailbox uses it, whose data set
 * can be lost.
 *
 * A data set is a list of rows: a field of a hash, a member of a sorted set,
 * or a counter (field empty).  Rows are immutable and stay until the model is
 * released, so that a snapshot is a copy of the list.  A snapshot is made
 * after each command that comes by itself, and each transaction: what a Redis
 * that comes back may have.
 *
 * The scripts run as they are, in Lua 5.1, which is the one Redis has.
 */
#ifndef QIM_TESTS_CONVERGE_MODEL_H
#define QIM_TESTS_CONVERGE_MODEL_H

#include "redis/commands.h"
#include "redis/conn.h"
#include "redis/reply.h"

struct server;

#define MODEL_ROWS 1024
#define MODEL_PAST 40
#define MODEL_ARGUMENTS 128
#define MODEL_SCRIPTS 16

struct row {
	struct row *older; /* in the order they were made, to free them */
	struct slice key, field, value;
	uint64_t score;
};

struct data_set {
	struct slot {
		uint32_t key_hash, hash;
		const struct row *row;
	} slots[MODEL_ROWS];
	size_t count;
};

/* What is taken out of the protocol, to see that it is missed. */
enum flaw {
	FLAW_NONE,
	FLAW_NO_WATCH, /* EXEC never answers nil */
	FLAW_NO_COUNTER, /* GET of a counter answers what is expected */
	FLAW_LATE_JOINS, /* joins are written after their mark */
	FLAW_NO_CURSORS, /* the trim sees no device */
	FLAW_NO_FLOOR, /* the trim doesn't write down how far it cut */
	FLAW_NO_AGES, /* the trim takes all that is below the mark for old */
	FLAW_NO_WAIT, /* a replica that isn't waited for becomes the master */
	FLAW_LAST_CLAIM, /* a later copy's claim takes the place of another */
};

struct model {
	struct data_set data, past[MODEL_PAST];
	size_t past_count;
	struct data_set replica; /* as far as it has come */
	bool is_replica_away;
	struct row *newest;
	uint64_t generation; /* what WATCH notices */
	uint64_t restarts; /* what connections notice */
	uint64_t now_ms;
	uint32_t scripts[MODEL_SCRIPTS]; /* hashes of those that it knows */
	size_t script_count;
	bool changed; /* since it was remembered */
	enum flaw flaw;
	struct server *server; /* where the data set really is, or NULL */
};

void model_init(struct model *model, enum flaw flaw, struct server *server);
void model_release(struct model *model);

/* model->data.count: there is none. */
size_t model_find(
    const struct model *model, struct slice key, struct slice field);

/* Puts a row in place of that of the same key and field, or as a new one. */
void model_put(struct model *model, struct slice key, struct slice field,
    struct slice value, uint64_t score);
bool model_remove(struct model *model, struct slice key, struct slice field);

/* The rows of a key, by score and member; returns how many. */
size_t model_rows(const struct model *model, struct slice key,
    const struct row *rows[MODEL_ROWS]);

/* Takes over what is in the server, where there is one. */
void model_read(struct model *model);

/* What has changed becomes something that can be lost. */
void model_remember(struct model *model);

/* Comes back with one of the data sets that it had, or (where that may be)
 * empty; the connections stay when `keep`. */
void model_lose(struct model *model, bool may_be_empty, bool keep);

/* Its replica becomes the master. */
void model_fail_over(struct model *model, bool keep);

/* WAIT; returns how many replicas have it all. */
uint64_t model_wait(struct model *model);

/* Days in which nobody writes: counters expire, nothing before them can come
 * back. */
void model_pass_days(struct model *model, uint32_t days);

#define LATE_COUNT 3

/* A connection. */
struct link {
	struct model *model;
	uint64_t restarts, watched;
	uint64_t counted; /* rounds of this connection */
	struct buf late[LATE_COUNT]; /* FLAW_LATE_JOINS: still to be run */
	struct conn conn; /* to the server, where there is one */
};

void link_open(struct link *link, struct model *model);
void link_close(struct link *link);

/* The bytes of the next command, or of all from MULTI to EXEC, and how many
 * replies there will be. */
struct slice link_next(const uint8_t *at, size_t *replies);

/* Runs what link_next() gave; the caller releases the replies.  false: the
 * connection is gone. */
bool link_run(
    struct link *link, struct slice bytes, size_t count, struct reply *replies);

/* FLAW_LATE_JOINS: the writer has come to its end. */
void link_flush(struct link *link);

/* For the files of the model. */

struct model_command {
	struct slice argument[MODEL_ARGUMENTS];
	size_t count;
};

bool key_is(struct slice key, const char *kind); /* "qim:{P}:KIND..." */
uint64_t read_number(struct slice text);
struct reply reply_integer(uint64_t number);
struct reply reply_status(const char *text);
struct reply reply_copy(enum reply_type type, struct slice text);
struct reply reply_decimal(uint64_t number);
struct reply reply_array(size_t room); /* count 0 */

struct reply model_run(struct link *link, const struct model_command *command);
struct reply model_run_zset(
    struct model *model, const struct model_command *command);
struct reply model_run_script(
    struct link *link, const struct model_command *command);

#endif
