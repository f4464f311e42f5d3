/*
 * transact - writes records and transactions that kcat can't, for tests.
 *
 *	transact [-X name=value] ... brokers topic step ...
 *
 * It is transactional when -X transactional.id is given.  Steps, in order:
 *
 *	begin, commit, abort	a transaction
 *	P:COUNT[:TEXT]	COUNT records for partition P, "TEXT 1" and so on
 *	tombstone:P:KEY	a record without a value
 *	keyed:P:KEY:VALUE	one with a key
 *	time:MS		the timestamp of what follows; 0: now
 *	headers:COUNT	the headers of what follows
 *	flush		wait for the acks
 *	hang		flush, say so on stdout, wait for the end of stdin
 *
 * Ends with 1 and a line on stderr at the first error.  When it has ended the
 * markers of its transactions are in the log: a broker has answered a commit
 * before it writes them.
 */
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 30000

static rd_kafka_t *producer;
static const char *topic;
static int64_t timestamp_ms;
static int header_count;

static _Noreturn void __attribute__((format(printf, 1, 2)))
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("transact: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void
check(rd_kafka_error_t *error, const char *step)
{
	if (error != NULL)
		die("%s: %s", step, rd_kafka_error_string(error));
}

static void
on_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque)
{
	(void)handle;
	(void)opaque;
	/* An abort drops what wasn't sent. */
	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR &&
	    message->err != RD_KAFKA_RESP_ERR__PURGE_QUEUE)
		die("delivery: %s", rd_kafka_err2str(message->err));
}

static rd_kafka_headers_t *
make_headers(void)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(16);

	for (int i = 0; i < header_count; i++) /* one name for all */
		rd_kafka_header_add(headers, "h", -1, i % 3 == 0 ? NULL : "v",
		    i % 3 == 0 ? -1 : i % 3 - 1);
	return headers;
}

static void
produce(int32_t partition, const char *key, const char *value)
{
	check(
	    rd_kafka_produceva(producer,
		(rd_kafka_vu_t[]){
		    {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
		    {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = partition},
		    {.vtype = RD_KAFKA_VTYPE_MSGFLAGS,
			.u.i = RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK},
		    {.vtype = RD_KAFKA_VTYPE_KEY,
			.u.mem = {(void *)(uintptr_t)key,
			    key == NULL ? 0 : strlen(key)}},
		    {.vtype = RD_KAFKA_VTYPE_VALUE,
			.u.mem = {(void *)(uintptr_t)value,
			    value == NULL ? 0 : strlen(value)}},
		    {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = timestamp_ms},
		    {.vtype = RD_KAFKA_VTYPE_HEADERS,
			.u.headers = make_headers()},
		},
		7),
	    "produce");
	rd_kafka_poll(producer, 0);
}

static void
flush(void)
{
	if (rd_kafka_flush(producer, TIMEOUT_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
		die("flush: not within %d ms", TIMEOUT_MS);
}

static void
hang(void)
{
	char byte;

	flush();
	puts("hanging");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
}

/* P:COUNT[:TEXT] */
static void
produce_many(const char *step)
{
	char text[64] = "record", value[96];
	int partition, count;

	if (sscanf(step, "%d:%d:%63s", &partition, &count, text) < 2)
		die("%s: what?", step);
	for (int i = 1; i <= count; i++) {
		snprintf(value, sizeof(value), "%s %d", text, i);
		produce(partition, NULL, value);
	}
}

static void
do_step(const char *step)
{
	char key[64], value[64];
	int partition;

	if (strcmp(step, "begin") == 0)
		check(rd_kafka_begin_transaction(producer), step);
	else if (strcmp(step, "commit") == 0)
		check(rd_kafka_commit_transaction(producer, TIMEOUT_MS), step);
	else if (strcmp(step, "abort") == 0)
		check(rd_kafka_abort_transaction(producer, TIMEOUT_MS), step);
	else if (strcmp(step, "flush") == 0)
		flush();
	else if (strcmp(step, "hang") == 0)
		hang();
	else if (strncmp(step, "time:", 5) == 0)
		timestamp_ms = strtoll(step + 5, NULL, 10);
	else if (sscanf(step, "headers:%d", &header_count) == 1)
		return;
	else if (sscanf(step, "tombstone:%d:%63s", &partition, key) == 2)
		produce(partition, key, NULL);
	else if (sscanf(step, "keyed:%d:%63[^:]:%63s", &partition, key,
		     value) == 3)
		produce(partition, key, value);
	else
		produce_many(step);
}

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) !=
	    RD_KAFKA_CONF_OK)
		die("%s", why);
}

/* Returns whether it is transactional. */
static bool
set_property(rd_kafka_conf_t *conf, char *property)
{
	char *equals = strchr(property, '=');

	if (equals == NULL)
		die("-X %s: wants name=value", property);
	*equals = '\0';
	set(conf, property, equals + 1);
	return strcmp(property, "transactional.id") == 0;
}

static void
start(const rd_kafka_conf_t *conf)
{
	char why[256];

	producer = rd_kafka_new(
	    RD_KAFKA_PRODUCER, rd_kafka_conf_dup(conf), why, sizeof(why));
	if (producer == NULL)
		die("%s", why);
}

int
main(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	bool transactional = false;
	int option;

	while ((option = getopt(argc, argv, "X:")) == 'X')
		transactional |= set_property(conf, optarg);
	if (option != -1 || argc - optind < 3)
		die("transact [-X name=value] ... brokers topic step ...");
	set(conf, "bootstrap.servers", argv[optind]);
	topic = argv[optind + 1];
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	start(conf);
	if (transactional)
		check(rd_kafka_init_transactions(producer, TIMEOUT_MS), "init");
	for (int i = optind + 2; i < argc; i++)
		do_step(argv[i]);
	flush();
	rd_kafka_destroy(producer);
	if (transactional) { /* the next one waits for the last one's end */
		start(conf);
		check(rd_kafka_init_transactions(producer, TIMEOUT_MS), "end");
		rd_kafka_destroy(producer);
	}
	rd_kafka_conf_destroy(conf);
	return 0;
}
