#include "base/opt.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/msg.h"
#include "base/version.h"

#define OPTIONS_MAX 64
#define CODE_FIRST 256 /* above every letter */

struct common_flags {
	bool help, version, quiet, verbose;
};

struct parser {
	struct opt all[OPTIONS_MAX];
	struct option longs[OPTIONS_MAX + 1];
	char shorts[2 * OPTIONS_MAX + 2];
	size_t count;
};

int
opt_number(const char *name, const char *text, uint64_t least, uint64_t most,
    const char *unit, uint64_t *number, struct err *err)
{
	uint64_t value = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			break;
	if (p == text || *p != '\0' || value < least || value > most)
		return err_set(err, EX_USAGE,
		    "%s: '%s': wants a number from %llu to %llu%s%s", name,
		    text, (unsigned long long)least, (unsigned long long)most,
		    unit == NULL ? "" : " ", unit == NULL ? "" : unit);
	*number = value;
	return 0;
}

int
opt_required(const char *name, const char *text, struct err *err)
{
	if (text == NULL)
		return err_set(err, EX_USAGE, "%s: missing", name);
	return 0;
}

static void
add(struct parser *parser, struct opt opt)
{
	size_t i = parser->count++;
	size_t used = strlen(parser->shorts);
	int argument = opt.type == OPT_FLAG ? no_argument : required_argument;

	parser->all[i] = opt;
	/* A long name for every entry keeps the indices equal. */
	parser->longs[i] = (struct option){opt.name == NULL ? "" : opt.name,
	    argument, NULL, CODE_FIRST + (int)i};
	if (opt.letter == 0)
		return;
	parser->shorts[used++] = opt.letter;
	if (argument == required_argument)
		parser->shorts[used++] = ':';
	parser->shorts[used] = '\0';
}

static const struct opt *
find(const struct parser *parser, int code)
{
	if (code >= CODE_FIRST)
		return &parser->all[code - CODE_FIRST];
	for (size_t i = 0; i < parser->count; i++)
		if (parser->all[i].letter == code)
			return &parser->all[i];
	return NULL;
}

static const char *
display_name(const struct opt *opt, int code, char *out, size_t bytes)
{
	if (code >= CODE_FIRST)
		snprintf(out, bytes, "--%s", opt->name);
	else
		snprintf(out, bytes, "-%c", code);
	return out;
}

static int
take(const struct opt *opt, int code, const char *text, struct err *err)
{
	char name[64];
	struct opt_list *list = opt->to;

	display_name(opt, code, name, sizeof(name));
	if (opt->type == OPT_FLAG) {
		*(bool *)opt->to = true;
		return 0;
	}
	if (opt->type == OPT_NUMBER)
		return opt_number(
		    name, text, opt->least, opt->most, opt->unit, opt->to, err);
	if (*text == '\0')
		return err_set(err, EX_USAGE, "%s: empty", name);
	if (opt->type == OPT_TEXT) {
		*(const char **)opt->to = text;
		return 0;
	}
	if (list->count == OPT_LIST_COUNT)
		return err_set(err, EX_USAGE, "%s: given more than %d times",
		    name, OPT_LIST_COUNT);
	list->text[list->count++] = text;
	return 0;
}

static int
refuse(int code, char **argv, struct err *err)
{
	if (code == ':')
		return err_set(
		    err, EX_USAGE, "%s: wants a value", argv[optind - 1]);
	if (optopt > 0 && optopt < CODE_FIRST)
		return err_set(
		    err, EX_USAGE, "-%c: unknown option, see -h", optopt);
	return err_set(
	    err, EX_USAGE, "%s: unknown option, see -h", argv[optind - 1]);
}

static void
show_version(void)
{
	char line[128];
	int bytes = snprintf(
	    line, sizeof(line), "%s (qim) %s\n", msg_program(), QIM_VERSION);
	ssize_t ignored = write(STDOUT_FILENO, line, (size_t)bytes);

	(void)ignored;
}

static int
run_getopt(struct parser *parser, int argc, char **argv, struct err *err)
{
	const struct opt *opt;
	int code;

	optind = 0;
	opterr = 0;
	while ((code = getopt_long(
		    argc, argv, parser->shorts, parser->longs, NULL)) != -1) {
		opt = code == '?' || code == ':' ? NULL : find(parser, code);
		/* `--=x` is the empty name of an option without one. */
		if (opt == NULL || (code >= CODE_FIRST && opt->name == NULL))
			return refuse(code, argv, err);
		if (take(opt, code, optarg, err) < 0)
			return -1;
	}
	return 0;
}

