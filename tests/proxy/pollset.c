#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "pollset.h"
#include "sys.h"

void
pollset_clear(struct pollset *set)
{
	set->count = 0;
	set->wake_ns = NEVER;
}

/* Where nothing is wanted of it poll(2) must not look at it: a peer that hung
 * up would be told of at once, again and again. */
size_t
pollset_add(struct pollset *set, int fd, short events)
{
	if (set->count == set->room) {
		set->room = set->room == 0 ? 64 : set->room * 2;
		set->polls =
		    realloc(set->polls, set->room * sizeof(*set->polls));
		if (set->polls == NULL)
			sys_die("poll");
	}
	set->polls[set->count] =
	    (struct pollfd){.fd = events == 0 ? -1 : fd, .events = events};
	return set->count++;
}

void
pollset_wake_at(struct pollset *set, uint64_t at_ns)
{
	if (at_ns < set->wake_ns)
		set->wake_ns = at_ns;
}

void
pollset_wait(struct pollset *set)
{
	struct timespec timeout, *wait = NULL;
	uint64_t now_ns, left_ns;

	if (set->wake_ns != NEVER) {
		now_ns = sys_clock_ns();
		left_ns = set->wake_ns > now_ns ? set->wake_ns - now_ns : 0;
		timeout.tv_sec = (time_t)(left_ns / SECOND_NS);
		timeout.tv_nsec = (long)(left_ns % SECOND_NS);
		wait = &timeout;
	}
	if (ppoll(set->polls, set->count, wait, NULL) < 0 && errno != EINTR)
		sys_die("ppoll");
}

short
pollset_events(const struct pollset *set, size_t place)
{
	return set->polls[place].revents;
}
