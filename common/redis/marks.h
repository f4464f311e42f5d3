/*
 * marks - reading the watermarks, for what isn't a round.
 *
 * A mark's member says whose it is (mark_text()); a topic that isn't known is
 * "" in mailbox->topic, and then any topic's mark fits.
 */
#ifndef QIM_REDIS_MARKS_H
#define QIM_REDIS_MARKS_H

#include "redis/client.h"
#include "redis/mailbox.h"

/* Appends the command whose reply marks_take() takes. */
void marks_ask(struct commands *commands, const struct stem *stem);

/* 0 where there is no mark.  -1: EX_DATAERR not a mark, EX_CONFIG that of
 * another topic, partition count, list length or place. */
int marks_take(const struct reply *reply, const struct stem *stem,
    const struct mailbox *mailbox, uint32_t place, uint64_t *mark,
    struct err *err);

/* Checks that the node at `place` holds no mark of a partition that belongs
 * to another place of the list: of the first partition of each place.
 * -1: EX_CONFIG, as client_call(). */
int marks_check_place(struct client *client, const struct mailbox *mailbox,
    uint32_t place, struct err *err);

/* Reads the marks of all partitions into marks[], from all nodes.
 * -1: as marks_take(), marks_check_place() and client_init(). */
int marks_read(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, uint64_t *marks,
    struct err *err);

#endif
