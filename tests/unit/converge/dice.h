/*
 * dice - chance that a seed repeats.
 */
#ifndef QIM_TESTS_CONVERGE_DICE_H
#define QIM_TESTS_CONVERGE_DICE_H

#include <stdbool.h>
#include <stdint.h>

extern uint64_t dice_state;

static inline void
dice_seed(uint64_t seed)
{
	dice_state = seed * 0x9e3779b97f4a7c15ULL + 1;
}

static inline uint32_t
random_below(uint32_t limit)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (uint32_t)(dice_state >> 20) % limit;
}

static inline bool
chance(uint32_t percent)
{
	return random_below(100) < percent;
}

#endif
