/* What a field of each kind of key tells the ledger. */
#include "message/hash.h"
#include "redis/keys.h"
#include "redis/survey-parts.h"

/* Members of a page; quarantine has 4 KiB in each. */
#define MEMBERS_COUNT 250
#define QUARANTINE_COUNT 50

int
survey_stray(struct survey *survey, const struct walk *walk, const char *why,
    struct err *err)
{
	struct slice none = {0};
	bool is_log = walk_is_log(walk);

	return ledger_stray(survey->ledger, walk->partition,
	    is_log ? none : walk->id, is_log ? walk->id : none, why, err);
}

/* Only the form in which it is written: any other would be a second member for
 * the same entry. */
static bool
take_reference(
    struct survey *survey, struct slice member, struct reference *reference)
{
	struct err ignored;

	if (reference_decode(member, reference, &ignored) < 0)
		return false;
	buf_reset(&survey->scratch);
	reference_pack(&survey->scratch, reference->conversation,
	    reference->seq, reference->own);
	return slice_equal(slice_of_buf(&survey->scratch), member);
}

static int
take_box(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	struct reference reference;
	uint64_t mailbox_seq;
	bool fits = take_reference(survey, name, &reference) &&
	    reply_number(value, &mailbox_seq);

	if (survey->scratch.failed)
		return err_memory(err, "entry");
	if (!fits)
		return survey_stray(survey, walk,
		    "a member of the box that is no reference", err);
	return ledger_entry(survey->ledger, walk->partition, walk->id,
	    reference.conversation, reference.seq, reference.own, mailbox_seq,
	    err);
}

/* Digits without a leading zero; moves over them. */
static bool
pass_number(struct slice *text, uint64_t most, uint64_t *number)
{
	size_t i = 0;

	*number = 0;
	for (; i < text->bytes && *number <= most; i++) {
		if (text->data[i] < '0' || text->data[i] > '9')
			break;
		*number = 10 * *number + (uint64_t)(text->data[i] - '0');
	}
	if (i == 0 || text->data[0] == '0' || *number > most)
		return false;
	text->data += i;
	text->bytes -= i;
	return true;
}

/* The log's field: "SEQ", or "SEQ/CHUNK" from chunk 2 on. */
static bool
take_field(struct slice field, uint64_t *seq, uint64_t *chunk)
{
	*chunk = 1;
	if (!pass_number(&field, SEQ_MAX, seq))
		return false;
	if (field.bytes == 0)
		return true;
	return key_pass(&field, "/") &&
	    pass_number(&field, UINT32_MAX, chunk) && *chunk > 1 &&
	    field.bytes == 0;
}

/* What follows the digest in a claim is what the digest is of, but for the
 * array's head. */
static bool
body_fits(struct survey *survey, struct slice value, const struct claim *claim)
{
	const uint8_t *body = claim->digest.data + HASH_BYTES;
	uint8_t digest[HASH_BYTES];

	if (value.data[0] != 0x97)
		return true; /* trimmed, or a chunk's */
	buf_reset(&survey->scratch);
	buf_append(&survey->scratch, "\x95", 1);
	buf_append(
	    &survey->scratch, body, (size_t)(value.data + value.bytes - body));
	hash_bytes(slice_of_buf(&survey->scratch), digest);
	return memcmp(digest, claim->digest.data, HASH_BYTES) == 0;
}

static int
take_claim(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	struct claim claim;
	struct err ignored;
	uint64_t seq, chunk;
	bool fits;

	if (value->text.bytes > survey->claim_bytes)
		survey->claim_bytes = value->text.bytes;
	if (!take_field(name, &seq, &chunk) || value->type != REPLY_TEXT ||
	    claim_decode(value->text, &claim, &ignored) < 0)
		return survey_stray(
		    survey, walk, "a field of the log that is no claim", err);
	fits = body_fits(survey, value->text, &claim);
	if (survey->scratch.failed)
		return err_memory(err, "claim");
	return ledger_claim(survey->ledger, walk->partition, walk->id, seq,
	    (uint32_t)chunk, claim.offset, claim.digest.data, fits, err);
}

static int
take_conv(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t score;

	if (!reply_number(value, &score))
		return survey_stray(
		    survey, walk, "a score of conv that is no time", err);
	return ledger_conv(survey->ledger, walk->id, name, score, err);
}

static int
take_read(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t score;

	if (!reply_number(value, &score))
		return survey_stray(
		    survey, walk, "a score of read that is no seq", err);
	return ledger_read(survey->ledger, walk->partition, name, score, err);
}

static int
take_top(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t score;

	if (!reply_number(value, &score))
		return survey_stray(
		    survey, walk, "a score of top that is no seq", err);
	return ledger_top(survey->ledger, walk->partition, name, score, err);
}

static int
take_quarantined(struct survey *survey, const struct walk *walk,
    struct slice name, const struct reply *value, struct err *err)
{
	(void)value;
	if (slice_is(name, "dropped"))
		survey->ledger->parts[walk->partition].overflow = true;
	if (name.bytes != 2 * HASH_BYTES)
		return 0;
	return ledger_quarantined(survey->ledger, name.data, err);
}

static int
take_floor(struct survey *survey, const struct walk *walk, struct slice name,
    const struct reply *value, struct err *err)
{
	uint64_t floor;

	(void)walk;
	return reply_number(value, &floor)
	    ? ledger_floor(survey->ledger, name, floor, err)
	    : 0;
}

const struct kind survey_kinds[SURVEY_KINDS] = {
    {"box:", "ZSCAN", MEMBERS_COUNT, take_box},
    {"log:", "HSCAN", 0, take_claim},
    {"conv:", "ZSCAN", MEMBERS_COUNT, take_conv},
    {"read:", "ZSCAN", MEMBERS_COUNT, take_read},
};

const struct kind survey_singles[SURVEY_SINGLES] = {
    {"top", "ZSCAN", MEMBERS_COUNT, take_top},
    {"quarantine", "HSCAN", QUARANTINE_COUNT, take_quarantined},
    {"floor", "ZSCAN", MEMBERS_COUNT, take_floor},
};
