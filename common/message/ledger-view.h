/*
 * ledger-view - what a ledger has found, for people and for jq: a line for each
 * finding, one of the counts, and the verdict.
 *
 * The names in them are those of mailbox-audit(1).  Pure: who prints is the
 * caller.
 */
#ifndef QIM_MESSAGE_LEDGER_VIEW_H
#define QIM_MESSAGE_LEDGER_VIEW_H

#include "message/ledger.h"
#include "stream/view.h"

/* {"found": kind, "partition", "offset", ...}, without what the finding lacks;
 * of what is lost partition and offset are those of the Outbox and say so.
 * A new reference, NULL: no memory. */
json_t *ledger_view_finding(const struct finding *finding);

/* All counts, then how many of each kind were found.  As above. */
json_t *ledger_view_counts(const struct ledger *ledger);

/* Room for the verdict, were each number in it the greatest. */
#define LEDGER_VERDICT_BYTES 400

/* What is there and shouldn't, as "2 missing, 1 extra": each kind found, and
 * of a system that is `drained` also what is pending, unapplied or above a
 * mark.  False, and the text empty: nothing. */
bool ledger_view_verdict(const struct ledger *ledger, bool drained,
    char text[static LEDGER_VERDICT_BYTES]);

#endif
