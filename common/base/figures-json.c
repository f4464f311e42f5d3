/* Figures as a JSON line. */
#include "base/figures-write.h"

static void
write_text(struct buf *out, const char *text)
{
	buf_append(out, "\"", 1);
	for (; *text != '\0'; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			figures_format(out, "\\%c", byte);
		else if (byte < 0x20 || byte > 0x7e)
			figures_format(out, "\\u%04x", byte);
		else
			buf_append(out, text, 1);
	}
	buf_append(out, "\"", 1);
}

static void
write_name(struct buf *out, const char *name)
{
	write_text(out, name);
	buf_append(out, ":", 1);
}

static void
write_histogram(struct buf *out, const struct figure *figure)
{
	uint64_t count = 0;

	figures_format(out, "\"buckets\":[");
	for (size_t i = 0; i <= FIGURE_BOUNDS; i++) {
		count += atomic_load_explicit(
		    &figure->buckets[i], memory_order_relaxed);
		figures_format(out, "%s[", i == 0 ? "" : ",");
		if (i < FIGURE_BOUNDS)
			figures_seconds(out, figure_bounds_us[i]);
		else
			figures_format(out, "null");
		figures_format(out, ",%llu]", (unsigned long long)count);
	}
	figures_format(
	    out, "],\"count\":%llu,\"sum\":", (unsigned long long)count);
	figures_seconds(out, figure_get(figure));
}

/* What stands in an object: labels, then the value. */
static void
write_members(struct buf *out, const struct figures_view *view,
    const struct figure *figure)
{
	for (int i = 0; i < FIGURE_LABELS; i++) {
		const struct figure_label *label = &figure->labels[i];

		if (label->name == NULL)
			break;
		write_name(out, label->name);
		write_text(out, label->value);
		buf_append(out, ",", 1);
	}
	if (figure->type == FIGURE_HISTOGRAM) {
		write_histogram(out, figure);
		return;
	}
	write_name(out, "value");
	figures_value(out, view, figure);
}

static void
write_series(struct buf *out, const struct figures_view *view,
    const struct figure *figure, int *is_first)
{
	if (!figures_is_known(figure))
		return;
	figures_format(out, *is_first ? "{" : ",{");
	*is_first = 0;
	write_members(out, view, figure);
	buf_append(out, "}", 1);
}

/* All series of the name at *place, which is moved behind them. */
static void
write_array(struct buf *out, const struct figures_view *view, size_t *place)
{
	const struct figure *figure = figures_at(view, *place);
	const char *name = figure->name;
	int is_first = 1;

	write_name(out, name);
	buf_append(out, "[", 1);
	for (; figure != NULL && strcmp(figure->name, name) == 0;
	     figure = figures_at(view, ++*place)) {
		if (!figure->is_family)
			write_series(out, view, figure, &is_first);
		for (const struct figure *one = figure_next(figure);
		     figure->is_family && one != NULL; one = figure_next(one))
			write_series(out, view, one, &is_first);
	}
	buf_append(out, "]", 1);
}

void
figures_write_json(struct buf *out, const struct figures_view *view)
{
	const struct figure *figure;
	size_t place = 0;

	figures_format(out, "{\"time\":");
	figures_seconds(out, view->unix_us);
	figures_format(out, ",\"program\":");
	write_text(out, view->program);
	if (view->chain != NULL) {
		figures_format(out, ",\"chain\":");
		write_text(out, view->chain);
	}
	while ((figure = figures_at(view, place)) != NULL) {
		if (figure->is_family || figure->labels[0].name != NULL ||
		    figure->type == FIGURE_HISTOGRAM) {
			buf_append(out, ",", 1);
			write_array(out, view, &place);
			continue;
		}
		place++;
		if (!figures_is_known(figure))
			continue;
		buf_append(out, ",", 1);
		write_name(out, figure->name);
		figures_value(out, view, figure);
	}
	buf_append(out, "}\n", 2);
}
