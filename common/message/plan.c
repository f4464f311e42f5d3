#include "message/plan.h"

#include <stdlib.h>

#include "message/dead.h"
#include "message/hash.h"

/* What chunk and to have around the recipients, at most. */
#define RECIPIENTS_BYTES_AROUND ((size_t)32)

int
plan_init(struct plan *plan, uint32_t partitions, uint32_t recipients_max,
    size_t record_bytes_max, struct err *err)
{
	*plan = (struct plan){.partitions = partitions,
	    .recipients_max = recipients_max,
	    .record_bytes_max = record_bytes_max};
	buf_init(&plan->to);
	buf_init(&plan->front);
	buf_init(&plan->back);
	buf_init(&plan->scratch);
	plan->counts = calloc(partitions, sizeof(*plan->counts));
	plan->places = calloc(partitions, sizeof(*plan->places));
	plan->used = calloc(partitions, sizeof(*plan->used));
	if (plan->counts != NULL && plan->places != NULL && plan->used != NULL)
		return 0;
	plan_release(plan);
	return err_memory(err, "plan");
}

void
plan_release(struct plan *plan)
{
	free(plan->counts);
	free(plan->places);
	free(plan->used);
	free(plan->homes);
	free(plan->order);
	free(plan->ends);
	buf_release(&plan->to);
	buf_release(&plan->front);
	buf_release(&plan->back);
	buf_release(&plan->scratch);
	*plan = (struct plan){0};
}

static int
grow(uint32_t **numbers, uint32_t room)
{
	uint32_t *grown = realloc(*numbers, room * sizeof(*grown));

	if (grown == NULL)
		return -1;
	*numbers = grown;
	return 0;
}

