/*
 * base: numbers and lists of options, masking, lines, locks, signals, base64,
 * views.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lines.h"
#include "base/lock.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/signals.h"
#include "stream/base64.h"
#include "stream/guard.h"
#include "stream/view.h"

static void
test_numbers(void **state)
{
	static const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x1",
	    "1e3", "9", "101", "18446744073709551616",
	    "99999999999999999999999999"};
	struct err err;
	uint64_t number = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(opt_number("--batch", bad[i], 10, 100,
				     "records", &number, &err),
		    -1);
		assert_int_equal(err.code, EX_USAGE);
		assert_int_equal(number, 7);
	}
	assert_string_equal(err.text,
	    "--batch: '99999999999999999999999999': wants a number from 10 "
	    "to 100 records");
	assert_int_equal(opt_number("-c", "18446744073709551615", 0, UINT64_MAX,
			     NULL, &number, &err),
	    0);
	assert_true(number == UINT64_MAX);
}

static void
check_ranges(const char *text, const char *expected)
{
	char found[256] = "";
	uint32_t *numbers = NULL;
	size_t count = 0;
	struct err err;

	if (opt_ranges("-p", text, 1000000, &numbers, &count, &err) < 0) {
		assert_null(expected);
		assert_int_equal(err.code, EX_USAGE);
		return;
	}
	for (size_t i = 0; i < count; i++)
		snprintf(found + strlen(found), sizeof(found) - strlen(found),
		    "%s%u", i == 0 ? "" : " ", numbers[i]);
	free(numbers);
	assert_non_null(expected);
	assert_string_equal(found, expected);
}

static void
test_ranges(void **state)
{
	(void)state;
	check_ranges("0", "0");
	check_ranges("0-3,7", "0 1 2 3 7");
	check_ranges("7,0-2,1-3,7", "0 1 2 3 7");
	check_ranges("", NULL);
	check_ranges("-", NULL);
	check_ranges("3-1", NULL);
	check_ranges("1,", NULL);
	check_ranges(",1", NULL);
	check_ranges("1-2-3", NULL);
	check_ranges("1;2", NULL);
	check_ranges("0-999999", NULL); /* more than OPT_RANGE_COUNT */
	check_ranges("1000001", NULL);
	check_ranges("99999999999999999999", NULL);
}

static void
test_masking(void **state)
{
	char out[64];

	(void)state;
	msg_mask("a\n\x1b[2J\\\x7f\xc3\xa9", 10, out, sizeof(out));
	assert_string_equal(out, "a\\x0a\\x1b[2J\\x5c\\x7f\\xc3\\xa9");
	assert_in_range(msg_mask("\n\n\n\n\n\n", 6, out, 10), 0, 9);
	assert_string_equal(out, "\\x0a\\x0a");
}

