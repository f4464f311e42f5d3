#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
err_set(struct err *err, int code, const char *format, ...)
{
	va_list args;

	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return -1;
}

int
err_memory(struct err *err, const char *what)
{
	return err_set(err, EX_OSERR, "%s: out of memory", what);
}

int
err_bug(struct err *err, const char *what)
{
	return err_set(err, EX_SOFTWARE, "%s: this can't be: a bug", what);
}

int
err_prefix(struct err *err, const char *format, ...)
{
	char text[ERR_TEXT_BYTES];
	va_list args;
	int used;

	va_start(args, format);
	used = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (used < 0 || (size_t)used >= sizeof(text))
		return -1;
	snprintf(text + used, sizeof(text) - (size_t)used, ": %.*s",
	    (int)(sizeof(text) - (size_t)used), err->text);
	memcpy(err->text, text, sizeof(text));
	return -1;
}
