/*
 * log-keep - keeps what the stages of a chain say on stderr.
 *
 * Reads lines from a pipe for each stage and writes each, masked and whole,
 * on stderr or into a folder whose file is rotated by size.  It never makes a
 * stage wait: what nobody takes is dropped and counted.  When a stage's pipe
 * ends, the last line it gave is left in a file for whoever wants to know
 * what it died of.  Stops when all have ended; safe to repeat.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lineout.h"
#include "base/lines.h"
#include "base/lock.h"
#include "base/logfile.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/replace.h"
#include "base/rotate.h"

static const char synopsis[] =
    "usage: log-keep [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                [--bytes n] [--dir folder] [--files n]\n"
    "                [--last-dir folder] name=fd ...\n";

#define SOURCES_MAX 64
#define NAME_BYTES 64
/* A masked line, short of the newline; the programs' own fit uncut. */
#define TEXT_BYTES (MSG_LINE_BYTES + 8)

static struct options {
	struct opt_common common;
	uint64_t bytes; /* of a log file */
	const char *dir;
	uint64_t files;
	const char *last_dir;
} options = {.bytes = 16 << 20, .files = 8};

static const struct opt table[] = {
    {0, "bytes", OPT_NUMBER, &options.bytes, 4096, UINT64_C(1) << 40, "bytes"},
    {0, "dir", OPT_TEXT, &options.dir},
    {0, "files", OPT_NUMBER, &options.files, ROTATE_FILES_LEAST,
	ROTATE_FILES_MOST, "files"},
    {0, "last-dir", OPT_TEXT, &options.last_dir},
    {0},
};

/* What a stage says. */
static struct source {
	char name[NAME_BYTES + 1];
	int fd; /* -1: it has ended */
	struct line_reader reader;
	char last[TEXT_BYTES]; /* its last line, masked; empty: none */
} sources[SOURCES_MAX];

static size_t source_count;
static struct lineout out;
static struct logfile folder_log;
static uint64_t failed_lines; /* in a row, that the folder didn't take */
static int read_code; /* why a descriptor couldn't be read; 0: all could */

static int
check_name(const char *text, size_t bytes, struct err *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";

	if (bytes > 0 && bytes <= NAME_BYTES && text[0] != '.' &&
	    strspn(text, allowed) >= bytes)
		return 0;
	return err_set(err, EX_USAGE,
	    "'%s': wants name=fd, the name of 1 to %d letters, digits, '.', "
	    "'_' and '-'",
	    text, NAME_BYTES);
}

static int
check_twice(const struct source *source, struct err *err)
{
	for (size_t i = 0; i < source_count; i++) {
		if (strcmp(sources[i].name, source->name) == 0)
			return err_set(err, EX_USAGE,
			    "'%s': the name stands twice", source->name);
		if (sources[i].fd == source->fd)
			return err_set(err, EX_USAGE,
			    "'%s': fd %d is that of '%s'", source->name,
			    source->fd, sources[i].name);
	}
	return 0;
}

static int
check_fd(const struct source *source, struct err *err)
{
	int flags = fcntl(source->fd, F_GETFL);

	if (flags < 0)
		return err_set(err, EX_NOINPUT, "'%s': fd %d: %s", source->name,
		    source->fd, strerror(errno));
	if ((flags & O_ACCMODE) == O_WRONLY)
		return err_set(err, EX_NOINPUT,
		    "'%s': fd %d: not open for reading", source->name,
		    source->fd);
	return 0;
}

static int
add_source(const char *text, struct err *err)
{
	struct source *source = &sources[source_count];
	const char *equals = strchr(text, '=');
	size_t bytes = equals == NULL ? 0 : (size_t)(equals - text);
	uint64_t fd;

	if (check_name(text, bytes, err) < 0)
		return -1;
	memcpy(source->name, text, bytes);
	source->name[bytes] = '\0';
	if (opt_number(source->name, equals + 1, 3, 1 << 20, NULL, &fd, err) <
	    0)
		return -1;
	source->fd = (int)fd;
	if (check_twice(source, err) < 0 || check_fd(source, err) < 0)
		return -1;
	line_reader_init(&source->reader, source->fd, MSG_LINE_BYTES);
	source_count++;
	return 0;
}

