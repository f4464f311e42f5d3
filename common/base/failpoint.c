#include "base/failpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/msg.h"

static char spec[128]; /* what is to be done; empty: nothing */
static const char *point; /* its name, in spec */
static const char *file; /* that it came from; NULL: the environment */
static unsigned long left; /* passes until then */
static unsigned long wait_ms;
static bool is_cut_due;

static void
refuse(void)
{
	struct err err;

	err_set(&err, EX_USAGE,
	    "FAILPOINT: '%s': wants [program/]name[:pass[:ms]] or @file", spec);
	_exit(msg_fail(&err));
}

/* A number after a colon at *text; `preset` where there is none. */
static unsigned long
parse_number(char **text, unsigned long preset)
{
	char *start = *text;
	unsigned long number;

	if (*start != ':')
		return preset;
	number = strtoul(start + 1, text, 10);
	if (*text == start + 1)
		refuse();
	*start = '\0';
	return number;
}

/* What is meant for another program is as nothing. */
static void
parse(void)
{
	char *slash = strchr(spec, '/');
	char *text = spec + strcspn(spec, ":\n");

	point = slash == NULL ? spec : slash + 1;
	left = parse_number(&text, 1);
	wait_ms = parse_number(&text, 0);
	if ((*text != '\0' && *text != '\n') || *point == '\0' || left == 0)
		refuse();
	*text = '\0';
	if (slash == NULL)
		return;
	*slash = '\0';
	if (strcmp(spec, msg_program()) != 0)
		point = "";
}

static void
read_file(void)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return;
	got = read(fd, spec, sizeof(spec) - 1);
	close(fd);
	spec[got < 0 ? 0 : got] = '\0';
	if (got > 0)
		parse();
}

static void
look(void)
{
	static bool has_looked;
	const char *value;

	if (!has_looked) {
		has_looked = true;
		value = getenv("FAILPOINT");
		if (value != NULL && *value == '@') {
			file = value + 1;
		} else if (value != NULL && *value != '\0') {
			snprintf(spec, sizeof(spec), "%s", value);
			parse();
		}
	}
	/* What was for another is looked at again: it may be another's. */
	if (file != NULL && (spec[0] == '\0' || *point == '\0'))
		read_file();
}

static bool
is_due(const char *name)
{
	look();
	return spec[0] != '\0' && strcmp(point, name) == 0 && left > 0 &&
	    --left == 0;
}

/* False where somebody else has died for the file. */
static bool
take_file(void)
{
	if (file == NULL || unlink(file) == 0)
		return true;
	spec[0] = '\0';
	return false;
}

static void
die(void)
{
	const struct timespec pause = {
	    (time_t)(wait_ms / 1000), (long)(wait_ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
	raise(SIGKILL);
}

void
failpoint_pass(const char *name)
{
	if (is_due(name) && take_file())
		die();
}

void
failpoint_half(const char *name)
{
	is_cut_due = is_cut_due || (is_due(name) && take_file());
}

void
failpoint_cut(int fd, const struct iovec *pieces, int count)
{
	struct iovec half;
	size_t bytes = 0;

	if (!is_cut_due)
		return;
	for (int i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	bytes /= 2;
	for (int i = 0; i < count && bytes > 0; i++) {
		half = pieces[i];
		if (half.iov_len > bytes)
			half.iov_len = bytes;
		bytes -= half.iov_len;
		/* Where it takes no more it is less than half. */
		if (writev(fd, &half, 1) != (ssize_t)half.iov_len)
			break;
	}
	die();
}
