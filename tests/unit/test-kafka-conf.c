/*
 * test-kafka-conf - what is accepted and refused of -b, -X, -F and the
 * environment, property by property.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kafka/conf.h"
#include "kafka/error.h"
#include "kafka/settings.h"

static struct kafka_options
with_property(const char *property)
{
	struct kafka_options options = {.brokers = "localhost:1"};

	options.properties.text[0] = property;
	options.properties.count = 1;
	return options;
}

/* Builds, and expects the code, and that the message has the text. */
static void
expect(const struct kafka_options *options, enum kafka_role role, int code,
    const char *text)
{
	struct err err = {0};
	rd_kafka_conf_t *conf;
	int result = kafka_conf_build(options, role, &conf, &err);

	if (code != err.code || (result == 0) != (code == 0))
		fail_msg("%s: code %d, %s", options->properties.text[0],
		    err.code, err.text);
	if (code != 0 && strstr(err.text, text) == NULL)
		fail_msg("'%s' isn't in '%s'", text, err.text);
	if (result == 0)
		rd_kafka_conf_destroy(conf);
	else
		assert_null(conf);
}

static void
test_deny_list(void **state)
{
	static const char *const denied[] = {
	    "plugin.library.paths=/tmp/x.so",
	    "ssl.engine.location=/tmp/x.so",
	    "ssl.providers=legacy",
	    "sasl.kerberos.kinit.cmd=touch /tmp/x",
	    "sasl.oauthbearer.token.endpoint.url=http://localhost/",
	    "test.mock.num.brokers=3",
	    "enable.idempotence=true",
	    "enable.idempotence=false",
	    "transactional.id=x",
	    "delivery.report.only.error=true",
	    "queuing.strategy=lifo",
	    "partitioner=random",
	    "partitioner=murmur2_random",
	    "enable.auto.commit=true",
	    "auto.commit.enable=true",
	    "enable.auto.offset.store=true",
	    "offset.store.method=file",
	    "auto.offset.reset=latest",
	    "isolation.level=read_uncommitted",
	    "enable.partition.eof=false",
	    "group.id=x",
	    "enable.ssl.certificate.verification=false",
	    "ssl.endpoint.identification.algorithm=none",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		for (int role = KAFKA_CONSUMER; role <= KAFKA_COMMITTER;
		     role++) {
			struct kafka_options options = with_property(denied[i]);

			expect(&options, (enum kafka_role)role, EX_CONFIG,
			    "refused: ");
		}
}

static void
test_ordinary_properties_pass(void **state)
{
	static const char *const good[] = {
	    "linger.ms=0",
	    "client.id=me",
	    "ssl.endpoint.identification.algorithm=https",
	    "compression.type=lz4",
	    " socket.timeout.ms = 5000 ",
	    "max.in.flight=7",
	    "retries=0",
	    "message.timeout.ms=1000",
	    "acks=all",
	    "acks=-1",
	    "request.required.acks=all",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct kafka_options options = with_property(good[i]);

		expect(&options, KAFKA_PRODUCER, 0, NULL);
	}
}

static void
test_unknown_names_and_values(void **state)
{
	static const char *const bad[][2] = {
	    {"lingr.ms=1", "is linger.ms meant?"},
	    {"sokcet.timeout.ms=1", "is socket.timeout.ms meant?"},
	    {"akcs=all", "is acks meant?"},
	    {"something.of.another.kind=1", "unknown property of librdkafka"},
	    {"linger.ms=soon", "'soon': Invalid value"},
	    {"linger.ms=-1", "linger.ms: '-1'"},
	    {"message.timeout.ms=999", "'999': refused: wants 1000 to"},
	    {"delivery.timeout.ms=0", "'0': refused: wants 1000 to"},
	    {"message.timeout.ms=soon", "'soon': refused: wants 1000 to"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kafka_options options = with_property(bad[i][0]);

		expect(&options, KAFKA_PRODUCER, EX_CONFIG, bad[i][1]);
	}
}

static void
test_acks(void **state)
{
	static const char *const odd[] = {
	    "acks=2", "acks=", "acks=ALL", "acks=+1", "acks=1 1", "acks=01"};
	struct kafka_options options;

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		options = with_property(odd[i]);
		options.not_durable = true;
		expect(&options, KAFKA_PRODUCER, EX_CONFIG,
		    "wants all, -1, 0 or 1");
	}
	options = with_property("request.required.acks=1");
	expect(&options, KAFKA_PRODUCER, EX_CONFIG, "--not-durable");
	options.not_durable = true;
	expect(&options, KAFKA_PRODUCER, 0, NULL);
	options.idempotent = true;
	expect(&options, KAFKA_PRODUCER, EX_CONFIG, "wants all or -1");
	options = with_property("acks=0");
	options.not_durable = true;
	expect(&options, KAFKA_PRODUCER, 0, NULL);
}

static void
test_idempotence_contradictions(void **state)
{
	static const char *const bad[] = {
	    "max.in.flight=6",
	    "max.in.flight.requests.per.connection=1000000",
	    "retries=0",
	    "message.send.max.retries=0",
	};
	struct kafka_options options;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		options = with_property(bad[i]);
		expect(&options, KAFKA_PRODUCER, 0, NULL);
		options.idempotent = true;
		expect(&options, KAFKA_PRODUCER, EX_CONFIG,
		    "an idempotent producer wants");
	}
	options = with_property("max.in.flight=5");
	options.idempotent = true;
	expect(&options, KAFKA_PRODUCER, 0, NULL);
}

