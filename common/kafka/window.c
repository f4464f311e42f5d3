#include "kafka/window.h"

#include <stdlib.h>

int
window_init(struct window *window, uint32_t batches_most, uint64_t bytes_most,
    struct err *err)
{
	*window = (struct window){
	    .ring = calloc(batches_most, sizeof(*window->ring)),
	    .most = batches_most,
	    .bytes_most = bytes_most,
	};
	return window->ring == NULL ? err_memory(err, "window") : 0;
}

void
window_release(struct window *window)
{
	free(window->ring);
	window->ring = NULL;
}

/* The newest batch; NULL when there is none. */
static struct window_batch *
tail_of(const struct window *window)
{
	if (window->count == 0)
		return NULL;
	return &window->ring[(window->head + window->count - 1) % window->most];
}

bool
window_has_room(const struct window *window)
{
	const struct window_batch *tail = tail_of(window);

	if (window->bytes >= window->bytes_most)
		return false;
	return (tail != NULL && tail->open) || window->count < window->most;
}

void
window_begin(
    struct window *window, struct window_part *part, uint64_t bytes, bool more)
{
	struct window_batch *batch = tail_of(window);

	if (batch == NULL || !batch->open) {
		window->count++;
		batch = tail_of(window);
		*batch = (struct window_batch){0};
	}
	batch->open = more;
	batch->last = more ? NULL : part;
	*part = (struct window_part){.batch = batch, .bytes = bytes};
	window->bytes += bytes;
	/* Holds the part together while its records are counted one by one,
	 * some of which may be reported meanwhile. */
	window_expect(part);
}

void
window_expect(struct window_part *part)
{
	part->pending++;
	part->batch->pending++;
}

void
window_grow(struct window *window, struct window_part *part, uint64_t bytes)
{
	part->bytes += bytes;
	window->bytes += bytes;
}

bool
window_report(struct window *window, struct window_part *part, bool delivered)
{
	struct window_batch *batch = part->batch;

	batch->failed = batch->failed || !delivered;
	batch->pending--;
	part->pending--;
	if (part->pending > 0 || batch->last == part)
		return false;
	window->bytes -= part->bytes;
	return true;
}

struct window_part *
window_done(const struct window *window)
{
	const struct window_batch *head = &window->ring[window->head];

	if (window->count == 0 || head->failed || head->open ||
	    head->pending > 0)
		return NULL;
	return head->last;
}

void
window_pop(struct window *window)
{
	window->bytes -= window->ring[window->head].last->bytes;
	window->head = (window->head + 1) % window->most;
	window->count--;
}

bool
window_waits(const struct window *window)
{
	const struct window_batch *head = &window->ring[window->head];

	return window->count > 0 && !head->failed && !head->open;
}
