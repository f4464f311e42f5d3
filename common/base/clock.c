#include "base/clock.h"

#include <stdio.h>
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

void
clock_utc(char text[CLOCK_UTC_BYTES])
{
	struct timespec now;
	struct tm utc;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	used = strftime(text, CLOCK_UTC_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + used, CLOCK_UTC_BYTES - used, ".%03uZ",
	    (unsigned)(now.tv_nsec / 1000000) % 1000U);
}