static void
test_secrets_never_on_the_command_line(void **state)
{
	static const char *const secret[] = {
	    "sasl.password=hunter2",
	    "ssl.key.password=hunter2",
	    "ssl.keystore.password=hunter2",
	    "sasl.oauthbearer.client.secret=hunter2",
	    "ssl.key.pem=hunter2",
	    "sasl.oauthbearer.config=hunter2",
	};
	struct err err;
	rd_kafka_conf_t *conf;

	(void)state;
	for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++) {
		struct kafka_options options = with_property(secret[i]);

		expect(&options, KAFKA_CONSUMER, EX_CONFIG, "file for -F");
		kafka_conf_build(&options, KAFKA_CONSUMER, &conf, &err);
		assert_null(strstr(err.text, "hunter2"));
	}
}

static void
test_malformed_and_missing(void **state)
{
	struct kafka_options options = with_property("linger.ms");

	(void)state;
	expect(&options, KAFKA_PRODUCER, EX_USAGE, "wants name=value");
	options = with_property("=1");
	expect(&options, KAFKA_PRODUCER, EX_USAGE, "wants name=value");
	options = with_property("linger.ms=1");
	options.brokers = NULL;
	expect(&options, KAFKA_PRODUCER, EX_USAGE, "-b: missing");
	options = with_property("metadata.broker.list=other:1");
	expect(&options, KAFKA_PRODUCER, EX_CONFIG, "give it once");
	options.brokers = NULL;
	expect(&options, KAFKA_PRODUCER, 0, NULL);
	options = with_property("retries=3");
	options.properties.text[1] = "message.send.max.retries=4";
	options.properties.count = 2;
	expect(&options, KAFKA_PRODUCER, EX_CONFIG,
	    "message.send.max.retries: '3' by -X and '4' by -X");
	options.properties.text[1] = "message.send.max.retries=3";
	expect(&options, KAFKA_PRODUCER, 0, NULL);
}

/* Writes a file of the mode, and expects. */
static void
expect_file(const char *text, mode_t mode, int code, const char *why)
{
	char path[] = "/tmp/test-kafka-conf-XXXXXX";
	int fd = mkstemp(path);
	struct kafka_options options = {.file = path};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	expect(&options, KAFKA_PRODUCER, code, why);
	unlink(path);
}

static void
test_file(void **state)
{
	struct kafka_options options = {.file = "/nonexistent/x"};

	(void)state;
	expect(&options, KAFKA_PRODUCER, EX_NOINPUT, "/nonexistent/x");
	expect_file("# a comment\n\n bootstrap.servers = a:1 \r\nlinger.ms=3",
	    0644, 0, NULL);
	expect_file("linger.ms=3\n", 0644, EX_USAGE, "-b: missing");
	expect_file("bootstrap.servers=a:1\nlingr.ms=3\n", 0644, EX_CONFIG,
	    "-F line 2 lingr.ms");
	expect_file("bootstrap.servers=a:1\nnonsense\n", 0644, EX_CONFIG,
	    "line 2: wants name=value");
	expect_file("bootstrap.servers=a:1\nacks=1\n", 0644, EX_CONFIG,
	    "-F line 2 acks");
	expect_file("bootstrap.servers=a:1\nsasl.password=x\n", 0644, EX_CONFIG,
	    "mode 0644 lets others read it");
	expect_file("bootstrap.servers=a:1\n  sasl.username = x\n", 0640,
	    EX_CONFIG, "mode 0640 lets others read it");
	expect_file("bootstrap.servers=a:1\nssl.key.location=x\n", 0604,
	    EX_CONFIG, "mode 0604 lets others read it");
	expect_file("bootstrap.servers=a:1\nsasl.password=x\n", 0600, 0, NULL);
	expect_file("bootstrap.servers=a:1\n#sasl.password=x\n", 0644, 0, NULL);
}

