/*
 * What flows between two stages.  io_read() and io_write_all() are these, in
 * the place of those of io.c, so that the stream's modules run as they are
 * and no descriptor is needed: bytes are handed on in pieces of any size,
 * frames are lost, doubled, swapped and damaged on the way, and torn where
 * their writer dies.
 */
#include <stdlib.h>

#include "base/io.h"
#include "world.h"

#define FAULT_PERMILLE 4

/* No descriptor that there is. */
#define FIRST_FD 100000

static struct wire *wires[CHAINS * (STAGES - 1)];

void
wire_open(struct wire *wire)
{
	int i = 0;

	while (wires[i] != NULL)
		i++;
	*wire = (struct wire){.fd = FIRST_FD + i};
	wires[i] = wire;
}

void
wire_release(struct wire *wire)
{
	wires[wire->fd - FIRST_FD] = NULL;
	buf_release(&wire->bytes);
}

/* Moves what stands from `start` on before the frame that was the last. */
static void
swap(struct wire *wire, size_t start)
{
	struct buf copy = {0};
	size_t bytes = wire->bytes.bytes - start;

	buf_append(&copy, wire->bytes.data + wire->last, start - wire->last);
	memmove(wire->bytes.data + wire->last, wire->bytes.data + start, bytes);
	memcpy(wire->bytes.data + wire->last + bytes, copy.data, copy.bytes);
	buf_release(&copy);
}

static void
append_again(struct wire *wire, size_t start)
{
	struct buf copy = {0};

	buf_append(&copy, wire->bytes.data + start, wire->bytes.bytes - start);
	buf_append(&wire->bytes, copy.data, copy.bytes);
	buf_release(&copy);
}

/* What may become of a frame that stands from `start` on. */
static void
damage(struct wire *wire, size_t start)
{
	uint32_t bytes = (uint32_t)(wire->bytes.bytes - start);

	wire->damaged = true;
	world.tally.damaged++;
	switch (random_below(4)) {
	case 0:
		wire->bytes.bytes = start;
		break;
	case 1:
		append_again(wire, start);
		break;
	case 2:
		if (wire->last >= wire->at && wire->last < start)
			swap(wire, start);
		break;
	default:
		wire->bytes.data[start + random_below(bytes)] ^=
		    (uint8_t)(1U << random_below(8));
	}
}

int
io_write_all(int fd, struct iovec *pieces, int count, struct err *err)
{
	struct wire *wire = wires[fd - FIRST_FD];
	size_t start = wire->bytes.bytes;

	if (wire->gone)
		return err_set(err, EX_TEMPFAIL, "output: the reader is gone");
	for (int i = 0; i < count; i++)
		buf_append(&wire->bytes, pieces[i].iov_base, pieces[i].iov_len);
	if (fault(FAULT_PERMILLE))
		damage(wire, start);
	wire->last = start;
	return 0;
}

ssize_t
io_read(int fd, void *data, size_t bytes, struct err *err)
{
	struct wire *wire = wires[fd - FIRST_FD];
	size_t left = wire->bytes.bytes - wire->at;

	(void)err;
	if (bytes > left)
		bytes = left;
	if (bytes > 1 && chance(20))
		bytes = 1 + random_below((uint32_t)bytes);
	if (bytes > 0)
		memcpy(data, wire->bytes.data + wire->at, bytes);
	wire->at += bytes;
	return (ssize_t)bytes;
}

void
wire_cut(struct wire *wire)
{
	size_t left = wire->bytes.bytes - wire->at;

	if (left > 0 && chance(70)) {
		wire->bytes.bytes = wire->at + random_below((uint32_t)left);
		world.tally.torn++;
	}
	wire->closed = true;
}

bool
wire_ready(const struct wire *wire)
{
	return wire->closed || wire->bytes.bytes > wire->at;
}
