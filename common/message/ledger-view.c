#include "message/ledger-view.h"

#include <inttypes.h>
#include <stdio.h>

/* Drops the line where a value of it couldn't be made. */
static json_t *
whole_or_none(json_t *line, int failed)
{
	if (failed == 0)
		return line;
	json_decref(line);
	return NULL;
}

static int
add_name(json_t *line, const char *key, struct slice name)
{
	return json_object_set_new(line, key, view_bin(name, VIEW_BIN_TEXT));
}

static int
add_number(json_t *line, const char *key, int64_t number)
{
	return json_object_set_new(line, key, json_integer(number));
}

json_t *
ledger_view_finding(const struct finding *finding)
{
	bool is_lost = finding->kind == LEDGER_LOST;
	json_t *line =
	    json_pack("{s:s,s:I}", "found", ledger_kind_names[finding->kind],
		is_lost ? "outbox_partition" : "partition",
		(json_int_t)finding->partition);
	int failed = 0;

	if (finding->offset >= 0)
		failed |= add_number(line, is_lost ? "outbox_offset" : "offset",
		    finding->offset);
	if (finding->user.data != NULL)
		failed |= add_name(line, "user", finding->user);
	if (finding->conversation.data != NULL)
		failed |=
		    add_name(line, "conversation_id", finding->conversation);
	if (finding->seq > 0)
		failed |=
		    add_number(line, "conversation_seq", (int64_t)finding->seq);
	failed |= add_name(line, "why", slice_of(finding->why));
	return whole_or_none(line, failed);
}

json_t *
ledger_view_counts(const struct ledger *ledger)
{
	const struct ledger_counts *counts = &ledger->counts;
	const struct {
		const char *name;
		uint64_t count;
	} all[] = {
	    {"messages", counts->messages},
	    {"dead", counts->dead},
	    {"pending", counts->pending},
	    {"dispatches", counts->dispatches},
	    {"repeats", counts->repeats},
	    {"conflicts", counts->conflicts},
	    {"undecodable", counts->undecodable},
	    {"unapplied", counts->unapplied},
	    {"entries", counts->entries},
	    {"claims", counts->claims},
	    {"above", counts->above},
	    {"trimmed", counts->trimmed},
	    {"unchecked", counts->unchecked},
	};
	json_t *line = json_object();
	int failed = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		failed |= add_number(line, all[i].name, (int64_t)all[i].count);
	for (int i = 0; i < LEDGER_KINDS; i++)
		failed |= add_number(
		    line, ledger_kind_names[i], (int64_t)ledger->kinds[i]);
	return whole_or_none(line, failed);
}

static void
add_count(char *text, const char *name, uint64_t count)
{
	size_t used = strlen(text);

	if (count > 0)
		snprintf(text + used, LEDGER_VERDICT_BYTES - used,
		    "%s%" PRIu64 " %s", used > 0 ? ", " : "", count, name);
}

bool
ledger_view_verdict(const struct ledger *ledger, bool drained,
    char text[static LEDGER_VERDICT_BYTES])
{
	text[0] = '\0';
	for (int i = 0; i < LEDGER_KINDS; i++)
		add_count(text, ledger_kind_names[i], ledger->kinds[i]);
	if (drained) {
		add_count(text, "pending", ledger->counts.pending);
		add_count(text, "unapplied", ledger->counts.unapplied);
		add_count(text, "above", ledger->counts.above);
	}
	return text[0] != '\0';
}
