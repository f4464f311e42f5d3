#include "message/ledger-outbox.h"

int
ledger_outbox_init(struct ledger_outbox *outbox, uint32_t partitions,
    uint32_t recipients_max, size_t record_bytes_max, struct err *err)
{
	outbox_init(&outbox->decoder);
	buf_init(&outbox->value);
	return plan_init(
	    &outbox->plan, partitions, recipients_max, record_bytes_max, err);
}

void
ledger_outbox_release(struct ledger_outbox *outbox)
{
	outbox_release(&outbox->decoder);
	plan_release(&outbox->plan);
	buf_release(&outbox->value);
}

static int
take_plan(struct ledger_outbox *outbox, struct ledger *ledger,
    const struct ledger_source *source, struct err *err)
{
	struct plan *plan = &outbox->plan;
	uint32_t partition;
	int taken;

	ledger->counts.messages++;
	for (;;) {
		buf_reset(&outbox->value);
		taken = plan_next(plan, &partition, &outbox->value, err);
		if (taken <= 0)
			return taken;
		if (!ledger->parts[partition].skip &&
		    ledger_planned(
			ledger, partition, &plan->dispatch, source, err) < 0)
			return -1;
	}
}

int
ledger_outbox_take(struct ledger_outbox *outbox, struct ledger *ledger,
    const struct record *record, const struct ledger_source *source,
    struct err *err)
{
	struct err why;

	if (plan_record(&outbox->plan, &outbox->decoder, record, &why) == 0)
		return take_plan(outbox, ledger, source, err);
	if (why.code == EX_DATAERR)
		return ledger_unplanned(ledger, source, why.text, err);
	*err = why;
	return -1;
}