static int
add_sources(char **argv, struct err *err)
{
	if (opt_required("name=fd", argv[optind], err) < 0)
		return -1;
	for (char **text = argv + optind; *text != NULL; text++)
		if (add_source(*text, err) < 0)
			return -1;
	return 0;
}

/* A malloc()ed "LAST-DIR/NAME.last". */
static char *
last_path(const struct source *source)
{
	char *path = NULL;
	int result =
	    asprintf(&path, "%s/%s.last", options.last_dir, source->name);

	return result < 0 ? NULL : path;
}

/* What an earlier run has left says nothing about this one. */
static int
remove_last(const struct source *source, struct err *err)
{
	char *path = last_path(source);
	int result = 0;

	if (path == NULL)
		return err_memory(err, "--last-dir");
	if (unlink(path) < 0 && errno != ENOENT)
		result = err_set(err, EX_NOINPUT, "--last-dir: %s: %s", path,
		    strerror(errno));
	free(path);
	return result;
}

static int
check_folder(const char *option, const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		errno = ENOTDIR;
	else if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	return err_set(
	    err, EX_NOINPUT, "%s: %s: %s", option, path, strerror(errno));
}

static int
check_folders(struct err *err)
{
	char *path = NULL;

	if (options.last_dir != NULL &&
	    check_folder("--last-dir", options.last_dir, err) < 0)
		return -1;
	if (options.dir == NULL)
		return 0;
	if (check_folder("--dir", options.dir, err) < 0)
		return -1;
	if (asprintf(&path, "%s/current", options.dir) < 0)
		return err_memory(err, "--dir");
	folder_log =
	    (struct logfile){path, options.bytes, options.files, .torn = false};
	return 0;
}

static void
to_stderr(const char *line, size_t bytes)
{
	lineout_add(&out, line, bytes);
	lineout_write(&out);
}

/* A message of its own, about the folder: to stderr, and without waiting. */
static void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void
warn(const char *format, ...)
{
	char text[MSG_LINE_BYTES], masked[TEXT_BYTES], line[LINEOUT_LINE_BYTES];
	va_list args;
	int bytes;

	if (msg_get_level() < MSG_WARNING)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	msg_mask(text, strlen(text), masked, sizeof(masked));
	bytes = snprintf(
	    line, sizeof(line), "%.60s: warning: %s\n", msg_program(), masked);
	to_stderr(line, (size_t)bytes);
}

/* Into the folder, or where it takes nothing to stderr: it is tried again
 * with each line, and told once. */
static void
put_line(const char *line, size_t bytes)
{
	struct err err;

	if (options.dir == NULL) {
		to_stderr(line, bytes);
	} else if (logfile_write(&folder_log, line, bytes, &err) < 0) {
		if (failed_lines++ == 0)
			warn("%s: lines go to stderr", err.text);
		to_stderr(line, bytes);
	} else if (failed_lines > 0) {
		warn("%s: written again: %llu lines went to stderr",
		    folder_log.path, (unsigned long long)failed_lines);
		failed_lines = 0;
	}
}

static void
take_line(struct source *source, struct slice raw)
{
	char text[TEXT_BYTES], line[LINEOUT_LINE_BYTES],
	    now[CLOCK_UTC_BYTES] = "";
	bool formed;
	int bytes;

	msg_mask_again((const char *)raw.data, raw.bytes, text, sizeof(text));
	if (options.dir != NULL)
		clock_utc(now);
	formed = msg_has_form(text);
	bytes = snprintf(line, sizeof(line), "%s%s%s%s%s\n", now,
	    now[0] == '\0' ? "" : " ", formed ? "" : source->name,
	    formed ? "" : ": ", text);
	put_line(line, (size_t)bytes);
	if (text[0] != '\0')
		memcpy(source->last, text, sizeof(text));
}

