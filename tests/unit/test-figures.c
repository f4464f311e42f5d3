/*
 * figures: both formats, and the thread that writes them beside the writer.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/figures-write.h"
#include "base/msg.h"

static struct figure records = FIGURE_COUNTS("qim_a_total", "Records.");
static struct figure left = {.name = "qim_b",
    .help = "Left.",
    .type = FIGURE_GAUGE,
    .labels = {{"side", "left"}},
    .value = FIGURE_UNKNOWN};
static struct figure right = {.name = "qim_b",
    .help = "Left.",
    .type = FIGURE_GAUGE,
    .labels = {{"side", "right"}},
    .value = 7};
static struct figure times = {
    .name = "qim_c_seconds", .help = "Times.", .type = FIGURE_HISTOGRAM};
static struct figure parts = {.name = "qim_d",
    .help = "Of a part.",
    .type = FIGURE_GAUGE,
    .labels = {{"topic", ""}, {"partition", ""}},
    .is_family = 1};
static struct figure delay = {.name = "qim_e_seconds",
    .help = "Delay.",
    .type = FIGURE_SECONDS,
    .value = 1500000};
static struct figure moment = {.name = "qim_f_timestamp_seconds",
    .help = "Moment.",
    .type = FIGURE_TIME,
    .value = 900000};
static struct figure last = {
    .name = "qim_g", .help = "Last.", .type = FIGURE_GAUGE};

static struct figure *const own[] = {&records, &left, &right, NULL};
static struct figure *const table[] = {
    &times, &parts, &delay, &moment, &last, NULL};

/* A second after the clock began it is 100 s in Unix time. */
static const struct figures_view view = {.own = own,
    .table = table,
    .program = "unit",
    .chain = "a-b",
    .now_us = 1000000,
    .unix_us = 100000000};

static void
add_part(const char *topic, const char *partition, uint64_t value)
{
	const char *values[] = {topic, partition};
	struct err err;

	assert_non_null(figure_add_series(&parts, values, 0, value, &err));
}

/* What a figure has besides the text. */
static int
fill(void **state)
{
	(void)state;
	figure_add(&records, 2);
	figure_add(&records, 3);
	figure_observe(&times, 100);
	figure_observe(&times, 101);
	figure_observe(&times, 60000001);
	add_part("t\"\\\n", "3", 9);
	add_part("t", "4", FIGURE_UNKNOWN);
	add_part("t", "5", 0);
	return 0;
}

#define AT "{program=\"unit\",chain=\"a-b\""

static void
expect_written(void (*write_figures)(struct buf *, const struct figures_view *),
    const char *const *wanted, size_t count)
{
	struct buf out = {0};

	write_figures(&out, &view);
	buf_append(&out, "", 1);
	assert_false(out.failed);
	for (size_t i = 0; i < count; i++)
		if (strstr((char *)out.data, wanted[i]) == NULL)
			fail_msg("no\n%s in\n%s", wanted[i], (char *)out.data);
	buf_release(&out);
}

static void
test_prom(void **state)
{
	static const char *const wanted[] = {
	    "# HELP qim_a_total Records.\n# TYPE qim_a_total counter\n"
	    "qim_a_total" AT "} 5\n# HELP qim_b Left.\n# TYPE qim_b gauge\n"
	    "qim_b" AT ",side=\"right\"} 7\n# HELP qim_c_seconds Times.\n"
	    "# TYPE qim_c_seconds histogram\n"
	    "qim_c_seconds_bucket" AT ",le=\"0.0001\"} 1\n"
	    "qim_c_seconds_bucket" AT ",le=\"0.0002\"} 2\n",
	    "qim_c_seconds_bucket" AT ",le=\"60\"} 2\n"
	    "qim_c_seconds_bucket" AT ",le=\"+Inf\"} 3\n"
	    "qim_c_seconds_sum" AT "} 60.000202\nqim_c_seconds_count" AT "} 3\n"
	    "# HELP qim_d Of a part.\n# TYPE qim_d gauge\n"
	    "qim_d" AT ",topic=\"t\\\"\\\\\\n\",partition=\"3\"} 9\n"
	    "qim_d" AT ",topic=\"t\",partition=\"5\"} 0\n"
	    "# HELP qim_e_seconds Delay.\n# TYPE qim_e_seconds gauge\n"
	    "qim_e_seconds" AT "} 1.5\n",
	    "qim_f_timestamp_seconds" AT "} 99.9\n",
	};

	(void)state;
	expect_written(
	    figures_write_prom, wanted, sizeof(wanted) / sizeof(*wanted));
}

static void
test_json(void **state)
{
	static const char *const wanted[] = {
	    "{\"time\":100,\"program\":\"unit\",\"chain\":\"a-b\","
	    "\"qim_a_total\":5,\"qim_b\":[{\"side\":\"right\",\"value\":7}],"
	    "\"qim_c_seconds\":[{\"buckets\":[[0.0001,1],[0.0002,2],",
	    "[60,2],[null,3]],\"count\":3,\"sum\":60.000202}],"
	    "\"qim_d\":[{\"topic\":\"t\\\"\\\\\\u000a\",\"partition\":\"3\","
	    "\"value\":9},{\"topic\":\"t\",\"partition\":\"5\",\"value\":0}],"
	    "\"qim_e_seconds\":1.5,\"qim_f_timestamp_seconds\":99.9,"
	    "\"qim_g\":0}\n",
	};

	(void)state;
	expect_written(
	    figures_write_json, wanted, sizeof(wanted) / sizeof(*wanted));
}

