/*
 * producer - records into Kafka, and for each of them its own report.
 *
 * Nothing is copied: key and value of a record must stay where they are until
 * its report.  Reports come only out of producer_serve(), so that one thread
 * and one poll(2) serve the input, the reports and the output; producer_fd()
 * becomes readable when there are any.
 *
 * Clients.  A producer is one librdkafka client or several, each with
 * connections of its own: a broker serves the requests of a connection one
 * after the other.  The partitions of each topic are split between them in
 * ranges (not modulo: that may fall together with where the leaders are), and
 * a record gets its partition before its client, so that each partition has
 * exactly one, which keeps its order and makes idempotence hold.  Each client
 * has its own queue of reports, and all of them wake the same descriptor.
 * They aren't forwarded to one queue: librdkafka 2.0.2 takes a record that is
 * reported there off the count of the client that owns the queue.
 *
 * A report counts as delivered only without an error and with an offset: when
 * librdkafka retries a request it can report a record that it never saw
 * acknowledged, without an offset (R12).
 *
 * Alone.  A broker refuses all records of a request for the fault of one.  So
 * a record that is refused for what it is goes out once more in a request of
 * its own, by a client that is made for that when it is first needed, and
 * only what comes of that is reported.
 */
#ifndef QIM_KAFKA_PRODUCER_H
#define QIM_KAFKA_PRODUCER_H

#include <librdkafka/rdkafka.h>

#include "base/buf.h"
#include "base/err.h"
#include "kafka/conf.h"
#include "kafka/stats.h"

#define PRODUCER_CLIENTS_MOST 64

/* A topic that records are sent to; lives as long as the producer. */
struct producer_topic {
	struct producer_topic *next;
	struct slice name; /* NUL terminated */
	uint32_t partitions; /* when it was looked up */
	uint32_t keyless; /* records without a key and partition, so far */
	int64_t limit_bytes; /* max.message.bytes; 0 not asked, -1 not known */
	rd_kafka_topic_t *handles[]; /* one for each client, and for the lone */
};

/* What is known of a record in the end. */
enum producer_state {
	PRODUCER_DELIVERED, /* no error, and an offset where one is wanted */
	PRODUCER_UNPROVEN, /* no error, but no offset: in the topic or not */
	PRODUCER_NOT_PERSISTED, /* surely not in the topic */
	PRODUCER_POSSIBLY_PERSISTED, /* sent, and never answered for */
	PRODUCER_STATES,
};

struct producer_report {
	void *record; /* as given to producer_send() */
	const char *topic;
	int32_t partition;
	enum producer_state state;
	int code; /* 0 delivered; EX_DATAERR the record's own fault; others */
	const char *why; /* why not, with the state; NULL: delivered */
};

/* Called by producer_serve() for each record, once. */
typedef void producer_report_fn(
    const struct producer_report *report, void *context);

struct producer_client {
	rd_kafka_t *handle;
	rd_kafka_queue_t *queue; /* its reports, errors and statistics */
	uint64_t stats_count; /* statistics taken so far */
};

struct producer {
	/* `client_count` that records are split between, and behind them,
	 * once it is made, the one for records alone in their requests. */
	struct producer_client clients[PRODUCER_CLIENTS_MOST + 1];
	uint32_t client_count;
	uint32_t made_count;
	rd_kafka_conf_t *lone_conf;
	bool abandoned; /* nothing is sent once more */
	int event_fd;
	bool needs_offset;
	uint64_t connect_ms;
	/* Asked while a topic is looked for: true ends it, EX_TEMPFAIL. */
	bool (*give_up)(void);
	struct stats *stats; /* where statistics go; NULL: nowhere */
	struct producer_topic *topics;
	producer_report_fn *report;
	void *context;
	struct err broken; /* an error that no waiting can mend */
	char last_error[256]; /* of a connection, for who waits for one */
};

struct producer_record {
	struct producer_topic *topic;
	int32_t partition; /* -1: by the key */
	struct slice key, value; /* data NULL: nil */
	struct slice headers; /* raw msgpack as in a stream; nil */
	void *record; /* comes back in the report */
	bool alone; /* in a request of its own; never PRODUCER_FULL */
};

/* Makes `client_count` clients; connects nothing yet.  Takes conf in any case.
 * -1: EX_CONFIG librdkafka refuses the configuration, EX_OSERR. */
int producer_open(struct producer *producer, rd_kafka_conf_t *conf,
    uint32_t client_count, bool needs_offset, uint64_t connect_ms,
    struct err *err);

/* Gives up what isn't reported yet: each record is reported as failed. */
void producer_abandon(struct producer *producer);

/* Drops what isn't reported yet, without a call, and frees all.  Records may
 * be freed afterwards, not before. */
void producer_close(struct producer *producer);

/* Finds a topic, the first time by asking the brokers for up to connect_ms.
 * -1, *topic NULL: EX_DATAERR not a topic's name, EX_UNAVAILABLE no broker or
 * no such topic, EX_TEMPFAIL given up, EX_NOPERM, EX_CONFIG the brokers refuse
 * it, EX_OSERR. */
int producer_find_topic(struct producer *producer, struct slice name,
    struct producer_topic **topic, struct err *err);

enum producer_sent {
	PRODUCER_SENT,
	PRODUCER_FULL, /* librdkafka's queue is full: serve, send again */
};

/* -1: the record can't be sent: its own fault (EX_DATAERR), its partition
 * (EX_UNAVAILABLE), EX_OSERR; then there is no report of it.  The text of
 * the error is only why, the caller says which record. */
int producer_send(struct producer *producer,
    const struct producer_record *record, struct err *err);

/* The largest record that is sent: message.max.bytes. */
size_t producer_bytes_most(const struct producer *producer);

/* The largest that the topic takes, its max.message.bytes; -1 where that can't
 * be known.  Asks the brokers the first time, for seconds at most. */
int64_t producer_topic_limit(
    struct producer *producer, struct producer_topic *topic);

/* Readable when producer_serve() has something to do. */
int producer_fd(const struct producer *producer);

/* Takes all reports that are there, waits up to timeout_ms for the first.
 * -1: an error that no waiting can mend, EX_NOPERM or EX_TEMPFAIL. */
int producer_serve(struct producer *producer, int timeout_ms, struct err *err);

/* Waits for one more line of statistics from each client, which is at most
 * one interval and 10 s; does nothing without producer->stats. */
void producer_last_stats(struct producer *producer);

#endif
