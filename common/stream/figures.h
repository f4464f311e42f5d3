/*
 * figures - what stages count: qim-figures(5) says what each means.
 *
 * Reading and writing a stream counts frames and times by itself; what is
 * in flight and what went wrong is counted where it happens.
 */
#ifndef QIM_STREAM_FIGURES_H
#define QIM_STREAM_FIGURES_H

#include "base/figures.h"

/* Written as a stream; offset-commit and outbox-write set what they do. */
extern struct figure stage_batches, stage_records, stage_bytes_out;
extern struct figure stage_progress;

/* Read as a stream. */
extern struct figure stage_batches_in, stage_records_in, stage_bytes_in;

extern struct figure stage_in_flight_batches, stage_in_flight_bytes;
extern struct figure stage_in_flight_records;

/* One for each step of `at`, and that of a commit. */
extern struct figure step_read, step_plan, step_enqueue, step_acks, step_apply,
    step_commit;

extern struct figure stage_retries;
extern struct figure stage_dead_letters;

/* Takes a step's time into its histogram. */
void step_observe(const char *name, uint64_t us);

#endif
