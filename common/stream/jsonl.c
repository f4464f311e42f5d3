#include "stream/jsonl.h"

#include "base/io.h"

#define GATHER_BYTES ((size_t)64 << 10)

void
jsonl_init(struct jsonl *jsonl, int fd)
{
	*jsonl = (struct jsonl){.fd = fd};
}

void
jsonl_release(struct jsonl *jsonl)
{
	buf_release(&jsonl->lines);
}

int
jsonl_flush(struct jsonl *jsonl, struct err *err)
{
	struct iovec piece = {jsonl->lines.data, jsonl->lines.bytes};

	if (jsonl->lines.failed)
		return err_memory(err, "output");
	if (io_write_all(jsonl->fd, &piece, 1, err) < 0)
		return -1;
	buf_reset(&jsonl->lines);
	return 0;
}

int
jsonl_text(struct jsonl *jsonl, const char *text, struct err *err)
{
	buf_append(&jsonl->lines, text, strlen(text));
	return jsonl->lines.bytes < GATHER_BYTES ? 0 : jsonl_flush(jsonl, err);
}

static int
append(const char *text, size_t bytes, void *lines)
{
	buf_append(lines, text, bytes);
	return 0;
}

int
jsonl_print(struct jsonl *jsonl, json_t *json, struct err *err)
{
	int failed = json == NULL ||
	    json_dump_callback(json, append, &jsonl->lines, JSON_COMPACT) < 0;

	json_decref(json);
	if (failed)
		return err_memory(err, "output");
	return jsonl_text(jsonl, "\n", err);
}
