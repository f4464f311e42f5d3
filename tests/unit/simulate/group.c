/* What the group has committed, and commits that land late. */
#include "world.h"

#define LATE_MOST 4

static struct landing late[LATE_MOST];

void
group_begin(void)
{
	memset(late, 0, sizeof(late));
}

/* R1, where a partition's committed offset moves. */
static void
check_durable(uint32_t source, int64_t committed)
{
	for (uint32_t i = 0; i < world.item_count; i++) {
		const struct item *item = &world.items[i];
		int64_t offset = world.source[source].offset[item->record];

		if (item->source == source && offset < committed &&
		    !item->durable)
			complain("outbox[%u] committed %lld, what came of "
				 "offset %lld isn't durable (for %d)",
			    source, (long long)committed, (long long)offset,
			    (int)item->partition);
	}
}

void
group_land(const struct landing *landing)
{
	for (uint32_t s = 0; s < SOURCES; s++) {
		int64_t offset = landing->offset[s];
		int64_t *committed = &world.source[s].committed;

		if (offset < 0)
			continue;
		if (offset < *committed && !world.overtaken &&
		    !world.has_second)
			complain("outbox[%u] committed %lld after %lld", s,
			    (long long)offset, (long long)*committed);
		*committed = offset;
		world.tally.commits++;
		check_durable(s, offset);
	}
}

void
group_keep_late(const struct landing *landing)
{
	for (uint32_t i = 0; i < LATE_MOST; i++)
		if (!late[i].used) {
			late[i] = *landing;
			return;
		}
}

void
group_happen(void)
{
	struct landing *landing = &late[random_below(LATE_MOST)];

	if (!landing->used || !chance(world.faults ? 10 : 100))
		return;
	world.overtaken = true;
	world.tally.late++;
	group_land(landing);
	landing->used = false;
}
