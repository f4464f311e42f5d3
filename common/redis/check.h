/*
 * check - what is looked at on every node before anything is written there:
 * that it answers, is no cluster's, isn't in the list twice, stands at its
 * place, keeps what it confirms, and has the replicas that are waited for.
 *
 * What a user of the ACL may not ask is told by a notice, and passed over.
 */
#ifndef QIM_REDIS_CHECK_H
#define QIM_REDIS_CHECK_H

#include "redis/login.h"
#include "redis/mailbox.h"
#include "redis/nodes.h"

struct check_rules {
	uint64_t timeout_ms; /* for each node, and for its replicas */
	uint64_t replicas; /* that must be connected */
	bool strict; /* settings that may lose data are EX_CONFIG */
};

/* `mailbox` needs no topic and partitions.
 * -1: EX_UNAVAILABLE; EX_TEMPFAIL too few replicas; EX_CONFIG a cluster,
 * twice in the list, at another place, or by rules->strict; as client_call().
 */
int check_nodes(const struct nodes *nodes, const struct login *login,
    const struct mailbox *mailbox, const struct check_rules *rules,
    struct err *err);

#endif
