#include "kafka/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/msg.h"

int
stats_open(struct stats *stats, const char *path, struct err *err)
{
	*stats = (struct stats){.path = path};
	/* Not waiting matters where it is a pipe. */
	stats->fd = open(path,
	    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
	    0666);
	if (stats->fd < 0)
		return err_set(
		    err, EX_NOINPUT, "%s: %s", path, strerror(errno));
	return 0;
}

void
stats_close(struct stats *stats)
{
	if (stats->fd >= 0)
		close(stats->fd);
	stats->fd = -1;
}

void
stats_write(struct stats *stats, const char *json, size_t bytes)
{
	struct iovec pieces[] = {
	    {(void *)(uintptr_t)json, bytes},
	    {(void *)(uintptr_t) "\n", 1},
	};
	ssize_t written;

	if (stats->fd < 0)
		return;
	do
		written = writev(stats->fd, pieces, 2);
	while (written < 0 && errno == EINTR);
	if (written == (ssize_t)bytes + 1)
		return;
	msg_write(MSG_WARNING, "--kafka-stats %s: %s: no more is written to it",
	    stats->path,
	    written < 0 ? strerror(errno) : "it took a line in part");
	stats_close(stats);
}
