/* Dead letters for records that can't be delivered. */
#include "kafka/flight-parts.h"
#include "message/dead.h"

void
sent_record(const struct sent *sent, struct dispatch_record *record)
{
	struct batch batch = sent->part->item.batch;
	struct err ignored;

	batch.rec.at = sent->at;
	batch.rec_count = 1;
	*record = (struct dispatch_record){0};
	/* It was taken from there before. */
	dispatch_record_next(&batch, record, &ignored);
}

const struct range *
sent_source(const struct sent *sent, const struct dispatch_record *record)
{
	return &sent->part->item.batch.head.src[record->src];
}

/* The largest letter that surely arrives. */
static size_t
letter_bytes_most(struct flight *flight)
{
	size_t most = producer_bytes_most(flight->producer);
	int64_t limit = producer_topic_limit(flight->producer, flight->dead);

	return limit >= 0 && (uint64_t)limit < most ? (size_t)limit : most;
}

int
flight_bury(
    struct flight *flight, struct sent *sent, const char *why, struct err *err)
{
	struct producer_record out = {
	    .topic = flight->dead,
	    .partition = -1,
	    .record = sent,
	    .alone = true,
	};
	struct dispatch_record letter, dispatch;
	const struct range *source;
	struct record record;
	int sent_as;

	sent_record(sent, &dispatch);
	source = sent_source(sent, &dispatch);
	record = (struct record){
	    .src = dispatch.src,
	    .offset = dispatch.offset,
	    .key = dispatch.key,
	    .value = dispatch.value,
	    .headers = dispatch.headers,
	};
	if (dead_make(&record, source, (const char *)flight->dead->name.data,
		why, letter_bytes_most(flight), &flight->letter_headers,
		&letter, err) < 0)
		return -1;
	out.key = letter.key;
	out.value = letter.value;
	out.headers = letter.headers;
	sent->final = true;
	sent_as = producer_send(flight->producer, &out, err);
	if (sent_as == PRODUCER_FULL)
		return err_bug(err, "a queue without an end is full");
	if (sent_as < 0)
		return err_prefix(err, "the dead letter to %s",
		    (const char *)flight->dead->name.data);
	sent->part->window.batch->buried++;
	return 0;
}
