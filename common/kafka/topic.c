#include "kafka/topic.h"

#include <stdlib.h>
#include <string.h>

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

static int64_t
limit_of(const rd_kafka_ConfigResource_t *resource)
{
	const rd_kafka_ConfigEntry_t **entries;
	size_t count;

	entries = rd_kafka_ConfigResource_configs(resource, &count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(rd_kafka_ConfigEntry_name(entries[i]),
			"max.message.bytes") == 0 &&
		    rd_kafka_ConfigEntry_value(entries[i]) != NULL)
			return strtoll(
			    rd_kafka_ConfigEntry_value(entries[i]), NULL, 10);
	return -1;
}

static int64_t
take_limit(rd_kafka_event_t *event)
{
	const rd_kafka_ConfigResource_t **resources;
	size_t count = 0;

	if (event == NULL || rd_kafka_event_error(event) != 0)
		return -1;
	resources = rd_kafka_DescribeConfigs_result_resources(
	    rd_kafka_event_DescribeConfigs_result(event), &count);
	return count == 1 ? limit_of(resources[0]) : -1;
}

int64_t
kafka_topic_limit(rd_kafka_t *client, const char *topic, int timeout_ms)
{
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	rd_kafka_ConfigResource_t *resource =
	    rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
	rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(
	    client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_event_t *event;
	int64_t limit;

	rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, NULL, 0);
	rd_kafka_DescribeConfigs(client, &resource, 1, options, queue);
	event = rd_kafka_queue_poll(queue, timeout_ms);
	limit = take_limit(event);
	if (event != NULL)
		rd_kafka_event_destroy(event);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_ConfigResource_destroy(resource);
	rd_kafka_queue_destroy(queue);
	return limit;
}
