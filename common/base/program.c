#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"

int
program_init(char **argv, struct err *err)
{
	msg_init(argv[0]);
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is this one. */
		if (open("/dev/null", O_RDWR) != fd)
			return err_set(
			    err, EX_OSERR, "fd %d: %s", fd, strerror(errno));
	}
	return 0;
}
