#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow.h"
#include "sys.h"

/* What a flow keeps: 40 MB/s at 100 ms. */
#define FLOW_BYTES ((size_t)4 << 20)
#define READ_BYTES 65536

/* A throttled link: the pieces it sends at a time, and how much waits. */
#define PIECES_A_SECOND 200
#define PIECE_BYTES_LEAST 64
#define LINK_QUEUE_NS (SECOND_NS / 20)

/* Without bytes: the end of the stream. */
struct chunk {
	struct chunk *next;
	uint64_t at_ns; /* when it had passed the link, its delay aside */
	size_t bytes, sent;
	char data[];
};

void
flow_init(struct flow *flow, const struct link *link)
{
	*flow = (struct flow){.last = &flow->first, .left = link->cut_after};
}

void
flow_empty(struct flow *flow)
{
	while (flow->first != NULL) {
		struct chunk *next = flow->first->next;

		free(flow->first);
		flow->first = next;
	}
	flow->last = &flow->first;
	flow->kept = 0;
}

/* Puts what was read behind the rest.  A throttled link takes its time. */
static void
keep(struct flow *flow, struct link *link, const char *data, size_t bytes)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + bytes);

	if (chunk == NULL)
		sys_die("chunk");
	*chunk = (struct chunk){.at_ns = sys_clock_ns(), .bytes = bytes};
	memcpy(chunk->data, data, bytes);
	if (link->rate > 0) {
		if (link->free_ns < chunk->at_ns)
			link->free_ns = chunk->at_ns;
		link->free_ns += bytes * SECOND_NS / link->rate;
		chunk->at_ns = link->free_ns;
	}
	*flow->last = chunk;
	flow->last = &chunk->next;
	flow->kept += sizeof(*chunk) + bytes;
}

static void
drop_first(struct flow *flow)
{
	struct chunk *chunk = flow->first;

	flow->kept -= sizeof(*chunk) + chunk->bytes;
	flow->first = chunk->next;
	if (flow->first == NULL)
		flow->last = &flow->first;
	free(chunk);
}

uint64_t
flow_read_at(const struct flow *flow, const struct link *link)
{
	if (link->held || flow->ended || flow->kept >= FLOW_BYTES)
		return NEVER;
	if (link->rate == 0 || link->free_ns < LINK_QUEUE_NS)
		return 0;
	return link->free_ns - LINK_QUEUE_NS;
}

uint64_t
flow_write_at(const struct flow *flow, const struct link *link)
{
	if (link->held || flow->blocked || flow->first == NULL)
		return NEVER;
	return flow->first->at_ns + link->delay_ns;
}

static size_t
read_size(const struct link *link)
{
	uint64_t piece = link->rate / PIECES_A_SECOND;

	if (link->rate == 0 || piece > READ_BYTES)
		return READ_BYTES;
	return piece < PIECE_BYTES_LEAST ? PIECE_BYTES_LEAST : (size_t)piece;
}

enum flow_result
flow_read(struct flow *flow, struct link *link, int fd)
{
	static char data[READ_BYTES];
	ssize_t bytes = read(fd, data, read_size(link));

	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR ? FLOW_GOES_ON
							 : FLOW_BROKEN;
	keep(flow, link, data, (size_t)bytes);
	flow->ended = bytes == 0;
	return FLOW_GOES_ON;
}

static enum flow_result
pass_end(struct flow *flow, int fd)
{
	shutdown(fd, SHUT_WR);
	flow->shut = true;
	drop_first(flow);
	return FLOW_SHUT;
}

static enum flow_result
pass_bytes(struct flow *flow, struct link *link, int fd)
{
	struct chunk *chunk = flow->first;
	size_t bytes = chunk->bytes - chunk->sent;
	ssize_t sent;

	if (bytes > flow->left)
		bytes = (size_t)flow->left;
	sent = send(fd, chunk->data + chunk->sent, bytes, MSG_NOSIGNAL);
	if (sent < 0) {
		flow->blocked = errno == EAGAIN;
		return flow->blocked || errno == EINTR ? FLOW_GOES_ON
						       : FLOW_BROKEN;
	}
	link->bytes += (uint64_t)sent;
	chunk->sent += (size_t)sent;
	if (chunk->sent == chunk->bytes)
		drop_first(flow);
	if (flow->left == NEVER)
		return FLOW_GOES_ON;
	flow->left -= (uint64_t)sent;
	return flow->left == 0 ? FLOW_SPENT : FLOW_GOES_ON;
}

enum flow_result
flow_write(struct flow *flow, struct link *link, int fd)
{
	return flow->first->bytes == 0 ? pass_end(flow, fd)
				       : pass_bytes(flow, link, fd);
}

size_t
flow_waiting_bytes(const struct flow *flow)
{
	size_t bytes = 0;

	for (const struct chunk *c = flow->first; c != NULL; c = c->next)
		bytes += c->bytes - c->sent;
	return bytes;
}
