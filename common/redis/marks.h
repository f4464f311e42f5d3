/*
 * marks - reading the watermarks of a node or of all, for what isn't a round.
 */
#ifndef QIM_REDIS_MARKS_H
#define QIM_REDIS_MARKS_H

#include "redis/client.h"
#include "redis/mailbox.h"

/* Checks that the node at `place` holds no mark of a partition that belongs
 * to another place of the list: of the first partition of each place.
 * -1: EX_CONFIG, as client_call(). */
int marks_check_place(struct client *client, const struct mailbox *mailbox,
    uint32_t place, struct err *err);

/* Reads the marks of all partitions into marks[], from all nodes.
 * -1: as mark_take(), marks_check_place() and client_init(). */
int marks_read(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, uint64_t *marks,
    struct err *err);

#endif
