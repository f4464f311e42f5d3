/*
 * broker-mock - a Kafka in one process: librdkafka's mock cluster.
 *
 * Prints its bootstrap servers as one line and runs until TERM or INT; USR1
 * takes the errors of topics away, USR2 puts them back.
 * Reads nothing, keeps all in memory, is never for timing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/io.h"
#include "base/msg.h"
#include "base/opt.h"
#include "base/program.h"
#include "base/signals.h"
#include "kafka/mock.h"

static const char synopsis[] =
    "usage: broker-mock [-hqVv] [--check] [--connect-ms ms] [--with-parent]\n"
    "                   [-n brokers] [-t name:partitions[:replication]] ...\n"
    "                   [--error api=code[:count][@good]] ...\n"
    "                   [--topic-error name=code] ...\n";

static struct options {
	struct opt_common common;
	uint64_t brokers; /* -n */
	struct opt_list topics; /* -t */
	struct opt_list errors; /* --error */
	struct opt_list topic_errors; /* --topic-error */
} options = {.brokers = 1};

static const struct opt table[] = {
    {'n', NULL, OPT_NUMBER, &options.brokers, 1, MOCK_BROKERS_MOST, "brokers"},
    {'t', NULL, OPT_LIST, &options.topics},
    {0, "error", OPT_LIST, &options.errors},
    {0, "topic-error", OPT_LIST, &options.topic_errors},
    {0},
};

static int switch_fd = -1;

static int
configure(struct mock *mock, struct err *err)
{
	for (size_t i = 0; i < options.topics.count; i++)
		if (mock_add_topic(mock, (int)options.brokers,
			options.topics.text[i], err) < 0)
			return -1;
	for (size_t i = 0; i < options.errors.count; i++)
		if (mock_add_error(mock, options.errors.text[i], err) < 0)
			return -1;
	for (size_t i = 0; i < options.topic_errors.count; i++)
		if (mock_add_topic_error(
			mock, options.topic_errors.text[i], err) < 0)
			return -1;
	return 0;
}

/* The line, and then the end of the output, so that $(...) returns. */
static int
announce(const char *brokers, struct err *err)
{
	struct iovec line[] = {
	    {(char *)(uintptr_t)brokers, strlen(brokers)},
	    {(char[]){'\n'}, 1},
	};
	int null;

	if (io_write_all(STDOUT_FILENO, line, 2, err) < 0 ||
	    io_close_output(STDOUT_FILENO, err) < 0)
		return -1;
	null = open("/dev/null", O_WRONLY);
	if (null != STDOUT_FILENO)
		return err_set(err, EX_OSERR, "/dev/null: %s", strerror(errno));
	return 0;
}

/* USR1 and USR2 as a descriptor; before there are threads to get them. */
static int
open_switch(struct err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		switch_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (switch_fd < 0)
		return err_set(err, EX_OSERR, "signals: %s", strerror(errno));
	return 0;
}

static void
take_switch(struct mock *mock)
{
	struct signalfd_siginfo taken;

	if (read(switch_fd, &taken, sizeof(taken)) == (ssize_t)sizeof(taken))
		mock_switch_topic_errors(mock, taken.ssi_signo == SIGUSR2);
}

static int
serve(struct mock *mock, struct err *err)
{
	struct pollfd wait[] = {
	    {.fd = signals_fd(), .events = POLLIN},
	    {.fd = switch_fd, .events = POLLIN},
	};
	int wait_ms;

	if (configure(mock, err) < 0)
		return -1;
	if (options.common.check)
		return 0;
	if (announce(mock_brokers(mock), err) < 0)
		return -1;
	wait_ms = mock_has_work(mock) ? MOCK_WORK_MS : -1;
	while (!signals_stopping()) {
		if (poll(wait, 2, wait_ms) < 0 && errno != EINTR)
			return err_set(
			    err, EX_OSERR, "poll: %s", strerror(errno));
		if (wait[1].revents != 0)
			take_switch(mock);
		mock_work(mock);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct err err;
	struct mock *mock;
	int result;

	result = program_begin(
	    argc, argv, table, 0, synopsis, &options.common, &err);
	if (result == OPT_SHOWN)
		return EX_OK;
	if (result < 0 || program_signals(&options.common, &err) < 0 ||
	    open_switch(&err) < 0)
		return msg_fail(&err);
	mock = mock_start((int)options.brokers, &err);
	if (mock == NULL)
		return msg_fail(&err);
	result = serve(mock, &err);
	/* Nothing is kept, and ending it in order takes seconds. */
	if (result == 0 && !options.common.check)
		_exit(EX_OK);
	mock_stop(mock);
	return result < 0 ? msg_fail(&err) : EX_OK;
}