static void
test_lines(void **state)
{
	char path[] = "/tmp/test-figures-XXXXXX";
	struct figures_lines lines;
	struct buf line = {0};
	char text[16];
	struct err err;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	buf_append(&line, "line\n", 5);
	snprintf(text, sizeof(text), "%d", fd);
	assert_int_equal(figures_lines_open(&lines, text, &err), 0);
	assert_int_equal(figures_lines_write(&lines, &line, 0), 0);
	assert_int_equal(figures_lines_write(&lines, &line, 0), 0);
	figures_lines_close(&lines);
	assert_int_equal(lseek(fd, 0, SEEK_END), 10);
	close(fd);
	unlink(path);
	assert_int_equal(figures_lines_open(&lines, text, &err), -1);
	assert_int_equal(err.code, EX_NOINPUT);
	assert_int_equal(figures_lines_open(&lines, "1", &err), -1);
	assert_int_equal(err.code, EX_CONFIG);
	assert_int_equal(figures_lines_open(&lines, "99999999999", &err), -1);
	assert_int_equal(err.code, EX_NOINPUT);
	buf_release(&line);
}

/* Takes lines of `bytes` until the pipe is full; how many those were. */
static int
fill_pipe(struct figures_lines *lines, const struct buf *line)
{
	int count = 0;

	while (figures_lines_write(lines, line, 0) == 0)
		assert_true(++count < 1000);
	return count;
}

/* What doesn't fit is held back, and nothing is put in its middle. */
static void
test_full_pipe(void **state)
{
	enum {
		LINE = 5000
	};
	struct figures_lines lines;
	struct buf line = {0};
	static char taken[LINE * 1000];
	size_t bytes = 0;
	char text[16];
	struct err err;
	ssize_t got;
	int ends[2], count;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	snprintf(text, sizeof(text), "%d", ends[1]);
	assert_int_equal(figures_lines_open(&lines, text, &err), 0);
	/* The other one's descriptor still waits. */
	assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
	for (int i = 0; i < LINE - 1; i++)
		buf_append(&line, "x", 1);
	buf_append(&line, "\n", 1);
	count = fill_pipe(&lines, &line);
	assert_true(count > 5);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	for (int round = 0; round < 3; round++) {
		while ((got = read(ends[0], taken + bytes, 3000)) > 0)
			bytes += (size_t)got;
		if (round < 2)
			count += figures_lines_write(&lines, &line, 0) == 0;
	}
	assert_int_equal(bytes, (size_t)count * LINE);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(taken[i], i % LINE == LINE - 1 ? '\n' : 'x');
	close(ends[0]);
	assert_int_equal(figures_lines_write(&lines, &line, 0), -1);
	figures_lines_close(&lines);
	close(ends[1]);
	buf_release(&line);
}

static char *
read_text(const char *path)
{
	char *text = calloc(1, 1 << 16);
	int fd = open(path, O_RDONLY);

	assert_non_null(text);
	if (fd >= 0)
		assert_true(read(fd, text, (1 << 16) - 1) >= 0);
	close(fd);
	return text;
}

static _Atomic int samples;

static void
sample(void)
{
	samples++;
}

/* All that a program does while the thread writes. */
static void
test_thread(void **state)
{
	char folder[] = "/tmp/test-figures-XXXXXX", path[64], line[64];
	struct figures_options options = {.table = table, .chain = "x"};
	uint64_t end_us;
	struct err err;
	char *text;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/qim-x-unit.prom", folder);
	snprintf(line, sizeof(line), "%s/lines", folder);
	options.prom = folder;
	options.stats = line;
	assert_int_equal(figures_open(&options, &err), 0);
	assert_true(figures_are_on());
	figures_set_sample(sample);
	assert_int_equal(figures_start(&err), 0);
	end_us = clock_us() + 1300000;
	figure_set(&last, 0);
	while (clock_us() < end_us) {
		figure_add(&last, 1);
		figure_observe(&times, 5);
		if (figure_get(&last) % 100000 == 0)
			add_part("more", "1", 1);
	}
	figure_set(&last, 12345);
	figures_end(75);
	assert_false(figures_are_on());
	assert_true(samples >= 3);
	text = read_text(path);
	assert_non_null(strstr(text,
	    "qim_g{program=\"unit\",chain=\"x\"} "
	    "12345\n"));
	assert_non_null(strstr(text,
	    "qim_exit_code{program=\"unit\","
	    "chain=\"x\"} 75\n"));
	free(text);
	text = read_text(line);
	assert_non_null(strstr(text, "\"qim_exit_code\":75,"));
	free(text);
	unlink(path);
	unlink(line);
	assert_int_equal(rmdir(folder), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_prom),
	    cmocka_unit_test(test_json),
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_full_pipe),
	    cmocka_unit_test(test_thread),
	};

	signal(SIGPIPE, SIG_IGN);
	msg_init("unit");
	msg_set_level(MSG_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, fill, NULL);
}
