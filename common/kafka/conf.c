#include "kafka/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/msg.h"
#include "kafka/settings.h"

struct property {
	const char *name;
	const char *value;
};

/* A leader change or a broker's restart shall not cost ten seconds, nor a
 * mistyped name make a topic. */
static const struct property common[] = {
    {"socket.nagle.disable", "true"},
    {"allow.auto.create.topics", "false"},
    {"reconnect.backoff.ms", "50"},
    {"reconnect.backoff.max.ms", "1000"},
    {NULL},
};

static const struct property consumer[] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"auto.offset.reset", "error"},
    {"enable.partition.eof", "true"},
    {"check.crcs", "true"},
    {"fetch.wait.max.ms", "100"},
    {"fetch.error.backoff.ms", "100"},
    {"topic.metadata.refresh.interval.ms", "30000"},
    {NULL},
};

/* The window bounds what is in flight, in batches and in bytes, so that
 * librdkafka's own queue shall not: its limits are the greatest.  The
 * default of max.in.flight, 1000000, makes small requests and is slower. */
static const struct property producer[] = {
    {"acks", "all"},
    {"max.in.flight.requests.per.connection", "5"},
    {"linger.ms", "1"},
    {"queue.buffering.max.messages", "2147483647"},
    {"queue.buffering.max.kbytes", "2147483647"},
    {"message.timeout.ms", "300000"},
    {"partitioner", "murmur2_random"},
    {NULL},
};

/* A frozen coordinator must not use up the time of a commit.  librdkafka goes
 * on to the next one when it has asked who that is, every 10 minutes unless
 * told otherwise, and it may ask the frozen broker: so requests time out soon.
 * A broker that is well answers a commit within 5 s, its
 * offsets.commit.timeout.ms. */
static const struct property committer[] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"coordinator.query.interval.ms", "1000"},
    {"socket.timeout.ms", "7000"},
    {"api.version.request.timeout.ms", "5000"},
    {NULL},
};

static const struct property *const by_role[] = {
    [KAFKA_CONSUMER] = consumer,
    [KAFKA_PRODUCER] = producer,
    [KAFKA_COMMITTER] = committer,
};

#define IDEMPOTENCE_VARIABLE "QIM_FANOUT_PRODUCER_IDEMPOTENCE"

/* The idempotent producer of these releases has a fatal bug. */
#define BUGGY_FIRST 0x02020000
#define BUGGY_LAST 0x020400ff

int
kafka_conf_idempotence(bool *idempotent, struct err *err)
{
	const char *value = getenv(IDEMPOTENCE_VARIABLE);

	*idempotent = value != NULL && strcmp(value, "true") == 0;
	if (value == NULL || *idempotent || strcmp(value, "false") == 0)
		return 0;
	return err_set(err, EX_CONFIG,
	    IDEMPOTENCE_VARIABLE ": '%s': wants exactly true or false", value);
}

/* librdkafka tells of each refused connection and retries; what ends the
 * program comes as an error of its own. */
static void
write_log(
    const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	msg_write(level <= LOG_CRIT ? MSG_WARNING : MSG_INFO,
	    "librdkafka: %s: %s", facility, text);
}

static int
refuse_unknown(const struct setting *setting, struct err *err)
{
	char near[128];

	if (settings_nearest(setting->name, near, sizeof(near)))
		return err_set(err, EX_CONFIG,
		    "%s %s: unknown property, is %s meant?", setting->where,
		    setting->name, near);
	return err_set(err, EX_CONFIG, "%s %s: unknown property of librdkafka",
	    setting->where, setting->name);
}

/* librdkafka reads a number as far as it is one and cuts off its high bits;
 * then what it has isn't what was given. */