static int
file_of(const char *text)
{
	int fd = memfd_create("lines", MFD_CLOEXEC);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* The lines, a '+' behind what there is of one too long. */
static void
check_lines(const char *text, size_t bytes_max, const char *expected)
{
	struct line_reader reader;
	struct slice line;
	struct err err;
	char found[256] = "";
	int fd = file_of(text), got;

	line_reader_init(&reader, fd, bytes_max);
	while ((got = line_read(&reader, &line, &err)) != LINE_EOF) {
		assert_true(got >= 0);
		if (got != LINE_AGAIN)
			snprintf(found + strlen(found),
			    sizeof(found) - strlen(found), "%.*s%s|",
			    (int)line.bytes, (const char *)line.data,
			    got == LINE_TOO_LONG ? "+" : "");
	}
	line_reader_release(&reader);
	close(fd);
	assert_string_equal(found, expected);
}

static void
test_lines(void **state)
{
	char *huge = malloc(300001);

	(void)state;
	check_lines("", 10, "");
	check_lines("a\nb\n", 10, "a|b|");
	check_lines("a\n\nb", 10, "a||b|");
	check_lines("12345\n123456\n1\n", 5, "12345|12345+|1|");
	check_lines("123456", 5, "12345+|");
	memset(huge, 'a', 300000);
	memcpy(huge + 299990, "\nb\nc\nddddd", 10);
	huge[300000] = '\0';
	check_lines(huge, 10, "aaaaaaaaaa+|b|c|ddddd|");
	free(huge);
}

static void
test_base64(void **state)
{
	static const char *const bad[] = {"A", "AAA", "=AAA", "A=AA",
	    "A===", "AA=A", "AA==AAAA", "AA A", "AA\n="};
	struct buf text, bytes;
	uint8_t all[256];

	(void)state;
	buf_init(&text);
	buf_init(&bytes);
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)(i * 7);
	for (size_t n = 0; n <= sizeof(all); n++) {
		buf_reset(&text);
		buf_reset(&bytes);
		base64_encode((struct slice){all, n}, &text);
		assert_int_equal(base64_decode(slice_of_buf(&text), &bytes), 0);
		assert_true(
		    slice_equal(slice_of_buf(&bytes), (struct slice){all, n}));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(base64_decode(slice_of(bad[i]), &bytes), -1);
	buf_release(&text);
	buf_release(&bytes);
}

/* Any JSON becomes msgpack and the same JSON again. */
static void
test_views(void **state)
{
	static const char *const texts[] = {"null", "true", "-5", "1.5", "\"\"",
	    "\"text\"", "[]", "[1,[2,[]],{}]",
	    "{\"b\":1,\"a\":{\"base64\":\"/wA=\"},\"c\":{\"base64\":\"\"}}",
	    "{\"u64\":\"18446744073709551615\"}", "{\"str64\":\"/w==\"}"};
	struct buf buf;

	(void)state;
	buf_init(&buf);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *in = json_loads(texts[i], JSON_DECODE_ANY, NULL);
		struct cursor cursor;
		struct err err;
		json_t *out;
		char *text;

		buf_reset(&buf);
		assert_non_null(in);
		assert_int_equal(view_pack(&buf, in), 0);
		assert_int_equal(guard_walk(slice_of_buf(&buf), &err), 0);
		cursor = cursor_of(slice_of_buf(&buf));
		out = view_msgpack(&cursor, VIEW_BIN_BASE64);
		text = json_dumps(out, JSON_COMPACT | JSON_ENCODE_ANY);
		assert_string_equal(text, texts[i]);
		free(text);
		json_decref(in);
		json_decref(out);
	}
	buf_release(&buf);
}

static void
check_lock_name(
    const char *group, const char *topic, char name[LOCK_NAME_BYTES])
{
	lock_name((const char *const[]){group, topic, "C"}, 3, name);
	assert_in_range(strlen(name), 20, 255);
	assert_null(strchr(name, '/'));
}

static void
test_lock_names(void **state)
{
	char name[LOCK_NAME_BYTES], other[LOCK_NAME_BYTES], longest[400];

	(void)state;
	check_lock_name("a/b", "t.1", name);
	assert_memory_equal(name, "a%2Fb:t.1:C:", 12);
	check_lock_name("a%2Fb", "t.1", other);
	assert_memory_equal(other, "a%252Fb:t.1:C:", 14);
	/* What the readable part doesn't tell apart the hash does. */
	check_lock_name("a", "b", name);
	check_lock_name("a:b", "", other);
	assert_string_not_equal(name, other);
	memset(longest, '\n', sizeof(longest));
	longest[399] = '\0';
	check_lock_name(longest, longest, name);
	longest[398] = 'x';
	check_lock_name(longest, longest, other);
	assert_int_equal(strlen(name), strlen(other));
	assert_string_not_equal(name, other);
}

static char lock_parent[] = "/tmp/qim-test-locks-XXXXXX";

static void
open_lock(struct lock *lock)
{
	struct lock_folder folder;
	char path[64];
	struct err err;

	snprintf(path, sizeof(path), "%s/a", lock_parent);
	assert_int_equal(lock_folder_open(&folder, path, &err), 0);
	assert_int_equal(lock_open(lock, &folder, "file", &err), 0);
	lock_folder_release(&folder);
}

