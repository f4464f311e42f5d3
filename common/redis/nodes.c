#include "redis/nodes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/opt.h"

static int
refuse(const char *text, struct err *err)
{
	return err_set(err, EX_USAGE,
	    "-r: '%s': wants host:port or unix:/path, several with commas",
	    text);
}

static int
take_path(struct node *node, const char *path, struct err *err)
{
	size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (*path != '/')
		return refuse(node->text, err);
	if (strlen(path) > most)
		return err_set(err, EX_USAGE,
		    "-r: '%s': a path of %zu bytes, a socket's has at most %zu",
		    node->text, strlen(path), most);
	node->path = strdup(path);
	return node->path == NULL ? err_memory(err, "-r") : 0;
}

/* The host without the brackets of an IPv6 address. */
static int
take_host(struct node *node, struct err *err)
{
	const char *host = node->text, *colon = strrchr(host, ':');
	size_t bytes = colon == NULL ? 0 : (size_t)(colon - host);
	uint64_t port;

	if (bytes > 2 && host[0] == '[' && host[bytes - 1] == ']') {
		host++;
		bytes -= 2;
	} else if (bytes == 0 || strcspn(host, ":[]") < bytes) {
		return refuse(node->text, err);
	}
	if (opt_number("-r", colon + 1, 1, 65535, NULL, &port, err) < 0)
		return refuse(node->text, err);
	node->port = (int)port;
	node->host = strndup(host, bytes);
	return node->host == NULL ? err_memory(err, "-r") : 0;
}

static int
take_node(struct node *node, const char *text, size_t bytes, struct err *err)
{
	node->text = strndup(text, bytes);
	if (node->text == NULL)
		return err_memory(err, "-r");
	if (strncmp(node->text, "unix:", 5) == 0)
		return take_path(node, node->text + 5, err);
	return take_host(node, err);
}

static uint32_t
count_elements(const char *text)
{
	uint32_t count = 1;

	for (; *text != '\0'; text++)
		count += *text == ',';
	return count;
}

/* A node twice would hold the partitions of two places. */
static int
check_twice(const struct nodes *nodes, struct err *err)
{
	const char *text = nodes->all[nodes->count - 1].text;

	for (uint32_t i = 0; i + 1 < nodes->count; i++)
		if (strcmp(nodes->all[i].text, text) == 0)
			return err_set(err, EX_USAGE, "-r: '%s': twice", text);
	return 0;
}

int
nodes_parse(const char *text, struct nodes *nodes, struct err *err)
{
	uint32_t count = count_elements(text);

	*nodes = (struct nodes){0};
	if (count > NODES_COUNT_MAX)
		return err_set(err, EX_USAGE, "-r: %lu nodes, takes at most %d",
		    (unsigned long)count, NODES_COUNT_MAX);
	nodes->all = calloc(count, sizeof(*nodes->all));
	if (nodes->all == NULL)
		return err_memory(err, "-r");
	while (nodes->count < count) {
		size_t bytes = strcspn(text, ",");
		struct node *node = &nodes->all[nodes->count++];

		if (take_node(node, text, bytes, err) < 0 ||
		    check_twice(nodes, err) < 0) {
			nodes_release(nodes);
			return -1;
		}
		text += bytes + 1;
	}
	return 0;
}

void
nodes_release(struct nodes *nodes)
{
	for (uint32_t i = 0; i < nodes->count; i++) {
		free(nodes->all[i].text);
		free(nodes->all[i].host);
		free(nodes->all[i].path);
	}
	free(nodes->all);
	*nodes = (struct nodes){0};
}
