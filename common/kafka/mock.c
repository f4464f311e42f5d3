#include "kafka/mock.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/msg.h"
#include "base/opt.h"
#include "base/topic.h"

/* The requests whose errors a test wants to see. */
static const struct {
	const char *name;
	int16_t key;
} apis[] = {
    {"produce", 0},
    {"fetch", 1},
    {"list-offsets", 2},
    {"offset-commit", 8},
    {"offset-fetch", 9},
    {"find-coordinator", 10},
    {"init-producer-id", 22},
};

#define APIS_COUNT (sizeof(apis) / sizeof(apis[0]))

/* What each broker has ready of an error that comes for good: more than it
 * answers in MOCK_WORK_MS. */
#define ENDLESS_COUNT 10000

struct endless {
	bool given;
	int16_t key;
	rd_kafka_resp_err_t error;
};

struct topic_error {
	char name[TOPIC_BYTES_MAX + 1];
	rd_kafka_resp_err_t error;
};

struct mock {
	rd_kafka_t *client; /* the mock wants one for its own bookkeeping */
	rd_kafka_mock_cluster_t *cluster;
	int brokers;
	bool given[APIS_COUNT]; /* errors of any kind */
	struct endless endless[APIS_COUNT];
	struct topic_error *topic_errors;
	size_t topic_errors_count;
};

static void
write_log(
    const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	(void)level;
	msg_write(MSG_INFO, "librdkafka: %s: %s", facility, text);
}

struct mock *
mock_start(int brokers, struct err *err)
{
	char why[256] = "";
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	struct mock *mock = calloc(1, sizeof(*mock));

	rd_kafka_conf_set_log_cb(conf, write_log);
	/* A line for each request costs time only where it is read. */
	if (msg_get_level() >= MSG_INFO)
		rd_kafka_conf_set(conf, "debug", "mock", why, sizeof(why));
	if (mock != NULL)
		mock->client =
		    rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (mock == NULL || mock->client == NULL) {
		rd_kafka_conf_destroy(conf);
		free(mock);
		err_set(err, EX_OSERR, "mock: %s", why);
		return NULL;
	}
	mock->brokers = brokers;
	mock->cluster = rd_kafka_mock_cluster_new(mock->client, brokers);
	if (mock->cluster == NULL) {
		mock_stop(mock);
		err_set(err, EX_OSERR, "mock: brokers can't be started");
		return NULL;
	}
	return mock;
}

void
mock_stop(struct mock *mock)
{
	if (mock == NULL)
		return;
	if (mock->cluster != NULL)
		rd_kafka_mock_cluster_destroy(mock->cluster);
	rd_kafka_destroy(mock->client);
	free(mock->topic_errors);
	free(mock);
}

const char *
mock_brokers(const struct mock *mock)
{
	return rd_kafka_mock_cluster_bootstraps(mock->cluster);
}

/* True where the first `bytes` of the text are a topic's name. */
static bool
begins_with_topic(const char *text, size_t bytes)
{
	return topic_is_name((struct slice){(const uint8_t *)text, bytes});
}

int
mock_add_topic(
    struct mock *mock, int brokers, const char *text, struct err *err)
{
	char name[TOPIC_BYTES_MAX + 1], partitions[32] = "", extra[32] = "";
	size_t bytes = strcspn(text, ":");
	uint64_t partition_count;
	uint64_t replication = brokers < 3 ? (uint64_t)brokers : 3;
	int fields = sscanf(text + bytes, ":%31[^:]:%31s", partitions, extra);
	rd_kafka_resp_err_t error;

	if (fields < 1 || !begins_with_topic(text, bytes))
		return err_set(err, EX_USAGE,
		    "-t: '%s': wants name:partitions or "
		    "name:partitions:replication",
		    text);
	snprintf(name, sizeof(name), "%.*s", (int)bytes, text);
	if (opt_number("-t", partitions, 1, MOCK_PARTITIONS_MOST, "partitions",
		&partition_count, err) < 0 ||
	    (fields == 2 &&
		opt_number("-t", extra, 1, (uint64_t)brokers, "replicas",
		    &replication, err) < 0))
		return -1;
	error = rd_kafka_mock_topic_create(
	    mock->cluster, name, (int)partition_count, (int)replication);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, EX_USAGE, "-t: '%s': %s", text,
		    rd_kafka_err2str(error));
	return 0;
}

/* Its index in apis. */
static bool
find_api(const char *name, size_t bytes, size_t *api)
{
	for (*api = 0; *api < APIS_COUNT; ++*api)
		if (strlen(apis[*api].name) == bytes &&
		    memcmp(apis[*api].name, name, bytes) == 0)
			return true;
	return false;
}

/* A number of the protocol, also one that librdkafka has no name for. */
static bool
find_error_number(const char *text, rd_kafka_resp_err_t *error)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 ||
	    number < RD_KAFKA_RESP_ERR__BEGIN || number > INT16_MAX)
		return false;
	*error = (rd_kafka_resp_err_t)number;
	return true;
}

/* By name, as in librdkafka's list of errors, or by number. */
static bool
find_error(const char *name, rd_kafka_resp_err_t *error)
{
	const struct rd_kafka_err_desc *all;
	size_t count;

	rd_kafka_get_err_descs(&all, &count);
	for (size_t i = 0; i < count; i++) {
		if (all[i].name == NULL || strcmp(all[i].name, name) != 0)
			continue;
		*error = all[i].code;
		return true;
	}
	return find_error_number(name, error);
}