/* Another process that holds 5 of the file until it is killed. */
static pid_t
start_holder(void)
{
	struct lock lock;
	struct err err;
	pid_t child, holder;
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		open_lock(&lock);
		if (lock_take(&lock, 5, &holder, &err) == 1)
			holder = (pid_t)write(ready[1], "", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void
test_locks(void **state)
{
	pid_t child, holder = -1;
	struct lock lock;
	struct err err;

	(void)state;
	assert_non_null(mkdtemp(lock_parent));
	child = start_holder();
	open_lock(&lock);
	assert_int_equal(lock_take(&lock, 5, &holder, &err), 0);
	assert_int_equal(holder, child);
	assert_int_equal(lock_take(&lock, 4, &holder, &err), 1);
	assert_int_equal(lock_take(&lock, 6, &holder, &err), 1);
	assert_int_equal(lock_take(&lock, UINT32_MAX, &holder, &err), 1);
	assert_int_equal(lock_take(&lock, 4, &holder, &err), 1);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(lock_take(&lock, 5, &holder, &err), 1);
	assert_int_equal(unlink(lock.path), 0);
	lock_release(&lock);
}

static void
check_default(const char *expected)
{
	struct lock_folder folder;
	struct err err;

	assert_int_equal(lock_folder_open(&folder, NULL, &err), 0);
	assert_string_equal(folder.path, expected);
	lock_folder_release(&folder);
}

/* Those of a user: root becomes one, who has no other use here. */
static void
test_lock_folders(void **state)
{
	char *saved = getenv("XDG_RUNTIME_DIR"), expected[64];
	uid_t user = geteuid() == 0 ? 54321 : geteuid();

	(void)state;
	assert_int_equal(chown(lock_parent, user, (gid_t)-1), 0);
	assert_int_equal(seteuid(user), 0);
	snprintf(expected, sizeof(expected), "%s/qim", lock_parent);
	setenv("XDG_RUNTIME_DIR", lock_parent, 1);
	check_default(expected);
	assert_int_equal(rmdir(expected), 0);
	snprintf(expected, sizeof(expected), "/tmp/qim-%u", (unsigned)user);
	setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
	check_default(expected);
	unsetenv("XDG_RUNTIME_DIR");
	check_default(expected);
	rmdir(expected);
	assert_int_equal(seteuid(getuid()), 0);
	if (saved != NULL)
		setenv("XDG_RUNTIME_DIR", saved, 1);
}

static void
remove_locks(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/a", lock_parent);
	rmdir(path);
	rmdir(lock_parent);
}

/* In a child of its own: waits for signals, ends with `parent`, never drains.
 * Tells on `ready` that it is there. */
static _Noreturn void
hang(pid_t parent, int ready)
{
	struct err err;

	signals_orphan_s = 1;
	if (signals_init(&err) < 0 || signals_end_with_parent(parent, &err) < 0)
		_exit(err.code);
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* The status of a process whose parent ends, and of nobody else's child. */
static int
orphan_status(void)
{
	pid_t parent, orphan;
	int status, ready[2];
	char byte;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe(ready), 0);
	parent = fork();
	if (parent == 0) {
		if (fork() == 0)
			hang(getppid(), ready[1]);
		_exit(read(ready[0], &byte, 1) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(status, 0);
	orphan = waitpid(-1, &status, 0);
	assert_true(orphan > 0 && orphan != parent);
	close(ready[0]);
	close(ready[1]);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
test_orphan(void **state)
{
	(void)state;
	alarm(30); /* rather than wait for ever */
	assert_int_equal(orphan_status(), EX_TEMPFAIL);
	alarm(0);
}

/* A pid that nobody has any more, or only until its parent asks for it. */
static void
test_supervisor_gone(void **state)
{
	pid_t gone = fork();
	siginfo_t info;
	char text[32];
	struct err err;

	(void)state;
	if (gone == 0)
		_exit(0);
	snprintf(text, sizeof(text), "%d", (int)gone);
	assert_int_equal(setenv("QIM_SUPERVISOR", text, 1), 0);
	assert_int_equal(
	    waitid(P_PID, (id_t)gone, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(signals_end_with_parent(getppid(), &err), -1);
	assert_int_equal(err.code, EX_TEMPFAIL);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	assert_int_equal(signals_end_with_parent(getppid(), &err), -1);
	assert_int_equal(err.code, EX_TEMPFAIL);
	snprintf(text, sizeof(text), "%d", (int)getppid());
	assert_int_equal(setenv("QIM_SUPERVISOR", text, 1), 0);
	assert_int_equal(signals_end_with_parent(getppid(), &err), 0);
	assert_int_equal(prctl(PR_SET_PDEATHSIG, 0), 0);
	unsetenv("QIM_SUPERVISOR");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_ranges),
	    cmocka_unit_test(test_masking),
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_lock_names),
	    cmocka_unit_test(test_locks),
	    cmocka_unit_test(test_lock_folders),
	    cmocka_unit_test(test_orphan),
	    cmocka_unit_test(test_supervisor_gone),
	    cmocka_unit_test(test_base64),
	    cmocka_unit_test(test_views),
	};
	int result;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	result = cmocka_run_group_tests_name("base", tests, NULL, NULL);
	remove_locks();
	return result;
}
