/*
 * marks - the watermarks of a node or of all, for what isn't a round.
 */
#ifndef QIM_REDIS_MARKS_H
#define QIM_REDIS_MARKS_H

#include "base/opt.h"
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

/* Reads them again and compares: -1 EX_TEMPFAIL where one is below what it was
 * in before[], which says that its node lost data meanwhile; EX_OSERR, or as
 * marks_read(). */
int marks_check_since(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, const uint64_t *before,
    struct err *err);

/* A mark that an operator sets. */
struct mark_move {
	uint32_t partition;
	uint64_t old, offset;
};

struct mark_moves {
	char *topic; /* owned */
	struct mark_move *all; /* owned; by partition */
	size_t count;
};

/* Takes texts "topic:partitions=offset", all of one topic; `option` is named
 * in messages.  -1: EX_USAGE; EX_CONFIG a partition twice.
 * mark_moves_release() is due in any case. */
int mark_moves_parse(const char *option, const struct opt_list *texts,
    struct mark_moves *moves, struct err *err);
void mark_moves_release(struct mark_moves *moves);

/* Reads all marks, fills `old` (0: there was none) and writes the new ones,
 * whether they are greater or not.  `mailbox` is of moves->topic.
 * -1: as marks_read(), before anything was written; EX_CONFIG a partition
 * beyond the mailbox's; EX_UNAVAILABLE some may be written. */
int marks_set(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox,
    struct mark_moves *moves, struct err *err);

#endif
