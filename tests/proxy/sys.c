#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/err.h"
#include "base/msg.h"
#include "sys.h"

void
sys_die(const char *what)
{
	struct err err;

	err_set(&err, EX_OSERR, "%s: %s", what, strerror(errno));
	exit(msg_fail(&err));
}

uint64_t
sys_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

int
sys_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		sys_die("socket");
	return fd;
}

void
sys_set_option(int fd, int level, int option)
{
	static const int on = 1;

	if (setsockopt(fd, level, option, &on, sizeof(on)) < 0)
		sys_die("setsockopt");
}

struct sockaddr_in
sys_loopback(uint16_t port)
{
	return (struct sockaddr_in){
	    .sin_family = AF_INET,
	    .sin_port = htons(port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}
