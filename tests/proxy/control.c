#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "command.h"
#include "control.h"
#include "sys.h"

#define TELL_SECONDS 10

static struct sockaddr_un
socket_address(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		sys_die(path);
	}
	strcpy(address.sun_path, path);
	return address;
}

int
control_open(const char *path)
{
	struct sockaddr_un address = socket_address(path);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	unlink(path);
	if (fd < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		sys_die(path);
	return fd;
}

void
control_serve(int fd, struct listener *listeners)
{
	char text[COMMAND_BYTES], answer[COMMAND_BYTES];
	char *words[COMMAND_WORDS + 1] = {NULL}, *rest = NULL;
	struct sockaddr_un from;
	socklen_t from_bytes = sizeof(from);
	ssize_t bytes = recvfrom(fd, text, sizeof(text) - 1, 0,
	    (struct sockaddr *)&from, &from_bytes);
	int count = 0;

	if (bytes < 0)
		return;
	text[bytes] = '\0';
	while (count <= COMMAND_WORDS &&
	    (words[count] = strtok_r(count ? NULL : text, " \n", &rest)) !=
		NULL)
		count++;
	command_run(listeners, words, count, answer);
	sendto(fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL,
	    (struct sockaddr *)&from, from_bytes);
}

/* The words with blanks between them; -1: they don't fit. */
static int
join(char **words, char text[COMMAND_BYTES])
{
	size_t used = 0;

	text[0] = '\0';
	for (; *words != NULL; words++) {
		size_t room = COMMAND_BYTES - used;

		if ((size_t)snprintf(text + used, room, "%s ", *words) >= room)
			return -1;
		used += strlen(text + used);
	}
	return 0;
}

int
control_tell(const char *path, char **words)
{
	static const struct timeval patience = {.tv_sec = TELL_SECONDS};
	struct sockaddr_un address = socket_address(path);
	sa_family_t own = AF_UNIX; /* the kernel finds a name */
	char text[COMMAND_BYTES], answer[COMMAND_BYTES];
	ssize_t bytes;
	int fd;

	if (join(words, text) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(fd, text, strlen(text), 0) < 0 ||
	    (bytes = recv(fd, answer, sizeof(answer) - 1, 0)) < 0)
		sys_die(path);
	answer[bytes] = '\0';
	puts(answer);
	return strncmp(answer, "ok", 2) == 0 ? EX_OK : 1;
}
