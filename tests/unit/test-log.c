/*
 * log: the form of lines, lines to a full pipe, files that rotate, files that
 * are replaced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/lineout.h"
#include "base/logfile.h"
#include "base/msg.h"
#include "base/replace.h"
#include "base/rotate.h"

static char folder[] = "/tmp/qim-test-log-XXXXXX";

static void
test_forms(void **state)
{
	char out[32];

	(void)state;
	msg_mask_again("a\\x0a\033", 6, out, sizeof(out));
	assert_string_equal(out, "a\\x0a\\x1b");
	assert_true(msg_has_form("outbox-read: error: why"));
	assert_true(msg_has_form("x: info: "));
	assert_false(msg_has_form("x: info:"));
	assert_false(msg_has_form("x: infos: y"));
	assert_false(msg_has_form(": info: y"));
	assert_false(msg_has_form("x y: info: z"));
	assert_false(msg_has_form("x"));
	assert_false(msg_has_form(""));
}

/* Reads up to `most` bytes, until the pipe is empty; returns the lines. */
static size_t
drain(int fd, char *text, size_t most)
{
	size_t used = 0, lines = 0;
	ssize_t got;

	while (used < most && (got = read(fd, text + used, most - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	for (size_t i = 0; i < used; i++)
		lines += text[i] == '\n';
	return lines;
}

/* Lines of 1 KiB: more than pipe and queue take are dropped and told. */
static void
check_lineout(bool own)
{
	static struct lineout out;
	static char text[1 << 20], line[1024];
	int fds[2];
	size_t taken, told;

	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	lineout_init(&out, fds[1]);
	assert_true(out.own);
	if (!own) {
		lineout_release(&out);
		out.fd = fds[1];
	}
	for (int i = 0; i < 1000; i++) {
		lineout_add(&out, line, sizeof(line));
		lineout_write(&out);
	}
	assert_true(out.dropped > 500);
	told = out.dropped;
	taken = drain(fds[0], text, sizeof(text) - 1);
	assert_true(taken > 0);
	lineout_finish(&out, 0);
	taken += drain(fds[0], text, sizeof(text) - 1);
	while (lineout_pending(&out)) {
		lineout_finish(&out, 0);
		taken += drain(fds[0], text, sizeof(text) - 1);
	}
	assert_int_equal(out.dropped, 0);
	assert_int_equal(taken + told, 1001);
	assert_non_null(strstr(text, "lines dropped: nobody took them\n"));
	/* A reader that has gone drops, and doesn't wait. */
	close(fds[0]);
	lineout_add(&out, line, sizeof(line));
	lineout_write(&out);
	assert_false(lineout_pending(&out));
	assert_int_equal(out.dropped, 1);
	lineout_release(&out);
	close(fds[1]);
}

static void
test_lineout(void **state)
{
	(void)state;
	check_lineout(true);
	check_lineout(false);
}

static void
put(const char *path, const char *text)
{
	struct err err;

	assert_int_equal(
	    replace_file(path, false, text, strlen(text), &err), 0);
}

/* The content of a file, "-" where there is none. */
static void
check_content(const char *path, const char *expected)
{
	struct err err;
	size_t bytes;
	char *text = io_read_file(path, 4096, false, &bytes, &err);

	assert_string_equal(text == NULL ? "-" : text, expected);
	free(text);
}

static void
test_rotation(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(rotate_files(AT_FDCWD, "a", 3, &err), 0);
	put("a", "1");
	assert_int_equal(rotate_files(AT_FDCWD, "a", 3, &err), 0);
	check_content("a", "-");
	put("a", "2");
	assert_int_equal(rotate_files(AT_FDCWD, "a", 3, &err), 0);
	put("a", "3");
	assert_int_equal(rotate_files(AT_FDCWD, "a", 3, &err), 0);
	check_content("a", "-");
	check_content("a.1", "3");
	check_content("a.2", "2");
	check_content("a.3", "-");
	put("a", "4");
	put("a.3", "of more");
	put("a.4", "of more");
	put("a.6", "not of ours");
	assert_int_equal(rotate_files(AT_FDCWD, "a", 2, &err), 0);
	check_content("a.1", "4");
	check_content("a.2", "-");
	check_content("a.3", "-");
	check_content("a.4", "-");
	check_content("a.6", "not of ours");
	put("a", "5");
	assert_int_equal(rotate_files(AT_FDCWD, "a", 1, &err), 0);
	check_content("a", "-");
	check_content("a.1", "-");
	put("a.1", "3");
	assert_int_equal(mkfifo("f", 0600), 0);
	assert_int_equal(rotate_files(AT_FDCWD, "f", 3, &err), -1);
	assert_int_equal(err.code, EX_NOINPUT);
	assert_int_equal(symlink("a.1", "l"), 0);
	assert_int_equal(rotate_files(AT_FDCWD, "l", 1, &err), -1);
	check_content("l", "3");
}

static void
test_logfile(void **state)
{
	struct logfile log = {.path = "log", .bytes_max = 6, .files = 2};
	struct err err;

	(void)state;
	assert_int_equal(logfile_write(&log, "ab\n", 3, &err), 0);
	assert_int_equal(logfile_write(&log, "cd\n", 3, &err), 0);
	check_content("log", "ab\ncd\n");
	assert_int_equal(logfile_write(&log, "0123456789\n", 11, &err), 0);
	check_content("log", "0123456789\n");
	check_content("log.1", "ab\ncd\n");
	assert_int_equal(logfile_write(&log, "e\n", 2, &err), 0);
	check_content("log.1", "0123456789\n");
	log.path = "none/log";
	assert_int_equal(logfile_write(&log, "e\n", 2, &err), -1);
	assert_int_equal(err.code, EX_NOINPUT);
}

static void
test_replace(void **state)
{
	struct err err;

	(void)state;
	put("r", "old");
	assert_int_equal(mkdir("r.new", 0700), 0);
	assert_int_equal(replace_file("r", false, "new", 3, &err), -1);
	assert_int_equal(err.code, EX_IOERR);
	check_content("r", "old");
	assert_int_equal(rmdir("r.new"), 0);
	put("r", "new");
	check_content("r", "new");
	check_content("r.new", "-");
}

static int
enter_folder(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return mkdtemp(folder) == NULL ? -1 : chdir(folder);
}

static int
leave_folder(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_lineout),
	    cmocka_unit_test(test_rotation),
	    cmocka_unit_test(test_logfile),
	    cmocka_unit_test(test_replace),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name(
	    "log", tests, enter_folder, leave_folder);
}