static int
reserve(struct plan *plan, uint32_t count, struct err *err)
{
	uint32_t room = plan->room == 0 ? 64 : plan->room;

	if (count <= plan->room)
		return 0;
	while (room < count)
		room *= 2;
	if (grow(&plan->homes, room) < 0 || grow(&plan->order, room) < 0 ||
	    grow(&plan->ends, room) < 0)
		return err_memory(err, "plan");
	plan->room = room;
	return 0;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* Most messages have a few recipients, often in order already. */
static void
sort_used(struct plan *plan)
{
	uint32_t i = 1;

	while (i < plan->used_count && plan->used[i - 1] < plan->used[i])
		i++;
	if (i < plan->used_count)
		qsort(plan->used, plan->used_count, sizeof(*plan->used),
		    compare_numbers);
}

/* A counting sort of the recipients by partition that keeps their order. */
static void
sort_recipients(struct plan *plan, const struct outbox_message *message)
{
	uint32_t place = 0;

	for (uint32_t i = 0; i < plan->used_count; i++)
		plan->counts[plan->used[i]] = 0;
	plan->used_count = 0;
	for (uint32_t i = 0; i < message->recipient_count; i++) {
		uint32_t home = hash_partition(
		    message->recipients[i].bytes, plan->partitions);

		plan->homes[i] = home;
		if (plan->counts[home]++ == 0)
			plan->used[plan->used_count++] = home;
	}
	sort_used(plan);
	for (uint32_t i = 0; i < plan->used_count; i++) {
		plan->places[plan->used[i]] = place;
		place += plan->counts[plan->used[i]];
	}
	for (uint32_t i = 0; i < message->recipient_count; i++)
		plan->order[plan->places[plan->homes[i]]++] = i;
}

static int
pack_recipients(
    struct plan *plan, const struct outbox_message *message, struct err *err)
{
	buf_reset(&plan->to);
	for (uint32_t i = 0; i < message->recipient_count; i++) {
		ident_pack(&plan->to, message->recipients[plan->order[i]]);
		plan->ends[i] = (uint32_t)plan->to.bytes;
	}
	return plan->to.failed ? err_memory(err, "recipients") : 0;
}

static int
fill_dispatch(
    struct plan *plan, const struct outbox_message *message, struct err *err)
{
	struct dispatch *dispatch = &plan->dispatch;

	*dispatch = (struct dispatch){
	    .conversation = message->conversation,
	    .conversation_seq = message->conversation_seq,
	    .message = message->message,
	    .sender = message->sender,
	    .created_at_ms = message->created_at_ms,
	    .payload = message->payload,
	    .others = message->others,
	    .other_count = message->other_count,
	};
	if (hash_payload_digest(
		message, &plan->scratch, dispatch->digest, err) < 0)
		return -1;
	buf_reset(&plan->front);
	buf_reset(&plan->back);
	plan->id_at = dispatch_pack_front(&plan->front, dispatch);
	dispatch_pack_back(&plan->back, dispatch);
	if (plan->front.failed || plan->back.failed)
		return err_memory(err, "dispatch");
	return 0;
}

/* The dispatch at plan->first: the next chunk of its partition. */
static void
open_chunk(struct plan *plan)
{
	struct dispatch *dispatch = &plan->dispatch;
	uint32_t most = plan->recipients_max;
	uint32_t start, last;

	if (plan->left == 0) {
		plan->left = plan->counts[plan->used[plan->next]];
		dispatch->chunk = 0;
		dispatch->chunk_count = (plan->left + most - 1) / most;
	}
	dispatch->chunk++;
	dispatch->to_count = plan->left < most ? plan->left : most;
	start = plan->first == 0 ? 0 : plan->ends[plan->first - 1];
	last = plan->first + dispatch->to_count - 1;
	dispatch->to.at = plan->to.data + start;
	dispatch->to.end = plan->to.data + plan->ends[last];
}

static void
close_chunk(struct plan *plan)
{
	plan->first += plan->dispatch.to_count;
	plan->left -= plan->dispatch.to_count;
	plan->next += plan->left == 0;
}

static void
rewind_chunks(struct plan *plan)
{
	plan->next = plan->first = plan->left = 0;
}

static int
check_sizes(struct plan *plan, size_t around_bytes, struct err *err)
{
	const struct dispatch *dispatch = &plan->dispatch;
	size_t rest = around_bytes + plan->front.bytes + plan->back.bytes +
	    RECIPIENTS_BYTES_AROUND;
	size_t bytes, total = 0;

	for (rewind_chunks(plan); plan->next < plan->used_count;
	     close_chunk(plan)) {
		open_chunk(plan);
		bytes = rest + (size_t)(dispatch->to.end - dispatch->to.at);
		if (bytes > plan->record_bytes_max)
			return err_set(err, EX_DATAERR,
			    "too large: a dispatch record of up to %zu bytes, "
			    "the limit is %zu",
			    bytes, plan->record_bytes_max);
		total += bytes;
		if (total > PLAN_BYTES_MAX)
			return err_set(err, EX_DATAERR,
			    "too large: dispatch records of more than %zu "
			    "bytes together",
			    PLAN_BYTES_MAX);
	}
	rewind_chunks(plan);
	return 0;
}

int
plan_message(struct plan *plan, const struct outbox_message *message,
    size_t around_bytes, struct err *err)
{
	if (reserve(plan, message->recipient_count, err) < 0)
		return -1;
	sort_recipients(plan, message);
	if (pack_recipients(plan, message, err) < 0 ||
	    fill_dispatch(plan, message, err) < 0)
		return -1;
	return check_sizes(plan, around_bytes, err);
}

int
plan_record(struct plan *plan, struct outbox *outbox,
    const struct record *record, struct err *err)
{
	struct outbox_message message;
	size_t around_bytes;

	if (outbox_decode(outbox, record->value, &message, err) < 0 ||
	    record_around_bytes(message.conversation.bytes, record->headers,
		&around_bytes, err) < 0)
		return -1;
	return plan_message(plan, &message, around_bytes, err);
}

static int
append_value(const struct plan *plan, struct buf *value)
{
	size_t start = value->bytes;

	buf_append(value, plan->front.data, plan->front.bytes);
	dispatch_pack_recipients(value, &plan->dispatch);
	buf_append(value, plan->back.data, plan->back.bytes);
	if (value->failed)
		return -1;
	memcpy(
	    value->data + start + plan->id_at, plan->dispatch.id, HASH_BYTES);
	return 0;
}

int
plan_next(
    struct plan *plan, uint32_t *partition, struct buf *value, struct err *err)
{
	struct dispatch *dispatch = &plan->dispatch;

	if (plan->next == plan->used_count)
		return 0;
	open_chunk(plan);
	*partition = plan->used[plan->next];
	if (hash_dispatch_id(dispatch->conversation.bytes,
		dispatch->conversation_seq, *partition, dispatch->chunk,
		&plan->scratch, dispatch->id, err) < 0)
		return -1;
	if (append_value(plan, value) < 0)
		return err_memory(err, "dispatch");
	close_chunk(plan);
	return 1;
}
