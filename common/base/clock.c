#include "base/clock.h"

#include <time.h>

uint64_t
clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int
clock_left_ms(uint64_t deadline_us, int most)
{
	uint64_t now = clock_us();
	uint64_t left;

	if (deadline_us <= now)
		return 0;
	left = (deadline_us - now + 999) / 1000;
	return left > (uint64_t)most ? most : (int)left;
}
