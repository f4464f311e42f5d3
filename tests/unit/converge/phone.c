#include "phone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"
#include "redis/device.h"
#include "world.h"

/* Devices that are silent for less are never told of a loss. */
#define DAYS_SURE TRIM_DAYS_MAX

static struct node node = {.text = (char *)"model"};
static const struct nodes nodes = {&node, 1};
static const struct login login;

/* A batch, or an acknowledgement, under way.  The callbacks have no room for
 * it; what comes within another is a new one. */
static struct operation {
	struct phone *phone;
	struct reader reader;
	uint64_t number;
	struct given given;
	uint64_t seqs[TOPIC_COUNT], mailbox_seqs[TOPIC_COUNT];
	size_t count;
} * under_way;

void
phone_init(struct phone *phone, const char *name)
{
	*phone = (struct phone){.topic = &topics[random_below(PARTITIONS)],
	    .user = random_below(USERS),
	    .name = name};
}

static int
take_given(const struct given *given, struct err *err)
{
	(void)err;
	under_way->given = *given;
	return 0;
}

static int
take_message(const struct message *message, struct err *err)
{
	struct operation *operation = under_way;
	size_t i = operation->count++;

	(void)err;
	if (i == TOPIC_COUNT)
		abort();
	operation->seqs[i] = message->seq;
	operation->mailbox_seqs[i] = message->mailbox_seq;
	if (message->claim.digest.data != NULL &&
	    message->claim.offset + 1 != (int64_t)message->mailbox_seq)
		complain("a device: mailbox_seq %llu isn't the claim's",
		    (unsigned long long)message->mailbox_seq);
	return 0;
}

static int
begin(struct operation *operation, struct phone *phone, struct err *err)
{
	*operation =
	    (struct operation){.phone = phone, .number = ++phone->operations};
	return reader_init(&operation->reader, &nodes, &login, 0, &mailbox,
	    slice_of(phone->topic->users[phone->user]), err);
}

/* Nothing else was done by the phone meanwhile. */
static bool
was_alone(const struct operation *operation)
{
	return operation->number == operation->phone->operations;
}

/* What it is given is exactly what it must be. */
static void
check_batch(const struct operation *operation)
{
	const struct phone *phone = operation->phone;
	const struct topic *topic = phone->topic;
	size_t at = 0;

	for (uint64_t i = operation->given.from; i < operation->given.to; i++) {
		if (i >= topic->count)
			complain("a device: given more than there is");
		else if (topic_is_for(topic, i, phone->user) &&
		    (at == operation->count ||
			operation->mailbox_seqs[at] != i + 1 ||
			operation->seqs[at++] != topic->said[i].seq))
			complain("device of %s: batch %llu to %llu lacks %llu",
			    topic->users[phone->user],
			    (unsigned long long)operation->given.from,
			    (unsigned long long)operation->given.to,
			    (unsigned long long)i + 1);
	}
	if (at != operation->count)
		complain("device of %s: batch %llu to %llu has too much",
		    topic->users[phone->user],
		    (unsigned long long)operation->given.from,
		    (unsigned long long)operation->given.to);
}

static bool
is_at_floor(const struct phone *phone, uint64_t from)
{
	model_read(&world.model);
	return from <= floor_of(&world.model, phone->topic,
			   phone->topic->users[phone->user]);
}

static uint64_t
greatest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A first batch, or the first one after data was lost: a device that isn't
 * known begins at the floor, and is so told of it. */
static void
check_first(struct phone *phone, uint64_t from)
{
	if (from <= phone->most)
		return;
	if (!world.has_trims ||
	    (world.losses == 0 && !is_at_floor(phone, from)))
		complain("a device: a first batch from %llu, it has seen all "
			 "to %llu, data was lost %llu times",
		    (unsigned long long)from, (unsigned long long)phone->most,
		    (unsigned long long)world.losses);
	phone->excused = greatest(phone->excused, from);
}

/* It begins where it must. */
static void
check_from(struct phone *phone, const struct given *given)
{
	bool is_again = phone->from < phone->to && given->from == phone->from;

	if (!phone->known || phone->mixed || world.losses > 0) {
		check_first(phone, given->from);
		return;
	}
	if (given->from != phone->acked && given->from != phone->tried)
		complain("a device: a batch from %llu, it has acknowledged "
			 "%llu (%llu)",
		    (unsigned long long)given->from,
		    (unsigned long long)phone->acked,
		    (unsigned long long)phone->tried);
	if (is_again && given->to != phone->to)
		complain("a device: the batch from %llu changed its end",
		    (unsigned long long)given->from);
}

