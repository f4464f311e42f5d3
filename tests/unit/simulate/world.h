/*
 * world - what is there in a seed: the outbox, the dispatch topic as far as
 * it matters, what the group has committed, and the chains that work on them.
 */
#ifndef QIM_TESTS_SIMULATE_WORLD_H
#define QIM_TESTS_SIMULATE_WORLD_H

#include "../converge/dice.h"
#include "kafka/commits.h"
#include "kafka/flight.h"
#include "kafka/gather.h"
#include "message/plan.h"

#define SOURCES 3 /* partitions of the outbox; the last may join late */
#define RECORDS_MAX 8 /* in each */
#define TARGETS 3 /* partitions of the dispatch topic */
#define RECIPIENTS_MAX 2 /* in a dispatch */
#define ITEMS_MAX 256 /* dispatches and letters of all records */
#define CHAINS 2
#define BATCHES_MAX 128 /* in a life of a chain */

#define SOURCE_TOPIC "outbox"
#define TARGET_TOPIC "dispatch"
#define DEAD_TOPIC "dead"
#define GROUP "g"

/* What is taken out, to see that it is missed. */
enum flaw {
	FLAW_NONE,
	FLAW_EARLY_ACKS, /* delivered is said before it is so */
	FLAW_UNPROVEN, /* a report without an offset counts as delivered */
	FLAW_START_ABOVE, /* a start above what is committed isn't refused */
	FLAW_FORGOTTEN, /* a record of a batch isn't planned */
};

/* What a record must become: a dispatch, or a letter. */
struct item {
	uint64_t hash; /* of its value */
	uint32_t source, record;
	int32_t partition; /* -1: a letter */
	bool durable; /* it is in its topic, or a letter of it in the other */
};

struct source {
	int64_t offset[RECORDS_MAX]; /* with holes between them */
	struct buf value[RECORDS_MAX];
	uint32_t count;
	int64_t end; /* of the log */
	int64_t committed; /* -1: nothing */
};

/* What has happened in all seeds. */
struct tally {
	uint64_t kills, failed, unproven, letters, torn, damaged, late, joins,
	    rewinds, refused, commits, parts;
};

struct world {
	enum flaw flaw;
	struct source source[SOURCES];
	uint32_t source_count; /* that the topic has by now */
	struct item items[ITEMS_MAX];
	uint32_t item_count;
	bool faults; /* anything may happen */
	bool ordered; /* an idempotent producer: no partition out of order */
	bool has_second; /* chain of the same group */
	bool overtaken; /* a commit landed late: it may have moved back */
	struct tally tally;
	char wrong[256]; /* what was found first; empty: nothing */
};

extern struct world world;

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline bool
fault(uint32_t permille)
{
	return world.faults && random_below(1000) < permille;
}

/* outbox.c: makes the records and what they must become; frees them. */
void outbox_make(void);
void outbox_forget(void);

/* How much the records in [from, next) become; counts the letters in it up. */
uint32_t outbox_expect(
    uint32_t source, int64_t from, int64_t next, uint32_t *letters);

/* A record came into a topic, for good. */
void outbox_take(struct slice value);

/* The planner's part of a batch: packs what a record becomes, returns how
 * many; -1 with err. */
int outbox_plan(const struct record *record, const struct range *source,
    struct buf *records, struct err *err);

/* broker.c: the producer's functions, and what becomes of what it sends.
 * The producer is found by its place in the chains. */
struct way { /* a record on its way */
	void *record;
	struct slice value;
	bool is_letter;
	int32_t partition;
	uint64_t batch;
};

#define WAYS_MAX 256

struct broker_side {
	struct producer producer;
	struct way ways[WAYS_MAX]; /* in the order they were sent */
	uint32_t count;
	/* By batch. */
	uint32_t sent[BATCHES_MAX], delivered[BATCHES_MAX],
	    letters[BATCHES_MAX];
	bool stuck[TARGETS]; /* ordered: one of these failed */
};

void broker_begin(struct broker_side *side);

/* Kills the producer: what is on its way lands or doesn't. */
void broker_drop(struct broker_side *side);

/* group.c: commits on their way. */
struct landing {
	bool used;
	int64_t offset[SOURCES]; /* -1: none */
};

void group_land(const struct landing *landing);
void group_keep_late(const struct landing *landing);
void group_happen(void); /* one that is late may land */
void group_begin(void);

/* wire.c: the bytes between two stages. */
struct wire {
	struct buf bytes; /* written, not yet delivered */
	size_t at; /* delivered of them */
	size_t last; /* where the last frame begins */
	int fd; /* by which reader and writer know it */
	bool closed; /* nothing more will be written */
	bool gone; /* nobody reads */
	bool damaged; /* a frame was lost, doubled, swapped or changed */
};

void wire_open(struct wire *wire);
void wire_release(struct wire *wire);
void wire_cut(struct wire *wire); /* its writer was killed */
bool wire_ready(const struct wire *wire); /* a read wouldn't block */

/* chain.c */
enum stage {
	READER,
	PLANNER,
	PRODUCER,
	COMMITTER,
	STAGES
};
enum life {
	ALIVE,
	DONE,
	DEAD
};

struct chain {
	enum life stage[STAGES];
	struct wire wire[STAGES - 1]; /* behind the stage */
	struct stream_in in[STAGES];
	struct stream_out out[STAGES];
	struct gather gather;
	struct broker_side side;
	struct flight flight;
	struct producer_topic *target, *dead;
	bool has_flight;
	bool producer_ended; /* its input */
	uint64_t receipts; /* that were checked */
	struct commits commits;
	struct landing landing; /* the commit in flight */
	bool committer_ended;
	bool producer_failed, committer_failed;
	int64_t read[SOURCES]; /* committed, as it was read last */
	bool is_up;
	bool is_odd; /* hello doesn't say that all starts were committed */
};

void chain_begin(struct chain *chain);
void chain_end(struct chain *chain);

/* One step of one of its stages. */
void chain_turn(struct chain *chain);
void chain_kill(struct chain *chain, enum stage stage);

/* reader.c, producer.c, committer.c: a step of the stage. */
int reader_begin(struct chain *chain, struct err *err);
enum life reader_turn(struct chain *chain, struct err *err);
enum life planner_turn(struct chain *chain, struct err *err);
enum life producer_turn(struct chain *chain, struct err *err);
enum life committer_turn(struct chain *chain, struct err *err);

#endif
