/*
 * reader - one user's mailbox, between the floor and the mark.
 *
 * Both are read first, and nothing with a mailbox_seq above the mark is given
 * or counted: what lies below is complete.  Nor is what stands at or below the
 * floor, which was trimmed: a copy that is applied late puts such a reference
 * back, until the next trim.  Only the list of conversations, which has no
 * mailbox_seqs, may be ahead of the mark.  A seq of a conversation is given
 * only where its reference stands in the user's box: exactly what was
 * dispatched to the user.  So the numbers of a conversation are looked up in
 * the box one after the other; where they turn out to be too far apart for
 * that the box is read instead, up to the mark.
 */
#ifndef QIM_REDIS_READER_H
#define QIM_REDIS_READER_H

#include "redis/client.h"
#include "redis/mailbox.h"
#include "redis/refs.h"

/* Unread ones are counted up to here; one more stands for all beyond. */
#define READER_UNREAD_MOST 999

struct reader {
	struct client client; /* of the user's node */
	struct stem stem;
	struct slice user;
	uint64_t mark;
	uint64_t floor; /* 0: nothing was trimmed */
	uint64_t lookups; /* of seqs, by this reader */
	struct refs refs; /* of the whole box, once that was read */
	bool has_refs;
};

struct conversation {
	struct slice id;
	uint64_t created_at_ms; /* of the user's newest, above the mark too */
	uint64_t last_seq; /* the partition's newest, above the mark too */
	uint64_t read_seq; /* 0: nothing was read */
	uint64_t unread; /* READER_UNREAD_MOST + 1: more than that */
};

struct message {
	uint64_t mailbox_seq;
	struct slice conversation;
	uint64_t seq;
	struct claim claim; /* has_body false: the body was trimmed */
};

/* Called for each in order; what it is given is good until it returns. */
typedef int reader_conversation(
    const struct conversation *conversation, struct err *err);
typedef int reader_message(const struct message *message, struct err *err);

/* Connects to the node of the user's partition and reads mark and floor.
 * -1: as client_init() and client_call(), EX_CONFIG the mark is of another
 * partition count, list length or place; the caller releases in any case. */
int reader_init(struct reader *reader, const struct nodes *nodes,
    const struct login *login, uint64_t timeout_ms,
    const struct mailbox *mailbox, struct slice user, struct err *err);
void reader_release(struct reader *reader);

/* The conversations, the one with the newest message first. */
int reader_conversations(struct reader *reader, uint64_t most,
    reader_conversation *show, struct err *err);

/* The box from mailbox_seq `from` on, in its order. */
int reader_box(struct reader *reader, uint64_t from, uint64_t most,
    reader_message *show, struct err *err);

/* A conversation from seq `from` on (0: from its end), upwards or down. */
int reader_history(struct reader *reader, struct slice conversation,
    uint64_t from, bool reverse, uint64_t most, reader_message *show,
    struct err *err);

/* For reader-history.c and device.c. */

/* Begins a command on the key KIND ID of the user's partition. */
struct commands *reader_begin(struct reader *reader, uint32_t argc,
    const char *name, const char *kind, struct slice id);

/* Takes a reply out of the client, for the caller to release. */
struct reply reader_keep(struct reader *reader, size_t index);

/* The mailbox_seq that a score is; 0: none that is shown. */
uint64_t reader_score(const struct reader *reader, const struct reply *reply);

/* Appends the question for the box's entries from mailbox_seq `from` on. */
void reader_ask_box(struct reader *reader, uint64_t from, uint64_t most);

/* Appends the question for the scores in the box of [conversation, seq] for
 * `count` seqs; they count as lookups. */
void reader_ask_scores(struct reader *reader, struct slice conversation,
    uint64_t first, uint32_t count, bool own);

/* Appends the question for a claim, and shows the message it belongs to. */
void reader_ask_claim(
    struct reader *reader, struct slice conversation, uint64_t seq);
int reader_show(struct message *message, const struct reply *claim,
    reader_message *show, struct err *err);

/* Shows entries: members and scores of a box. */
int reader_show_entries(struct reader *reader, const struct reply *entries,
    reader_message *show, struct err *err);

/* The whole box, or what of it is of a conversation (nil: of any). */
int reader_refs(struct reader *reader, struct slice conversation,
    struct refs *refs, struct err *err);

/* Seqs that one command asks about. */
#define READER_CHUNK_COUNT 500

/* Seqs that are looked up before the box is read instead: an application may
 * number by time, and a user have many conversations. */
#define READER_LOOKUPS_MOST 100000

#endif
