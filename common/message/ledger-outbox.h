/*
 * ledger-outbox - the records of the Outbox, told to a ledger as what they must
 * have become.
 *
 * Each is planned as fanout-plan does it, with the same three numbers; what
 * can't be planned is told too.  Pure: no sockets, no clock.
 */
#ifndef QIM_MESSAGE_LEDGER_OUTBOX_H
#define QIM_MESSAGE_LEDGER_OUTBOX_H

#include "message/ledger.h"
#include "message/plan.h"
#include "stream/record.h"

struct ledger_outbox {
	struct outbox decoder;
	struct plan plan;
	struct buf value;
};

/* The numbers are those of fanout-plan: -n, --max-recipients and --max-bytes.
 * -1 EX_OSERR; ledger_outbox_release() is due in any case. */
int ledger_outbox_init(struct ledger_outbox *outbox, uint32_t partitions,
    uint32_t recipients_max, size_t record_bytes_max, struct err *err);
void ledger_outbox_release(struct ledger_outbox *outbox); /* a zero one too */

/* Tells the ledger, of as many partitions, the dispatches of a record that
 * aren't in parts it is to skip, and counts the message; or that it can't be
 * planned, and why.  `source` is where the record stands: its own offset
 * isn't looked at.  -1: EX_OSERR, or what the ledger's found() returned. */
int ledger_outbox_take(struct ledger_outbox *outbox, struct ledger *ledger,
    const struct record *record, const struct ledger_source *source,
    struct err *err);

#endif
