#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "base/signals.h"

static pid_t parent; /* before anything took time */

int
program_begin(int argc, char **argv, const struct opt *table, int operands,
    const char *synopsis, struct opt_common *common, struct err *err)
{
	int result;

	parent = getppid();
	msg_init(argv[0]);
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is this one.  It is of no use: a
		 * read of a missing input, or a write to a missing output, is
		 * an error, not an end or a success. */
		if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			return err_set(
			    err, EX_OSERR, "fd %d: %s", fd, strerror(errno));
	}
	result = opt_parse(argc, argv, table, operands, synopsis, common, err);
	if (result == OPT_RUN && figures_open(&common->figures, err) < 0)
		return -1;
	return result;
}

int
program_signals(const struct opt_common *common, struct err *err)
{
	if (signals_init(err) < 0)
		return -1;
	if (!common->check && figures_start(err) < 0)
		return -1;
	return common->with_parent ? signals_end_with_parent(parent, err) : 0;
}

int
program_end(int result, const struct err *err)
{
	int code = result < 0 ? msg_fail(err) : EX_OK;

	figures_end(code);
	return code;
}

void *
program_alloc(size_t bytes)
{
	void *memory = malloc(bytes);
	struct err err;

	if (memory == NULL) {
		err_memory(&err, "JSON");
		_exit(msg_fail(&err));
	}
	return memory;
}
