/* What a user may not set, and which settings contradict each other. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kafka/settings.h"

#define MESSAGE_TIMEOUT_MS_LEAST 1000
#define IDEMPOTENT_IN_FLIGHT_MOST 5

/* By first name; a name that ends in "*" stands for all that begin so. */
static const struct {
	const char *name;
	const char *why;
} denied[] = {
    {"plugin.library.paths", "it would load code"},
    {"ssl.engine.location", "it would load code"},
    {"ssl.engine.id", "it would load code"},
    {"ssl.providers", "it would load code"},
    {"sasl.kerberos.kinit.cmd", "it would run a command"},
    {"sasl.oauthbearer.token.endpoint.url", "it would call any URL"},
    {"test.mock.*", "it would put a mock in the place of the brokers"},
    {"enable.idempotence",
	"only QIM_FANOUT_PRODUCER_IDEMPOTENCE decides it for "
	"dispatch-produce, outbox-write is always idempotent"},
    {"transactional.id", "transactions are never used"},
    {"transaction.timeout.ms", "transactions are never used"},
    {"delivery.report.only.error", "each record's own report is checked"},
    {"queuing.strategy", "records stay in order"},
    {"enable.gapless.guarantee",
	"one record at fault would end the producer for good"},
    {"partitioner",
	"keys go by murmur2, so that a conversation stays in one partition"},
    {"enable.auto.commit", "only offset-commit commits"},
    {"auto.commit.interval.ms", "only offset-commit commits"},
    {"enable.auto.offset.store", "only offset-commit commits"},
    {"offset.store.method", "offsets are stored by offset-commit alone"},
    {"offset.store.path", "offsets are stored by offset-commit alone"},
    {"offset.store.sync.interval.ms",
	"offsets are stored by offset-commit alone"},
    {"auto.offset.reset",
	"an offset out of range ends the program, it is never skipped"},
    {"isolation.level", "only committed records are read"},
    {"enable.partition.eof", "-e rests on it"},
    {"group.id", "-g names the group"},
    {"enable.ssl.certificate.verification",
	"the broker's certificate is always checked"},
    {"log.queue", "messages go to stderr"},
    {"internal.termination.signal", "signals are the program's own"},
};

static bool
matches(const char *pattern, const char *name)
{
	size_t length = strlen(pattern);

	if (pattern[length - 1] == '*')
		return strncmp(pattern, name, length - 1) == 0;
	return strcmp(pattern, name) == 0;
}

static int
refuse(const struct setting *setting, const char *why, struct err *err)
{
	return err_set(err, EX_CONFIG, "%s %s: '%s': refused: %s",
	    setting->where, setting->name,
	    settings_is_secret(setting->name) ? "(secret)" : setting->value,
	    why);
}

static int
check_denied(const struct setting *setting, struct err *err)
{
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		if (matches(denied[i].name, setting->canonical))
			return refuse(setting, denied[i].why, err);
	if (strcmp(setting->name, "ssl.endpoint.identification.algorithm") ==
		0 &&
	    strcmp(setting->value, "https") != 0)
		return refuse(setting,
		    "the broker's host name is always checked, wants https",
		    err);
	return 0;
}

static int
check_acks(const struct setting *acks, const struct kafka_options *options,
    struct err *err)
{
	const char *value = acks->value;
	bool all = strcmp(value, "all") == 0 || strcmp(value, "-1") == 0;

	if (!all && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return refuse(acks, "wants all, -1, 0 or 1", err);
	if (!all && options->idempotent)
		return refuse(
		    acks, "an idempotent producer wants all or -1", err);
	if (!all && !options->not_durable)
		return refuse(acks,
		    "receipts promise durability: wants all or -1, or "
		    "--not-durable where the program has it",
		    err);
	return 0;
}

/* The number of a setting; -1 where it isn't one: librdkafka refuses it. */
static long
number_of(const struct setting *setting)
{
	char *end;
	long number = strtol(setting->value, &end, 10);

	return end == setting->value || *end != '\0' ? -1 : number;
}

static int
check_producer(const struct settings *settings,
    const struct kafka_options *options, struct err *err)
{
	const struct setting *acks =
	    settings_find(settings, "request.required.acks");
	const struct setting *in_flight =
	    settings_find(settings, "max.in.flight.requests.per.connection");
	const struct setting *retries =
	    settings_find(settings, "message.send.max.retries");
	const struct setting *timeout =
	    settings_find(settings, "message.timeout.ms");
	const struct setting *interval =
	    settings_find(settings, "statistics.interval.ms");

	if (acks != NULL && check_acks(acks, options, err) < 0)
		return -1;
	if (options->idempotent && in_flight != NULL &&
	    number_of(in_flight) > IDEMPOTENT_IN_FLIGHT_MOST)
		return refuse(
		    in_flight, "an idempotent producer wants 1 to 5", err);
	if (options->idempotent && retries != NULL && number_of(retries) == 0)
		return refuse(
		    retries, "an idempotent producer wants 1 or more", err);
	if (timeout != NULL && number_of(timeout) < MESSAGE_TIMEOUT_MS_LEAST)
		return refuse(timeout, "wants 1000 to 2147483647 ms", err);
	if (options->statistics && interval != NULL && number_of(interval) == 0)
		return refuse(
		    interval, "--kafka-stats wants 1 to 86400000 ms", err);
	return 0;
}

int
settings_check(const struct settings *settings,
    const struct kafka_options *options, enum kafka_role role, struct err *err)
{
	for (size_t i = 0; i < settings->count; i++)
		if (check_denied(&settings->all[i], err) < 0)
			return -1;
	if (role != KAFKA_PRODUCER)
		return 0;
	return check_producer(settings, options, err);
}
