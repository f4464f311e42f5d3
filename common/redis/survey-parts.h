/*
 * survey-parts - what the files of the survey share: kinds of keys, and a key
 * on its way through its pages.
 */
#ifndef QIM_REDIS_SURVEY_PARTS_H
#define QIM_REDIS_SURVEY_PARTS_H

#include "redis/survey.h"

struct walk;

/* Tells the ledger what a field or member says, `value` being its value or
 * score.  -1 EX_OSERR, or what the ledger returned. */
typedef int take_pair(struct survey *survey, const struct walk *walk,
    struct slice name, const struct reply *value, struct err *err);

/* A kind of key. */
struct kind {
	const char *name; /* with its colon, where an id follows */
	const char *command;
	unsigned count; /* of a page; 0: by the size of claims */
	take_pair *take;
};

#define SURVEY_KINDS 4
#define SURVEY_SINGLES 3

/* Found by a scan. */
extern const struct kind survey_kinds[SURVEY_KINDS];

/* One of each partition, read afterwards. */
extern const struct kind survey_singles[SURVEY_SINGLES];

struct walk {
	const struct kind *kind;
	struct stem stem;
	uint32_t partition;
	struct slice id; /* nil: the kind has none */
	char cursor[REPLY_CURSOR_BYTES];
	bool is_asked, is_done;
};

/* Logs alone hold claims.  Their id is a conversation, any other a user. */
static inline bool
walk_is_log(const struct walk *walk)
{
	return walk->kind->count == 0;
}

/* Tells the ledger of a key, or of what is in it, that no writer of ours puts
 * there; as ledger_stray(). */
int survey_stray(struct survey *survey, const struct walk *walk,
    const char *why, struct err *err);

#endif
