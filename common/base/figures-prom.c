/* Figures in the text format of Prometheus, and what both formats share. */
#include <stdarg.h>
#include <stdio.h>

#include "base/figures-write.h"

void
figures_format(struct buf *out, const char *format, ...)
{
	char text[FIGURES_TEXT_BYTES];
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (bytes >= (int)sizeof(text))
		bytes = sizeof(text) - 1;
	if (bytes > 0)
		buf_append(out, text, (size_t)bytes);
}

void
figures_seconds(struct buf *out, uint64_t us)
{
	char text[32];
	int bytes = snprintf(text, sizeof(text), "%llu.%06llu",
	    (unsigned long long)us / 1000000, (unsigned long long)us % 1000000);

	while (text[bytes - 1] == '0')
		bytes--;
	if (text[bytes - 1] == '.')
		bytes--;
	buf_append(out, text, (size_t)bytes);
}

void
figures_value(struct buf *out, const struct figures_view *view,
    const struct figure *figure)
{
	uint64_t value = figure_get(figure);

	if (figure->type == FIGURE_SECONDS)
		figures_seconds(out, value);
	else if (figure->type == FIGURE_TIME)
		figures_seconds(out, view->unix_us - (view->now_us - value));
	else
		figures_format(out, "%llu", (unsigned long long)value);
}

int
figures_is_known(const struct figure *figure)
{
	return figure_get(figure) != FIGURE_UNKNOWN;
}

struct figure *
figures_at(const struct figures_view *view, size_t place)
{
	size_t count = 0;

	for (; view->own[count] != NULL; count++)
		if (count == place)
			return view->own[count];
	return view->table == NULL ? NULL : view->table[place - count];
}

static void
write_label(struct buf *out, const char *name, const char *value)
{
	figures_format(out, "%s=\"", name);
	for (; *value != '\0'; value++)
		if (*value == '\n')
			buf_append(out, "\\n", 2);
		else if (*value == '"' || *value == '\\')
			figures_format(out, "\\%c", *value);
		else
			buf_append(out, value, 1);
	buf_append(out, "\"", 1);
}

/* The name with its suffix, and the labels; `bound`: that of a bucket. */
static void
write_head(struct buf *out, const struct figures_view *view,
    const struct figure *figure, const char *suffix, const char *bound)
{
	figures_format(out, "%s%s{", figure->name, suffix);
	write_label(out, "program", view->program);
	if (view->chain != NULL) {
		buf_append(out, ",", 1);
		write_label(out, "chain", view->chain);
	}
	for (int i = 0; i < FIGURE_LABELS; i++) {
		if (figure->labels[i].name == NULL)
			break;
		buf_append(out, ",", 1);
		write_label(
		    out, figure->labels[i].name, figure->labels[i].value);
	}
	if (bound != NULL) {
		buf_append(out, ",", 1);
		write_label(out, "le", bound);
	}
	buf_append(out, "} ", 2);
}

static void
write_buckets(struct buf *out, const struct figures_view *view,
    const struct figure *figure)
{
	struct buf bound = {0};
	uint64_t count = 0;

	for (size_t i = 0; i <= FIGURE_BOUNDS; i++) {
		count += atomic_load_explicit(
		    &figure->buckets[i], memory_order_relaxed);
		buf_reset(&bound);
		if (i < FIGURE_BOUNDS)
			figures_seconds(&bound, figure_bounds_us[i]);
		else
			buf_append(&bound, "+Inf", 4);
		buf_append(&bound, "", 1);
		if (bound.failed)
			out->failed = true;
		else
			write_head(out, view, figure, "_bucket",
			    (const char *)bound.data);
		figures_format(out, "%llu\n", (unsigned long long)count);
	}
	buf_release(&bound);
	write_head(out, view, figure, "_sum", NULL);
	figures_seconds(out, figure_get(figure));
	buf_append(out, "\n", 1);
	write_head(out, view, figure, "_count", NULL);
	figures_format(out, "%llu\n", (unsigned long long)count);
}

static void
write_series(struct buf *out, const struct figures_view *view,
    const struct figure *figure)
{
	if (!figures_is_known(figure))
		return;
	if (figure->type == FIGURE_HISTOGRAM) {
		write_buckets(out, view, figure);
		return;
	}
	write_head(out, view, figure, "", NULL);
	figures_value(out, view, figure);
	buf_append(out, "\n", 1);
}

static void
write_help(struct buf *out, const struct figure *figure)
{
	const char *type = "gauge";

	if (figure->type == FIGURE_COUNTER)
		type = "counter";
	if (figure->type == FIGURE_HISTOGRAM)
		type = "histogram";
	figures_format(out, "# HELP %s ", figure->name);
	buf_append(out, figure->help, strlen(figure->help));
	figures_format(out, "\n# TYPE %s %s\n", figure->name, type);
}

void
figures_write_prom(struct buf *out, const struct figures_view *view)
{
	const struct figure *figure;
	const char *last = "";

	for (size_t i = 0; (figure = figures_at(view, i)) != NULL; i++) {
		if (strcmp(figure->name, last) != 0)
			write_help(out, figure);
		last = figure->name;
		if (!figure->is_family) {
			write_series(out, view, figure);
			continue;
		}
		for (figure = figure_next(figure); figure != NULL;
		     figure = figure_next(figure))
			write_series(out, view, figure);
	}
}