static void
leave_last(const struct source *source)
{
	char line[TEXT_BYTES + 1], *path = last_path(source);
	struct err err;
	int bytes = snprintf(line, sizeof(line), "%s\n", source->last);

	if (path == NULL)
		warn("%s: last line: out of memory", source->name);
	else if (replace_file(path, false, line, (size_t)bytes, &err) < 0)
		warn("%s", err.text);
	free(path);
}

static void
end_source(struct source *source)
{
	if (options.last_dir != NULL && source->last[0] != '\0')
		leave_last(source);
	line_reader_release(&source->reader);
	close(source->fd);
	source->fd = -1;
}

/* One read(2), and all lines that came with it. */
static void
read_source(struct source *source)
{
	struct slice line;
	struct err err;
	int result;

	do {
		result = line_read(&source->reader, &line, &err);
		if (result == LINE_READY || result == LINE_TOO_LONG)
			take_line(source, line);
	} while (result > LINE_AGAIN && line_reader_pending(&source->reader));
	if (result < 0) {
		warn("%s: %s", source->name, err.text);
		read_code = err.code;
	}
	if (result < 0 || result == LINE_EOF)
		end_source(source);
}

/* Waits for any of them; false when all have ended. */
static bool
wait_for_lines(struct pollfd *waits)
{
	bool open = false;

	for (size_t i = 0; i < source_count; i++) {
		/* A negative descriptor is passed over by poll(2). */
		waits[i] = (struct pollfd){sources[i].fd, POLLIN, 0};
		open = open || sources[i].fd >= 0;
	}
	waits[source_count] =
	    (struct pollfd){lineout_pending(&out) ? out.fd : -1, POLLOUT, 0};
	if (open && poll(waits, source_count + 1, -1) < 0)
		for (size_t i = 0; i <= source_count; i++)
			waits[i].revents = 0;
	return open;
}

static void
run(void)
{
	struct pollfd waits[SOURCES_MAX + 1];

	while (wait_for_lines(waits)) {
		if (waits[source_count].revents != 0)
			lineout_write(&out);
		for (size_t i = 0; i < source_count; i++)
			if (waits[i].revents != 0)
				read_source(&sources[i]);
	}
	lineout_finish(&out, MSG_WAIT_MS);
}

/* Two that rotate one file lose lines.  A folder that can't be locked is no
 * reason to keep no log. */
static int
hold_folder(struct err *err)
{
	switch (lock_folder_hold(options.dir, err)) {
	case 0:
		return err_set(err, EX_CONFIG,
		    "--dir: %s: locked: another log-keep writes into it "
		    "already",
		    options.dir);
	case -1:
		warn("--dir: %s", err->text);
		break;
	}
	return 0;
}

static int
start(struct err *err)
{
	if (options.dir != NULL && hold_folder(err) < 0)
		return -1;
	for (size_t i = 0; options.last_dir != NULL && i < source_count; i++)
		if (remove_last(&sources[i], err) < 0)
			return -1;
	return program_signals(&options.common, err);
}

int
main(int argc, char **argv)
{
	struct err err;
	int parsed;

	parsed = program_begin(
	    argc, argv, table, SOURCES_MAX, synopsis, &options.common, &err);
	if (parsed == OPT_SHOWN)
		return EX_OK;
	if (parsed < 0 || add_sources(argv, &err) < 0 ||
	    check_folders(&err) < 0)
		return msg_fail(&err);
	if (options.common.check)
		return EX_OK;
	lineout_init(&out, STDERR_FILENO);
	if (start(&err) < 0)
		return msg_fail(&err);
	run();
	lineout_release(&out);
	return read_code;
}
