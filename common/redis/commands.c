#include "redis/commands.h"

#include <stdarg.h>

void
commands_reset(struct commands *commands)
{
	buf_reset(&commands->bytes);
	commands->count = 0;
}

void
commands_release(struct commands *commands)
{
	buf_release(&commands->bytes);
	*commands = (struct commands){0};
}

/* Writes the decimal digits so that they end at `end`; returns their start. */
static char *
digits_before(char *end, uint64_t number)
{
	do
		*--end = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	return end;
}

static void
append_head(struct buf *buf, char mark, uint64_t number)
{
	char text[24], *end = text + sizeof(text), *start;

	end[-2] = '\r';
	end[-1] = '\n';
	start = digits_before(end - 2, number);
	*--start = mark;
	buf_append(buf, start, (size_t)(end - start));
}

void
commands_begin(struct commands *commands, uint32_t argc, const char *name)
{
	append_head(&commands->bytes, '*', argc);
	commands_text(commands, name);
	commands->count++;
}

void
commands_pieces(
    struct commands *commands, const struct slice *pieces, size_t count)
{
	struct buf *buf = &commands->bytes;
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += pieces[i].bytes;
	append_head(buf, '$', bytes);
	for (size_t i = 0; i < count; i++)
		buf_append(buf, pieces[i].data, pieces[i].bytes);
	buf_append(buf, "\r\n", 2);
}

void
commands_slice(struct commands *commands, struct slice argument)
{
	commands_pieces(commands, &argument, 1);
}

void
commands_text(struct commands *commands, const char *argument)
{
	commands_slice(commands, slice_of(argument));
}

void
commands_u64(struct commands *commands, uint64_t argument)
{
	char text[20], *end = text + sizeof(text);
	char *start = digits_before(end, argument);

	commands_slice(
	    commands, (struct slice){(uint8_t *)start, (size_t)(end - start)});
}

void
commands_add(struct commands *commands, const char *name, ...)
{
	va_list arguments;
	const char *argument;
	uint32_t argc = 1;

	va_start(arguments, name);
	while (va_arg(arguments, const char *) != NULL)
		argc++;
	va_end(arguments);
	commands_begin(commands, argc, name);
	va_start(arguments, name);
	while ((argument = va_arg(arguments, const char *)) != NULL)
		commands_text(commands, argument);
	va_end(arguments);
}

/* Reads the number of a head of ours and passes its line. */
static uint64_t
read_head(const uint8_t **at)
{
	uint64_t number = 0;

	for ((*at)++; **at != '\r'; (*at)++)
		number = number * 10 + (uint64_t)(**at - '0');
	*at += 2;
	return number;
}

static struct slice
read_argument(const uint8_t **at)
{
	uint64_t bytes = read_head(at);
	struct slice argument = {*at, bytes};

	*at += bytes + 2;
	return argument;
}

struct slice
commands_argument(
    const struct commands *commands, size_t index, uint32_t argument)
{
	const uint8_t *at = commands->bytes.data;
	struct slice found = {0};
	uint64_t argc = 0;

	if (index >= commands->count || commands->bytes.failed)
		return found;
	for (size_t i = 0; i <= index; i++) {
		argc = read_head(&at);
		for (uint64_t k = 0; k < argc; k++) {
			struct slice read = read_argument(&at);

			if (i == index && k == argument)
				found = read;
		}
	}
	return found;
}