static void
expect_variable(const char *value, int code, bool idempotent)
{
	struct err err = {0};
	bool found = !idempotent;

	if (value == NULL)
		unsetenv("QIM_FANOUT_PRODUCER_IDEMPOTENCE");
	else
		setenv("QIM_FANOUT_PRODUCER_IDEMPOTENCE", value, 1);
	kafka_conf_idempotence(&found, &err);
	assert_int_equal(err.code, code);
	if (code == 0)
		assert_int_equal(found, idempotent);
	else
		assert_non_null(strstr(err.text, "exactly true or false"));
}

static void
test_idempotence_variable(void **state)
{
	static const char *const bad[] = {
	    "", "TRUE", "True", "1", "0", "yes", " true", "true ", "truefalse"};

	(void)state;
	expect_variable(NULL, 0, false);
	expect_variable("false", 0, false);
	expect_variable("true", 0, true);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_variable(bad[i], EX_CONFIG, false);
}

/* What a role rests on is set, as librdkafka reads it back. */
static void
expect_default(
    enum kafka_role role, bool idempotent, const char *name, const char *value)
{
	struct kafka_options options = {
	    .brokers = "a:1", .group = "g", .idempotent = idempotent};
	struct err err;
	rd_kafka_conf_t *conf;
	char found[256];
	size_t bytes = sizeof(found);

	assert_int_equal(kafka_conf_build(&options, role, &conf, &err), 0);
	assert_int_equal(
	    rd_kafka_conf_get(conf, name, found, &bytes), RD_KAFKA_CONF_OK);
	assert_string_equal(found, value);
	rd_kafka_conf_destroy(conf);
}

static void
test_defaults(void **state)
{
	(void)state;
	expect_default(KAFKA_PRODUCER, false, "acks", "-1");
	expect_default(KAFKA_PRODUCER, false, "enable.idempotence", "false");
	expect_default(KAFKA_PRODUCER, true, "enable.idempotence", "true");
	expect_default(KAFKA_PRODUCER, false, "max.in.flight", "5");
	expect_default(KAFKA_PRODUCER, false, "partitioner", "murmur2_random");
	expect_default(
	    KAFKA_PRODUCER, false, "delivery.report.only.error", "false");
	expect_default(
	    KAFKA_PRODUCER, false, "allow.auto.create.topics", "false");
	expect_default(KAFKA_CONSUMER, false, "enable.auto.commit", "false");
	expect_default(
	    KAFKA_CONSUMER, false, "enable.auto.offset.store", "false");
	expect_default(KAFKA_CONSUMER, false, "auto.offset.reset", "error");
	expect_default(
	    KAFKA_CONSUMER, false, "isolation.level", "read_committed");
	expect_default(KAFKA_CONSUMER, false, "group.id", "g");
	expect_default(KAFKA_COMMITTER, false, "enable.auto.commit", "false");
	expect_default(KAFKA_COMMITTER, false, "socket.nagle.disable", "true");
}

static void
test_exit_codes_of_errors(void **state)
{
	static const struct {
		rd_kafka_resp_err_t error;
		int code;
	} all[] = {
	    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, EX_TEMPFAIL},
	    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, EX_TEMPFAIL},
	    {RD_KAFKA_RESP_ERR_INVALID_MSG, EX_TEMPFAIL},
	    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, EX_UNAVAILABLE},
	    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, EX_UNAVAILABLE},
	    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, EX_DATAERR},
	    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, EX_DATAERR},
	    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, EX_NOPERM},
	    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, EX_NOPERM},
	    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, EX_CONFIG},
	    {RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, EX_OSERR},
	};
	rd_kafka_t *client =
	    rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
	struct err err = {0};

	(void)state;
	assert_non_null(client);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(kafka_error_code(all[i].error), all[i].code);
	/* What waiting can mend isn't kept, the first of the rest is. */
	kafka_error_keep(client, RD_KAFKA_RESP_ERR__TRANSPORT, "gone", &err);
	kafka_error_keep(client, RD_KAFKA_RESP_ERR__SSL, "handshake", &err);
	assert_int_equal(err.code, 0);
	kafka_error_keep(
	    client, RD_KAFKA_RESP_ERR__AUTHENTICATION, "wrong", &err);
	kafka_error_keep(
	    client, RD_KAFKA_RESP_ERR__AUTHENTICATION, "again", &err);
	assert_int_equal(err.code, EX_NOPERM);
	assert_string_equal(err.text, "kafka: wrong");
	rd_kafka_destroy(client);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_deny_list),
	    cmocka_unit_test(test_ordinary_properties_pass),
	    cmocka_unit_test(test_unknown_names_and_values),
	    cmocka_unit_test(test_acks),
	    cmocka_unit_test(test_idempotence_contradictions),
	    cmocka_unit_test(test_secrets_never_on_the_command_line),
	    cmocka_unit_test(test_malformed_and_missing),
	    cmocka_unit_test(test_file),
	    cmocka_unit_test(test_idempotence_variable),
	    cmocka_unit_test(test_defaults),
	    cmocka_unit_test(test_exit_codes_of_errors),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