static int
refuse_code(const char *option, const char *code, struct err *err)
{
	return err_set(err, EX_USAGE,
	    "%s: '%s': wants an error of Kafka, by name or number", option,
	    code);
}

int
mock_add_topic_error(struct mock *mock, const char *text, struct err *err)
{
	size_t bytes = strcspn(text, "=");
	struct topic_error *all, *new;

	if (text[bytes] == '\0' || !begins_with_topic(text, bytes))
		return err_set(err, EX_USAGE,
		    "--topic-error: '%s': wants name=CODE", text);
	all = reallocarray(
	    mock->topic_errors, mock->topic_errors_count + 1, sizeof(*all));
	if (all == NULL)
		return err_memory(err, "--topic-error");
	mock->topic_errors = all;
	new = &all[mock->topic_errors_count];
	if (!find_error(text + bytes + 1, &new->error))
		return refuse_code("--topic-error", text + bytes + 1, err);
	snprintf(new->name, sizeof(new->name), "%.*s", (int)bytes, text);
	rd_kafka_mock_topic_set_error(mock->cluster, new->name, new->error);
	mock->topic_errors_count++;
	return 0;
}

void
mock_switch_topic_errors(struct mock *mock, bool on)
{
	for (size_t i = 0; i < mock->topic_errors_count; i++)
		rd_kafka_mock_topic_set_error(mock->cluster,
		    mock->topic_errors[i].name,
		    on ? mock->topic_errors[i].error
		       : RD_KAFKA_RESP_ERR_NO_ERROR);
}

/* librdkafka's mock takes an error off a list for each request. */
static void
refill(struct mock *mock, int32_t broker, const struct endless *endless)
{
	rd_kafka_resp_err_t error = endless->error;
	size_t count = 0;

	rd_kafka_mock_broker_error_stack_cnt(
	    mock->cluster, broker, endless->key, &count);
	for (; count < ENDLESS_COUNT; count += 4)
		rd_kafka_mock_broker_push_request_error_rtts(mock->cluster,
		    broker, endless->key, 4, error, 0, error, 0, error, 0,
		    error, 0);
}

bool
mock_has_work(const struct mock *mock)
{
	for (size_t i = 0; i < APIS_COUNT; i++)
		if (mock->endless[i].given)
			return true;
	return false;
}

void
mock_work(struct mock *mock)
{
	for (size_t i = 0; i < APIS_COUNT; i++)
		for (int32_t broker = 1;
		     mock->endless[i].given && broker <= mock->brokers;
		     broker++)
			refill(mock, broker, &mock->endless[i]);
}

/* For good: in each broker's own stack, whose length can be asked for. */
static void
push_endless(
    struct mock *mock, size_t api, rd_kafka_resp_err_t error, size_t good_count)
{
	mock->endless[api] = (struct endless){true, apis[api].key, error};
	for (int32_t broker = 1; broker <= mock->brokers; broker++)
		for (size_t i = 0; i < good_count; i++)
			rd_kafka_mock_broker_push_request_error_rtts(
			    mock->cluster, broker, apis[api].key, 1,
			    RD_KAFKA_RESP_ERR_NO_ERROR, 0);
	mock_work(mock);
}

/* In the cluster's stack, where an entry without error lets a request pass. */
static int
push_errors(struct mock *mock, size_t api, rd_kafka_resp_err_t error,
    size_t count, size_t good_count, struct err *err)
{
	rd_kafka_resp_err_t *all = calloc(good_count + count, sizeof(*all));

	if (all == NULL)
		return err_memory(err, "--error");
	for (size_t i = good_count; i < good_count + count; i++)
		all[i] = error;
	rd_kafka_mock_push_request_errors_array(
	    mock->cluster, apis[api].key, good_count + count, all);
	free(all);
	return 0;
}

static int
refuse_error(const char *text, struct err *err)
{
	return err_set(err, EX_USAGE,
	    "--error: '%s': wants api=CODE[:count][@good], api one of "
	    "produce, fetch, list-offsets, offset-commit, offset-fetch, "
	    "find-coordinator, init-producer-id",
	    text);
}

int
mock_add_error(struct mock *mock, const char *text, struct err *err)
{
	char code[64] = "", count_text[32] = "1", good_text[32] = "0";
	size_t bytes = strcspn(text, "=");
	const char *at = strchr(text, '@');
	rd_kafka_resp_err_t error;
	uint64_t count = 0, good_count;
	bool for_good;
	size_t api;

	if (sscanf(text + bytes, "=%63[^:@]:%31[^@]", code, count_text) < 1 ||
	    (at != NULL && sscanf(at, "@%31s", good_text) < 1) ||
	    !find_api(text, bytes, &api))
		return refuse_error(text, err);
	if (!find_error(code, &error))
		return refuse_code("--error", code, err);
	for_good = strcmp(count_text, "forever") == 0;
	if ((!for_good &&
		opt_number("--error", count_text, 1, MOCK_ERRORS_MOST,
		    "requests, or forever", &count, err) < 0) ||
	    opt_number("--error", good_text, 0, MOCK_ERRORS_MOST,
		"good requests", &good_count, err) < 0)
		return -1;
	if (mock->endless[api].given || (for_good && mock->given[api]))
		return err_set(err, EX_USAGE,
		    "--error: '%s': an error that comes forever is the only "
		    "one of its api",
		    text);
	mock->given[api] = true;
	if (!for_good)
		return push_errors(mock, api, error, count, good_count, err);
	push_endless(mock, api, error, good_count);
	return 0;
}
