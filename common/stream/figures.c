#include "stream/figures.h"

#include <string.h>

#define STEP(its_step) \
	FIGURE_LABELLED("qim_step_seconds", "Time of a batch in a step.", \
	    FIGURE_HISTOGRAM, "step", its_step)

struct figure stage_batches =
    FIGURE_COUNTS("qim_batches_total", "Batches done.");
struct figure stage_records =
    FIGURE_COUNTS("qim_records_total", "Records of batches done.");
struct figure stage_bytes_out =
    FIGURE_COUNTS("qim_out_bytes_total", "Bytes of stream written.");
struct figure stage_batches_in =
    FIGURE_COUNTS("qim_in_batches_total", "Batches taken in.");
struct figure stage_records_in =
    FIGURE_COUNTS("qim_in_records_total", "Records taken in.");
struct figure stage_bytes_in =
    FIGURE_COUNTS("qim_in_bytes_total", "Bytes taken in.");
struct figure stage_retries = FIGURE_COUNTS(
    "qim_retries_total", "Records, or commits, that were sent again.");
struct figure stage_dead_letters =
    FIGURE_COUNTS("qim_dead_letters_total", "Dead letters made.");

struct figure stage_in_flight_batches =
    FIGURE_GAUGES("qim_in_flight_batches", "Batches taken in and not done.");
struct figure stage_in_flight_records =
    FIGURE_GAUGES("qim_in_flight_records", "Records taken in and not done.");
struct figure stage_in_flight_bytes =
    FIGURE_GAUGES("qim_in_flight_bytes", "Memory held for what is in flight.");

struct figure stage_progress = {.name = "qim_last_progress_timestamp_seconds",
    .help = "When a batch was done last, in Unix time.",
    .type = FIGURE_TIME,
    .value = FIGURE_UNKNOWN};

struct figure step_read = STEP("read");
struct figure step_plan = STEP("plan");
struct figure step_enqueue = STEP("enqueue");
struct figure step_acks = STEP("acks");
struct figure step_apply = STEP("apply");
struct figure step_commit = STEP("commit");

static struct figure *const steps[] = {
    &step_read, &step_plan, &step_enqueue, &step_acks, &step_apply};

void
step_observe(const char *name, uint64_t us)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (strcmp(steps[i]->labels[0].value, name) == 0) {
			figure_observe(steps[i], us);
			return;
		}
}