static void
add_figures(struct parser *parser, struct figures_options *figures)
{
	add(parser, (struct opt){0, "stats", OPT_TEXT, &figures->stats});
	add(parser, (struct opt){0, "prom", OPT_TEXT, &figures->prom});
	add(parser, (struct opt){0, "chain", OPT_TEXT, &figures->chain});
}

int
opt_parse(int argc, char **argv, const struct opt *table, int operands,
    const char *synopsis, struct opt_common *common, struct err *err)
{
	struct parser parser = {.shorts = ":"};
	struct common_flags flags = {0};
	ssize_t ignored;

	common->connect_ms = 30000;
	for (; table->type != OPT_END; table++)
		add(&parser, *table);
	add(&parser, (struct opt){0, "check", OPT_FLAG, &common->check});
	add(&parser,
	    (struct opt){0, "connect-ms", OPT_NUMBER, &common->connect_ms,
		OPT_CONNECT_MS_LEAST, OPT_CONNECT_MS_MOST, "ms"});
	add(&parser,
	    (struct opt){0, "with-parent", OPT_FLAG, &common->with_parent});
	if (common->figures.table != NULL)
		add_figures(&parser, &common->figures);
	add(&parser, (struct opt){'h', "help", OPT_FLAG, &flags.help});
	add(&parser, (struct opt){'V', "version", OPT_FLAG, &flags.version});
	add(&parser, (struct opt){'q', "quiet", OPT_FLAG, &flags.quiet});
	add(&parser, (struct opt){'v', "verbose", OPT_FLAG, &flags.verbose});
	if (run_getopt(&parser, argc, argv, err) < 0)
		return -1;
	if (flags.help) {
		ignored = write(STDOUT_FILENO, synopsis, strlen(synopsis));
		(void)ignored;
		return OPT_SHOWN;
	}
	if (flags.version) {
		show_version();
		return OPT_SHOWN;
	}
	if (argc - optind > operands)
		return err_set(err, EX_USAGE, "'%s': unexpected operand",
		    argv[optind + operands]);
	if (flags.quiet && flags.verbose)
		return err_set(err, EX_USAGE, "-q, -v: one or the other");
	if (flags.quiet)
		msg_set_level(MSG_ERROR);
	if (flags.verbose)
		msg_set_level(MSG_INFO);
	return OPT_RUN;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* Reads one number at *p; false where there is none or it is too large. */
static bool
scan_number(const char **p, uint32_t most, uint32_t *number)
{
	uint64_t value = 0;
	const char *start = *p;

	for (; **p >= '0' && **p <= '9' && value <= most; (*p)++)
		value = value * 10 + (uint64_t)(**p - '0');
	*number = (uint32_t)value;
	return *p != start && value <= most;
}

static bool
scan_ranges(const char *p, uint32_t most, uint32_t *numbers, size_t *count)
{
	uint32_t first, last;

	for (;;) {
		if (!scan_number(&p, most, &first))
			return false;
		last = first;
		if (*p == '-') {
			p++;
			if (!scan_number(&p, most, &last) || last < first)
				return false;
		}
		if (last - first >= OPT_RANGE_COUNT - *count)
			return false;
		for (uint32_t n = first; n <= last; n++)
			numbers[(*count)++] = n;
		if (*p == '\0')
			return true;
		if (*p++ != ',')
			return false;
	}
}

int
opt_ranges(const char *name, const char *text, uint32_t most,
    uint32_t **numbers, size_t *count, struct err *err)
{
	uint32_t *all = malloc(OPT_RANGE_COUNT * sizeof(*all));
	size_t total = 0, kept = 0;

	if (all == NULL)
		return err_memory(err, name);
	if (!scan_ranges(text, most, all, &total)) {
		free(all);
		return err_set(err, EX_USAGE,
		    "%s: '%s': wants numbers from 0 to %lu like 0-3,7", name,
		    text, (unsigned long)most);
	}
	qsort(all, total, sizeof(*all), compare_numbers);
	for (size_t i = 0; i < total; i++)
		if (i == 0 || all[i] != all[i - 1])
			all[kept++] = all[i];
	*numbers = all;
	*count = kept;
	return 0;
}
