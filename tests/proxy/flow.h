/*
 * flow - one direction of a connection: the bytes on their way.
 *
 * What was read is kept with the time it was read at, and written once the
 * delay of its link is over; reading goes on meanwhile, so that a delay costs
 * no throughput.  A flow keeps 4 MiB at most, and then the sender feels it.
 *
 * Descriptors are the connection's; a flow closes none.  Times are those of
 * sys_clock_ns().
 */
#ifndef QIM_TESTS_PROXY_FLOW_H
#define QIM_TESTS_PROXY_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From the client to the server, and back. */
enum direction {
	UP,
	DOWN,
	DIRECTIONS
};

/* The rules for one direction of a listener, shared by the flows of all its
 * connections.  Commands set them at any time; free_ns and bytes are written
 * by flows too. */
struct link {
	uint64_t delay_ns;
	uint64_t rate; /* bytes a second, 0: as fast as it goes */
	uint64_t free_ns; /* a throttled link is busy until then */
	uint64_t cut_after; /* bytes of a connection, or NEVER */
	uint64_t bytes; /* passed on */
	bool held;
};

struct chunk;

/* Outside of flow.c left is set, blocked is set to false once the receiver
 * takes bytes again, and shut is read; the rest is flow.c's. */
struct flow {
	struct chunk *first, **last;
	size_t kept; /* bytes, the chunks' own included */
	uint64_t left; /* until the connection is cut, or NEVER */
	bool ended; /* the end was read */
	bool shut; /* and passed on */
	bool blocked; /* the receiver takes nothing now */
};

/* What becomes of the connection. */
enum flow_result {
	FLOW_GOES_ON,
	FLOW_SHUT, /* the end was passed on */
	FLOW_SPENT, /* `left` is 0: to be cut */
	FLOW_BROKEN, /* an error of the socket: to be reset */
};

/* `flow` must stay where it is. */
void flow_init(struct flow *flow, const struct link *link);

/* Frees what is kept. */
void flow_empty(struct flow *flow);

/* From when on the flow takes bytes: 0 at once, NEVER: not before something
 * else has happened. */
uint64_t flow_read_at(const struct flow *flow, const struct link *link);

/* When the first of what is kept is to be written; NEVER as above. */
uint64_t flow_write_at(const struct flow *flow, const struct link *link);

/* Reads once from fd: FLOW_GOES_ON, also where there was nothing to be read,
 * or FLOW_BROKEN. */
enum flow_result flow_read(struct flow *flow, struct link *link, int fd);

/* Writes to fd what it takes of the first chunk, or the end; there must be
 * one. */
enum flow_result flow_write(struct flow *flow, struct link *link, int fd);

/* Bytes that were read and not written yet. */
size_t flow_waiting_bytes(const struct flow *flow);

#endif
