/*
 * reader - one user's mailbox, as far as the mark.
 *
 * The mark is read first, and nothing with a mailbox_seq above it is given or
 * counted: what lies below is complete.  Only the list of conversations, which
 * has no mailbox_seqs, may be ahead of it.  A seq of a conversation is given
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

/* Connects to the node of the user's partition and reads the mark.  -1: as
 * client_init() and client_call(), EX_CONFIG the mark is of another partition
 * count, list length or place; the caller releases in any case. */
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

#endif
