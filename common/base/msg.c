#include "base/msg.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *program = "qim";
static enum msg_level least = MSG_NOTICE;

/* Threads of libraries have messages too. */
static atomic_ulong dropped_count; /* since a line was written */
static atomic_ulong dropped_total;

static const char *const level_names[] = {"error", "warning", "notice", "info"};

void
msg_init(const char *path)
{
	const char *slash = path == NULL ? NULL : strrchr(path, '/');

	if (slash != NULL)
		program = slash + 1;
	else if (path != NULL)
		program = path;
}

const char *
msg_program(void)
{
	return program;
}

void
msg_set_level(enum msg_level level)
{
	least = level;
}

enum msg_level
msg_get_level(void)
{
	return least;
}

static size_t
mask(
    const char *text, size_t bytes, bool backslash, char *out, size_t out_bytes)
{
	static const char hex[] = "0123456789abcdef";
	size_t used = 0;

	for (size_t i = 0; i < bytes; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (used + 5 > out_bytes)
			break;
		if (byte >= 0x20 && byte <= 0x7e &&
		    (byte != '\\' || !backslash)) {
			out[used++] = (char)byte;
			continue;
		}
		out[used++] = '\\';
		out[used++] = 'x';
		out[used++] = hex[byte >> 4];
		out[used++] = hex[byte & 15];
	}
	out[used] = '\0';
	return used;
}

size_t
msg_mask(const char *text, size_t bytes, char *out, size_t out_bytes)
{
	return mask(text, bytes, true, out, out_bytes);
}

size_t
msg_mask_again(const char *text, size_t bytes, char *out, size_t out_bytes)
{
	return mask(text, bytes, false, out, out_bytes);
}

unsigned long
msg_dropped_count(void)
{
	return dropped_total;
}

static void
drop_line(void)
{
	dropped_count++;
	dropped_total++;
}

static void
write_line(const char *line, size_t bytes)
{
	struct pollfd wait = {.fd = STDERR_FILENO, .events = POLLOUT};
	ssize_t written;

	/* A pipe polls writable only where MSG_LINE_BYTES fit. */
	if (poll(&wait, 1, MSG_WAIT_MS) == 0) {
		drop_line();
		return;
	}
	written = write(STDERR_FILENO, line, bytes);
	if (written < 0)
		drop_line();
	else
		dropped_count = 0;
}

static void
format_line(enum msg_level level, const char *text)
{
	char line[MSG_LINE_BYTES];
	unsigned long lost = dropped_count;
	int used;
	size_t bytes;

	if (lost > 0)
		used = snprintf(line, sizeof(line), "%s: %s: (%lu lines lost) ",
		    program, level_names[level], lost);
	else
		used = snprintf(line, sizeof(line), "%s: %s: ", program,
		    level_names[level]);
	if (used < 0 || (size_t)used >= sizeof(line) - 2)
		return;
	bytes = (size_t)used;
	bytes += msg_mask(
	    text, strlen(text), line + bytes, sizeof(line) - bytes - 1);
	line[bytes++] = '\n';
	write_line(line, bytes);
}

void
msg_write(enum msg_level level, const char *format, ...)
{
	char text[MSG_LINE_BYTES];
	va_list args;

	if (level > least)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	format_line(level, text);
}

int
msg_fail(const struct err *err)
{
	format_line(MSG_ERROR, err->text);
	return err->code;
}

bool
msg_has_form(const char *line)
{
	size_t name_bytes = strcspn(line, ": ");
	size_t levels = sizeof(level_names) / sizeof(level_names[0]);

	for (size_t i = 0; i < levels && name_bytes > 0; i++) {
		const char *at = line + name_bytes;
		size_t bytes = strlen(level_names[i]);

		if (strncmp(at, ": ", 2) == 0 &&
		    strncmp(at + 2, level_names[i], bytes) == 0 &&
		    strncmp(at + 2 + bytes, ": ", 2) == 0)
			return true;
	}
	return false;
}
