#include "base/figures.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/figures-write.h"
#include "base/msg.h"
#include "base/version.h"

#define INTERVAL_US 1000000
#define STACK_BYTES ((size_t)128 << 10)

/* A line at the end is waited for so long, and the thread at most so. */
#define LAST_LINE_MS 200
#define JOIN_S 2

#define CHAIN_BYTES_MAX 64

const uint64_t figure_bounds_us[FIGURE_BOUNDS] = {100, 200, 500, 1000, 2000,
    5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000,
    5000000, 10000000, 20000000, 60000000};

static struct figure info = {.name = "qim_build_info",
    .help = "The version of the program; always 1.",
    .type = FIGURE_GAUGE,
    .labels = {{"version", QIM_VERSION}},
    .value = 1};
static struct figure start_time = {.name = "qim_start_timestamp_seconds",
    .help = "When the program started, in Unix time.",
    .type = FIGURE_SECONDS,
    .value = FIGURE_UNKNOWN};
static struct figure exit_code = {.name = "qim_exit_code",
    .help = "The exit code, in the last writing of a program that has ended.",
    .type = FIGURE_GAUGE,
    .value = FIGURE_UNKNOWN};
static struct figure log_dropped = {.name = "qim_log_lines_dropped_total",
    .help = "Messages that standard error didn't take.",
    .type = FIGURE_COUNTER};
static struct figure dropped = {.name = "qim_figures_dropped_total",
    .help = "Lines and files of figures that couldn't be written.",
    .type = FIGURE_COUNTER};

static struct figure *const own[] = {
    &info, &start_time, &exit_code, &log_dropped, &dropped, NULL};

static struct figures_view view = {.own = own};
static struct figures_lines lines = {.fd = -1};
static struct figures_file file;
static struct buf text; /* of the writing thread, and after it the main one */
static _Atomic(void (*)(void)) sample_fn;
static int stop_fd = -1;
static pthread_t thread;
static int has_thread;

void
figure_observe(struct figure *figure, uint64_t us)
{
	size_t i = 0;

	while (i < FIGURE_BOUNDS && us > figure_bounds_us[i])
		i++;
	atomic_store_explicit(&figure->buckets[i],
	    atomic_load_explicit(&figure->buckets[i], memory_order_relaxed) + 1,
	    memory_order_relaxed);
	figure_add(figure, us);
}

struct figure *
figure_next(const struct figure *figure)
{
	return atomic_load_explicit(&figure->next, memory_order_acquire);
}

struct figure *
figure_add_series(struct figure *family, const char *const *labels,
    int32_t number, uint64_t value, struct err *err)
{
	struct figure *series = calloc(1, sizeof(*series)), *last = family;

	if (series == NULL)
		goto no_memory;
	series->name = family->name;
	series->help = family->help;
	series->type = family->type;
	series->number = number;
	figure_set(series, value);
	for (int i = 0; i < FIGURE_LABELS && family->labels[i].name; i++) {
		series->labels[i].name = family->labels[i].name;
		series->labels[i].value = strdup(labels[i]);
		if (series->labels[i].value == NULL)
			goto no_memory;
	}
	if (family->last != NULL)
		last = family->last;
	family->last = series;
	atomic_store_explicit(&last->next, series, memory_order_release);
	return series;
no_memory:
	for (int i = 0; series != NULL && i < FIGURE_LABELS; i++)
		free((char *)(uintptr_t)series->labels[i].value);
	free(series);
	err_memory(err, family->name);
	return NULL;
}

static int
check_chain(const char *name, struct err *err)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz"
				      "0123456789._-:@%";
	size_t bytes = strlen(name);

	if (bytes <= CHAIN_BYTES_MAX && strspn(name, allowed) == bytes)
		return 0;
	return err_set(err, EX_USAGE,
	    "--chain: '%s': wants 1 to %d of letters, digits and "
	    "._-:@%%",
	    name, CHAIN_BYTES_MAX);
}

static void
take_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	view.now_us = clock_us();
	view.unix_us =
	    (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int
figures_open(const struct figures_options *options, struct err *err)
{
	take_time();
	figure_set(&start_time, view.unix_us);
	/* A line's reader may leave before anything else asks for this. */
	if (options->stats != NULL)
		signal(SIGPIPE, SIG_IGN);
	view.table = options->table;
	view.program = msg_program();
	view.chain = options->chain;
	if ((options->chain != NULL && check_chain(options->chain, err) < 0) ||
	    figures_lines_open(&lines, options->stats, err) < 0 ||
	    figures_file_open(&file, options->prom, options->chain, err) < 0) {
		figures_lines_close(&lines);
		figures_file_close(&file);
		return -1;
	}
	return 0;
}

int
figures_are_on(void)
{
	return lines.fd >= 0 || file.path != NULL;
}

void
figures_set_sample(void (*sample)(void))
{
	atomic_store_explicit(&sample_fn, sample, memory_order_release);
}

/* What was made is whole, or counts as dropped. */
static void
note(int result)
{
	if (result < 0)
		figure_add(&dropped, 1);
}

static void
write_all(int wait_ms)
{
	void (*sample)(void) =
	    atomic_load_explicit(&sample_fn, memory_order_acquire);

	if (sample != NULL)
		sample();
	take_time();
	figure_set(&log_dropped, msg_dropped_count());
	if (lines.fd >= 0) {
		buf_reset(&text);
		figures_write_json(&text, &view);
		note(text.failed ? -1
				 : figures_lines_write(&lines, &text, wait_ms));
	}
	if (file.path != NULL) {
		buf_reset(&text);
		figures_write_prom(&text, &view);
		note(text.failed ? -1 : figures_file_write(&file, &text));
	}
}

static void *
run(void *unused)
{
	struct pollfd wait = {.fd = stop_fd, .events = POLLIN};
	uint64_t next_us = clock_us();

	(void)unused;
	for (;;) {
		write_all(0);
		next_us += INTERVAL_US;
		/* After a pause of the whole machine: not all at once. */
		if (next_us < clock_us())
			next_us = clock_us();
		if (poll(&wait, 1, clock_left_ms(next_us, 1000)) == 1)
			return NULL;
	}
}

/* Signals are for the main thread. */
static int
start_thread(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	error = pthread_attr_init(&attributes);
	if (error != 0)
		return error;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

int
figures_start(struct err *err)
{
	int error;

	if (!figures_are_on())
		return 0;
	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = stop_fd < 0 ? errno : start_thread();
	if (error != 0)
		return err_set(
		    err, EX_OSERR, "figures: thread: %s", strerror(error));
	has_thread = 1;
	return 0;
}

/* False: it hangs in a write, and what it uses is its own for good. */
static int
end_thread(void)
{
	const uint64_t one = 1;
	struct timespec until;
	ssize_t ignored;

	if (!has_thread)
		return 1;
	ignored = write(stop_fd, &one, sizeof(one));
	(void)ignored;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += JOIN_S;
	return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

void
figures_end(int code)
{
	if (!figures_are_on() || !end_thread())
		return;
	figure_set(&exit_code, (uint64_t)code);
	write_all(LAST_LINE_MS);
	figures_lines_close(&lines);
	figures_file_close(&file);
	buf_release(&text);
	if (stop_fd >= 0)
		close(stop_fd);
	stop_fd = -1;
	has_thread = 0;
}