static int
check_number(
    rd_kafka_conf_t *conf, const struct setting *setting, struct err *err)
{
	const char *digits = setting->value + strspn(setting->value, "+-");
	char taken[64], *end;
	size_t bytes = sizeof(taken);

	if (*digits < '0' || *digits > '9' ||
	    rd_kafka_conf_get(conf, setting->name, taken, &bytes) !=
		RD_KAFKA_CONF_OK ||
	    bytes > sizeof(taken) || strcmp(taken, setting->value) == 0)
		return 0;
	strtod(taken, &end);
	if (end == taken || *end != '\0')
		return 0;
	return err_set(err, EX_CONFIG,
	    "%s %s: '%s': librdkafka takes it for %s: wants just a number",
	    setting->where, setting->name, setting->value, taken);
}

static int
apply_setting(
    rd_kafka_conf_t *conf, const struct setting *setting, struct err *err)
{
	char why[256];
	rd_kafka_conf_res_t result = rd_kafka_conf_set(
	    conf, setting->name, setting->value, why, sizeof(why));

	if (result == RD_KAFKA_CONF_OK)
		return check_number(conf, setting, err);
	if (result == RD_KAFKA_CONF_UNKNOWN)
		return refuse_unknown(setting, err);
	if (settings_is_secret(setting->name))
		return err_set(err, EX_CONFIG, "%s %s: librdkafka refuses it",
		    setting->where, setting->name);
	return err_set(err, EX_CONFIG, "%s %s: '%s': %s", setting->where,
	    setting->name, setting->value, why);
}

static int
apply_defaults(
    rd_kafka_conf_t *conf, const struct property *property, struct err *err)
{
	char why[256];

	for (; property->name != NULL; property++)
		if (rd_kafka_conf_set(conf, property->name, property->value,
			why, sizeof(why)) != RD_KAFKA_CONF_OK)
			return err_set(err, EX_SOFTWARE, "%s=%s: %s",
			    property->name, property->value, why);
	return 0;
}

static int
apply_options(rd_kafka_conf_t *conf, const struct kafka_options *options,
    enum kafka_role role, struct err *err)
{
	const struct property all[] = {
	    {"client.id", msg_program()},
	    {options->group == NULL ? NULL : "group.id", options->group},
	    {NULL},
	};
	const struct property own[] = {
	    {"enable.idempotence", options->idempotent ? "true" : "false"},
	    {options->statistics ? "statistics.interval.ms" : NULL, "1000"},
	    {NULL},
	};

	if (apply_defaults(conf, common, err) < 0 ||
	    apply_defaults(conf, by_role[role], err) < 0 ||
	    apply_defaults(conf, all, err) < 0)
		return -1;
	return role == KAFKA_PRODUCER ? apply_defaults(conf, own, err) : 0;
}

static int
build(rd_kafka_conf_t *conf, const struct settings *settings,
    const struct kafka_options *options, enum kafka_role role, struct err *err)
{
	int version = rd_kafka_version();

	if (settings_check(settings, options, role, err) < 0 ||
	    apply_options(conf, options, role, err) < 0)
		return -1;
	for (size_t i = 0; i < settings->count; i++)
		if (apply_setting(conf, &settings->all[i], err) < 0)
			return -1;
	if (role == KAFKA_PRODUCER && options->idempotent &&
	    version >= BUGGY_FIRST && version <= BUGGY_LAST)
		msg_write(MSG_WARNING,
		    "librdkafka %s: its idempotent producer has a fatal bug: "
		    "use another version than 2.2.0 to 2.4.0",
		    rd_kafka_version_str());
	rd_kafka_conf_set_log_cb(conf, write_log);
	return 0;
}

int
kafka_conf_build(const struct kafka_options *options, enum kafka_role role,
    rd_kafka_conf_t **conf, struct err *err)
{
	struct settings *settings = malloc(sizeof(*settings));
	int result;

	*conf = NULL;
	if (settings == NULL)
		return err_memory(err, "properties");
	result = settings_collect(settings, options, err);
	if (result == 0) {
		*conf = rd_kafka_conf_new();
		result = build(*conf, settings, options, role, err);
	}
	if (result < 0 && *conf != NULL) {
		rd_kafka_conf_destroy(*conf);
		*conf = NULL;
	}
	settings_release(settings);
	free(settings);
	return result;
}
