/*
 * clock - microseconds and milliseconds from CLOCK_MONOTONIC, and the time of
 * a log line.
 *
 * Deadlines and the times in frames use it: it is the same for all processes
 * of a host and no clock step moves it.  Nothing here orders by wall time.
 */
#ifndef QIM_BASE_CLOCK_H
#define QIM_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_us(void);

/* Milliseconds from now until `deadline_us`, 0 when it is past, at most
 * `most`: a timeout for poll(2). */
int clock_left_ms(uint64_t deadline_us, int most);

#define CLOCK_UTC_BYTES 32

/* The wall clock for people, "2026-11-29T22:02:37.123Z". */
void clock_utc(char text[CLOCK_UTC_BYTES]);

#endif
