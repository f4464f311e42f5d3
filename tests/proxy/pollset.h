/*
 * pollset - what a turn of the loop waits for: descriptors, and a time.
 *
 * Each turn builds it anew: clear, add and wake_at as often as needed, wait,
 * and then each who added a descriptor asks for its events by the place that
 * pollset_add() gave it, which holds until the next clear.
 */
#ifndef QIM_TESTS_PROXY_POLLSET_H
#define QIM_TESTS_PROXY_POLLSET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

/* All zero at first; only pollset.c looks inside. */
struct pollset {
	struct pollfd *polls;
	size_t count, room;
	uint64_t wake_ns; /* the next time something is due, or NEVER */
};

void pollset_clear(struct pollset *set);

/* Returns its place.  Where `events` is 0, or fd -1, it has no events. */
size_t pollset_add(struct pollset *set, int fd, short events);

/* Wait no longer than until then, by sys_clock_ns(); NEVER changes nothing. */
void pollset_wake_at(struct pollset *set, uint64_t at_ns);

/* Returns at the first event, at the time, or after a signal. */
void pollset_wait(struct pollset *set);

/* As in revents of poll(2); 0: none. */
short pollset_events(const struct pollset *set, size_t place);

#endif