static void
store(struct operation *operation)
{
	struct phone *phone = operation->phone;

	for (size_t i = 0; i < operation->count; i++)
		phone->seen[operation->mailbox_seqs[i] - 1] = true;
	phone->known = true;
	phone->unsure = phone->mixed = false;
	phone->most = greatest(phone->most, operation->given.to);
	phone->from = operation->given.from;
	phone->to = operation->given.to;
	phone->acked = phone->tried = phone->from;
}

static int
acknowledge(struct phone *phone, uint64_t from, uint64_t to, bool *alone,
    struct err *err)
{
	struct operation operation, *outer = under_way;
	int result = begin(&operation, phone, err);

	under_way = &operation;
	if (result == 0)
		result = device_ack(
		    &operation.reader, slice_of(phone->name), from, to, err);
	under_way = outer;
	reader_release(&operation.reader);
	*alone = was_alone(&operation);
	phone->mixed |= !*alone;
	return result;
}

/* A batch was refused: it is below the floor. */
static void
accept_loss(struct phone *phone, const struct err *err)
{
	const char *text = strstr(err->text, "its cursor ");
	unsigned long long cursor, floor;
	struct err ignored;
	bool alone;

	if (text == NULL ||
	    sscanf(text, "its cursor %llu is below the floor %llu", &cursor,
		&floor) != 2) {
		complain("a device: %s", err->text);
		return;
	}
	world.tally.told++;
	if (world.rules.device_days >= DAYS_SURE)
		complain("a device: a loss it is never to have");
	phone->excused = greatest(phone->excused, floor);
	phone->most = greatest(phone->most, floor);
	phone->known = true;
	phone->tried = phone->from = phone->to = floor;
	if (acknowledge(phone, cursor, floor, &alone, &ignored) == 0 && alone)
		phone->acked = floor;
}

/* Returns whether it got one. */
static bool
take_batch(struct phone *phone)
{
	struct operation operation, *outer = under_way;
	struct err err;
	int result = begin(&operation, phone, &err);

	under_way = &operation;
	if (result == 0)
		result = device_batch(&operation.reader, slice_of(phone->name),
		    1 + random_below(3), take_given, take_message, &err);
	under_way = outer;
	reader_release(&operation.reader);
	if (result < 0) {
		if (err.code == EX_DATAERR && was_alone(&operation))
			accept_loss(phone, &err);
		else if (err.code != EX_UNAVAILABLE && err.code != EX_DATAERR)
			complain("a device: %s", err.text);
		return false;
	}
	check_batch(&operation);
	if (!was_alone(&operation) || (world.faults && chance(10)))
		return false; /* killed before it stored it */
	check_from(phone, &operation.given);
	store(&operation);
	return true;
}

static void
give_ack(struct phone *phone)
{
	struct err err;
	bool alone;
	int result;

	if (phone->from == phone->to)
		return;
	phone->tried = phone->to;
	result = acknowledge(phone, phone->from, phone->to, &alone, &err);
	if (!alone)
		return;
	if (result == 0) {
		world.tally.acks++;
		phone->acked = phone->from = phone->to;
		return;
	}
	if (err.code == EX_DATAERR && !phone->unsure && !phone->mixed &&
	    world.losses == 0 && world.rules.device_days >= DAYS_SURE)
		complain("a device: %s", err.text);
	phone->unsure = true;
}

void
phone_use(struct phone *phone)
{
	if (chance(50))
		take_batch(phone);
	else
		give_ack(phone);
}

void
phone_finish(struct phone *phone)
{
	const struct topic *topic = phone->topic;

	for (size_t i = 0; i < TOPIC_COUNT; i++) {
		if (!take_batch(phone))
			continue;
		if (phone->from == phone->to)
			break;
		give_ack(phone);
	}
	for (size_t i = phone->excused; i < topic->count; i++)
		if (topic_is_for(topic, i, phone->user) && !phone->seen[i])
			complain("device of %s: never saw %zu (from %llu)",
			    topic->users[phone->user], i + 1,
			    (unsigned long long)phone->excused);
}
