#include "kafka/topic.h"

rd_kafka_resp_err_t
kafka_topic_ask(rd_kafka_t *client, rd_kafka_topic_t *topic, int timeout_ms,
    uint32_t *count)
{
	const struct rd_kafka_metadata *metadata;
	uint32_t partitions = 0;
	rd_kafka_resp_err_t error =
	    rd_kafka_metadata(client, 0, topic, &metadata, timeout_ms);

	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return error;
	if (topic != NULL) {
		error = metadata->topic_cnt == 1
		    ? metadata->topics[0].err
		    : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
		if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
			partitions =
			    (uint32_t)metadata->topics[0].partition_cnt;
		if (error == RD_KAFKA_RESP_ERR_NO_ERROR && partitions == 0)
			error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	}
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		*count = partitions;
	rd_kafka_metadata_destroy(metadata);
	return error;
}
