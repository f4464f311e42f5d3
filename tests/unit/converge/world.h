/*
 * world - all that is there in a seed, for the files that act in it.
 */
#ifndef QIM_TESTS_CONVERGE_WORLD_H
#define QIM_TESTS_CONVERGE_WORLD_H

#include "model.h"
#include "redis/trim.h"
#include "topic.h"

/* What has happened in all seeds: a test of what never happens shows
 * nothing. */
struct tally {
	uint64_t losses, days, acks, told;
	struct trim_done trims;
};

struct world {
	struct model model;
	struct tally tally;
	struct trim_rules rules;
	bool has_trims;
	uint32_t replicas; /* that are waited for */
	uint64_t promised[PARTITIONS]; /* marks of receipts that were given */
	bool faults; /* anything may happen */
	uint64_t losses; /* of data, in this seed */
	char wrong[256]; /* what was found first; empty: nothing */
};

extern struct world world;

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What may happen before a command of a device or of the trim. */
void world_between(void);

/* Bits of what the model holds. */
size_t mark_of(const struct model *model, const struct topic *topic);
uint64_t floor_of(
    const struct model *model, const struct topic *topic, const char *user);
const struct row *find_row(const struct model *model, const struct topic *topic,
    const char *kind, const char *id, struct slice field);

/* check.c: against what the topics say, without any of the code under test;
 * and two models against each other, of which the second may be trimmed. */
void check_state(const struct model *model, bool trimmed);
void check_same(const struct model *plain, const struct model *model);

#endif
