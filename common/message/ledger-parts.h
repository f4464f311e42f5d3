/*
 * ledger-parts - what the ledger keeps, for its own files.
 */
#ifndef QIM_MESSAGE_LEDGER_PARTS_H
#define QIM_MESSAGE_LEDGER_PARTS_H

#include "message/ledger.h"

/* An entry of a box: user and conversation, seq. */
struct entry {
	struct table_key key;
	uint64_t word; /* mailbox_seq and ENTRY_ flags */
};

#define ENTRY_SEQ SEQ_MAX
#define ENTRY_OTHER ((uint64_t)1 << 63) /* it stands there, not as own */
#define ENTRY_OWN ((uint64_t)1 << 62) /* it stands there as own */
#define ENTRY_TOLD ((uint64_t)1 << 61) /* what is wrong with it was told */
#define ENTRY_COPIED ((uint64_t)1 << 60) /* a dispatch in the topic has it */
#define ENTRY_PLANNED ((uint64_t)1 << 59) /* a plan has it */
#define ENTRY_STANDS (ENTRY_OTHER | ENTRY_OWN)

/* A dispatch: conversation, partition and chunk; seq. */
struct slot {
	struct table_key key;
	int64_t offset; /* of the claim, or else of the first copy */
	uint64_t digest; /* its first bytes */
	uint64_t flags;
};

#define SLOT_CLAIM 1U
#define SLOT_COPY 2U /* the topic holds one */
#define SLOT_PLANNED 4U
#define SLOT_LATER 8U /* a copy with another digest is above the mark */

/* A conversation in a user's list (low 0) or in `top` (low 1). */
struct view {
	struct table_key key;
	uint64_t got; /* what stands there; 0: nothing */
	uint64_t want; /* the greatest below the mark */
	uint64_t most; /* the greatest at all */
};

struct floor {
	struct table_key key; /* the user */
	uint64_t floor;
};

/* -1: err_memory() of a ledger. */
int ledger_memory(struct err *err);

/* Counts it, and hands it on. */
int ledger_tell(
    struct ledger *ledger, const struct finding *finding, struct err *err);

/* The key of an entry or a view of a user, of a view of a partition; all 0: no
 * memory. */
struct table_key ledger_user_key(struct ledger *ledger, struct slice user,
    struct slice conversation, uint64_t low);
struct table_key ledger_top_key(
    struct ledger *ledger, uint32_t partition, struct slice conversation);

static inline bool
key_is_none(struct table_key key)
{
	return (key.high | key.low) == 0;
}

/* The slot of a dispatch, `add`ed where there is none and that is asked for;
 * NULL: none, or no memory. */
struct slot *ledger_slot(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, uint32_t chunk, bool add);

/* The view of a key, added where there is none; NULL: no memory, for the key
 * or the view. */
struct view *ledger_view(struct ledger *ledger, struct table_key key);

/* What a slot's key stands for. */
uint32_t slot_partition(const struct slot *slot);
uint64_t slot_seq(const struct slot *slot);

/* The names in a key of an entry or a view. */
struct slice key_user(const struct ledger *ledger, struct table_key key);
struct slice key_conversation(
    const struct ledger *ledger, struct table_key key);

uint64_t digest_start(const uint8_t *digest);

bool ledger_has_quarantined(
    const struct ledger *ledger, const uint8_t *id, const uint8_t *digest);

/* Compares the recipients of a dispatch, applied as `offset`, with their
 * boxes; `flag` says who asks. */
int ledger_check_entries(struct ledger *ledger, uint32_t partition,
    int64_t offset, struct dispatch dispatch, uint64_t flag, struct err *err);

#endif
