#include "kafka/figures.h"

#include "kafka/error.h"

#define KIND(its_kind) \
	FIGURE_LABELLED("qim_kafka_errors_total", \
	    "Errors that librdkafka has told, by kind.", FIGURE_COUNTER, \
	    "kind", its_kind)
#define STATE(its_state) \
	FIGURE_LABELLED("qim_deliveries_total", \
	    "Records sent to Kafka, by what is known of them.", \
	    FIGURE_COUNTER, "state", its_state)
#define PARTITION(its_name, its_help) \
	{ \
		.name = its_name, .help = its_help, .type = FIGURE_GAUGE, \
		.labels = {{"topic", ""}, {"partition", ""}}, .is_family = 1 \
	}

struct figure kafka_errors_transport = KIND("transport");
struct figure kafka_errors_timeout = KIND("timeout");
struct figure kafka_errors_leader = KIND("leader");
struct figure kafka_errors_replicas = KIND("replicas");
struct figure kafka_errors_out_of_order = KIND("out_of_order");
struct figure kafka_errors_authorisation = KIND("authorisation");
struct figure kafka_errors_data = KIND("data");
struct figure kafka_errors_other = KIND("other");

struct figure kafka_delivered = STATE("delivered");
struct figure kafka_unproven = STATE("unproven");
struct figure kafka_not_persisted = STATE("not_persisted");
struct figure kafka_possibly_persisted = STATE("possibly_persisted");

struct figure kafka_lag = PARTITION("qim_lag_records",
    "Offsets from the position to the end of the partition.");
struct figure kafka_position = PARTITION(
    "qim_position_offset", "The next offset that is to go out in a batch.");
struct figure kafka_committed =
    PARTITION("qim_committed_offset", "The offset that is committed.");
struct figure kafka_acknowledged = PARTITION(
    "qim_acknowledged_offset", "The next offset that no receipt has covered.");

struct figure kafka_request_errors = FIGURE_COUNTS(
    "qim_kafka_request_errors_total", "Requests to Kafka that failed.");
struct figure kafka_request_timeouts =
    FIGURE_COUNTS("qim_kafka_request_timeouts_total",
	"Requests that Kafka didn't answer in time.");
struct figure kafka_request_mean = {.name = "qim_kafka_request_mean_seconds",
    .help = "Mean time of a request to Kafka in the last second.",
    .type = FIGURE_SECONDS,
    .value = FIGURE_UNKNOWN};
struct figure kafka_request_99 = {.name = "qim_kafka_request_p99_seconds",
    .help = "99 of 100 requests to the slowest broker took no longer.",
    .type = FIGURE_SECONDS,
    .value = FIGURE_UNKNOWN};
struct figure kafka_queue_mean = {.name = "qim_kafka_queue_mean_seconds",
    .help = "Mean time of a record before its request in the last second.",
    .type = FIGURE_SECONDS,
    .value = FIGURE_UNKNOWN};

static const struct {
	rd_kafka_resp_err_t error;
	struct figure *figure;
} kinds[] = {
    {RD_KAFKA_RESP_ERR__TRANSPORT, &kafka_errors_transport},
    {RD_KAFKA_RESP_ERR__RESOLVE, &kafka_errors_transport},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, &kafka_errors_transport},
    {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, &kafka_errors_transport},
    {RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, &kafka_errors_transport},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, &kafka_errors_timeout},
    {RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE, &kafka_errors_timeout},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, &kafka_errors_timeout},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, &kafka_errors_timeout},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, &kafka_errors_leader},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, &kafka_errors_replicas},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
	&kafka_errors_replicas},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
	&kafka_errors_out_of_order},
    {RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER, &kafka_errors_out_of_order},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, &kafka_errors_out_of_order},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, &kafka_errors_out_of_order},
};

void
kafka_error_count(rd_kafka_resp_err_t error)
{
	int code = kafka_error_code(error);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].error == error) {
			figure_add(kinds[i].figure, 1);
			return;
		}
	if (code == EX_NOPERM)
		figure_add(&kafka_errors_authorisation, 1);
	else if (code == EX_DATAERR)
		figure_add(&kafka_errors_data, 1);
	else
		figure_add(&kafka_errors_other, 1);
}

void
kafka_deliveries_set(const uint64_t *counts)
{
	static struct figure *const all[] = {KAFKA_DELIVERIES_FIGURES};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		figure_set(all[i], counts[i]);
}
