#include "kafka/mock.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/msg.h"
#include "base/opt.h"
#include "base/topic.h"

struct mock {
	rd_kafka_t *client; /* the mock wants one for its own bookkeeping */
	rd_kafka_mock_cluster_t *cluster;
};

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
	if (mock != NULL)
		mock->client =
		    rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (mock == NULL || mock->client == NULL) {
		rd_kafka_conf_destroy(conf);
		free(mock);
		err_set(err, EX_OSERR, "mock: %s", why);
		return NULL;
	}
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

static bool
find_api(const char *name, size_t bytes, int16_t *key)
{
	for (size_t i = 0; i < sizeof(apis) / sizeof(apis[0]); i++) {
		if (strlen(apis[i].name) != bytes ||
		    memcmp(apis[i].name, name, bytes) != 0)
			continue;
		*key = apis[i].key;
		return true;
	}
	return false;
}

/* By name, as in librdkafka's list of errors, or by number. */
static bool
find_error(const char *name, rd_kafka_resp_err_t *error)
{
	const struct rd_kafka_err_desc *all;
	char number[16];
	size_t count;

	rd_kafka_get_err_descs(&all, &count);
	for (size_t i = 0; i < count; i++) {
		if (all[i].name == NULL)
			continue;
		snprintf(number, sizeof(number), "%d", (int)all[i].code);
		if (strcmp(all[i].name, name) != 0 && strcmp(number, name) != 0)
			continue;
		*error = all[i].code;
		return true;
	}
	return false;
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
	char name[TOPIC_BYTES_MAX + 1];
	size_t bytes = strcspn(text, "=");
	rd_kafka_resp_err_t error;

	if (text[bytes] == '\0' || !begins_with_topic(text, bytes))
		return err_set(err, EX_USAGE,
		    "--topic-error: '%s': wants name=CODE", text);
	if (!find_error(text + bytes + 1, &error))
		return refuse_code("--topic-error", text + bytes + 1, err);
	snprintf(name, sizeof(name), "%.*s", (int)bytes, text);
	rd_kafka_mock_topic_set_error(mock->cluster, name, error);
	return 0;
}

static int
push_errors(struct mock *mock, int16_t key, rd_kafka_resp_err_t error,
    size_t count, struct err *err)
{
	rd_kafka_resp_err_t *all = calloc(count, sizeof(*all));

	if (all == NULL)
		return err_memory(err, "--error");
	for (size_t i = 0; i < count; i++)
		all[i] = error;
	rd_kafka_mock_push_request_errors_array(mock->cluster, key, count, all);
	free(all);
	return 0;
}

int
mock_add_error(struct mock *mock, const char *text, struct err *err)
{
	char code[64] = "", count_text[32] = "1";
	size_t bytes = strcspn(text, "=");
	rd_kafka_resp_err_t error;
	uint64_t count;
	int16_t key;

	if (sscanf(text + bytes, "=%63[^:]:%31s", code, count_text) < 1 ||
	    !find_api(text, bytes, &key))
		return err_set(err, EX_USAGE,
		    "--error: '%s': wants api=CODE or api=CODE:count, api one "
		    "of produce, fetch, list-offsets, "
		    "offset-commit, offset-fetch, find-coordinator, "
		    "init-producer-id",
		    text);
	if (!find_error(code, &error))
		return refuse_code("--error", code, err);
	if (opt_number("--error", count_text, 1, MOCK_ERRORS_MOST, "requests",
		&count, err) < 0)
		return -1;
	return push_errors(mock, key, error, (size_t)count, err);
}
