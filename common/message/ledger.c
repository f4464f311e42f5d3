#include <stdlib.h>
#include <xxhash.h>

#include "message/hash.h"
#include "message/ledger-parts.h"

const char *const ledger_kind_names[LEDGER_KINDS] = {"missing", "extra",
    "twice", "digest", "seq", "own", "order", "conflict", "undispatched",
    "lost"};

/* Of a partition's number, and of a chunk's, as much stands in a key. */
#define CHUNK_BITS 15
#define SEQ_BITS 53

int
ledger_init(struct ledger *ledger, uint32_t partitions, uint64_t seed,
    ledger_found *found, struct err *err)
{
	*ledger = (struct ledger){.partitions = partitions, .found = found};
	names_init(&ledger->users, seed);
	names_init(&ledger->conversations, seed);
	table_init(&ledger->entries, sizeof(struct entry), seed);
	table_init(&ledger->dispatches, sizeof(struct slot), seed);
	table_init(&ledger->views, sizeof(struct view), seed);
	table_init(&ledger->floors, sizeof(struct floor), seed);
	table_init(&ledger->quarantine, sizeof(struct table_key), seed);
	table_init(&ledger->letters, sizeof(struct table_key), seed);
	ledger->parts = calloc(partitions, sizeof(*ledger->parts));
	return ledger->parts == NULL ? ledger_memory(err) : 0;
}

void
ledger_release(struct ledger *ledger)
{
	names_release(&ledger->users);
	names_release(&ledger->conversations);
	table_release(&ledger->entries);
	table_release(&ledger->dispatches);
	table_release(&ledger->views);
	table_release(&ledger->floors);
	table_release(&ledger->quarantine);
	table_release(&ledger->letters);
	free(ledger->parts);
	ledger->parts = NULL;
}

int
ledger_memory(struct err *err)
{
	return err_memory(err, "entries");
}

int
ledger_tell(
    struct ledger *ledger, const struct finding *finding, struct err *err)
{
	ledger->kinds[finding->kind]++;
	return ledger->found(finding, err);
}

static struct table_key
key_of(uint32_t first, uint32_t second, uint64_t low)
{
	if (first == 0)
		return (struct table_key){0, 0};
	return (struct table_key){(uint64_t)first << 32 | second, low};
}

struct table_key
ledger_user_key(struct ledger *ledger, struct slice user,
    struct slice conversation, uint64_t low)
{
	uint32_t second = names_take(&ledger->conversations, conversation);

	if (second == 0)
		return (struct table_key){0, 0};
	return key_of(names_take(&ledger->users, user), second, low);
}

struct table_key
ledger_top_key(
    struct ledger *ledger, uint32_t partition, struct slice conversation)
{
	return key_of(
	    names_take(&ledger->conversations, conversation), partition, 1);
}

struct slice
key_user(const struct ledger *ledger, struct table_key key)
{
	return names_get(&ledger->users, (uint32_t)(key.high >> 32));
}

struct slice
key_conversation(const struct ledger *ledger, struct table_key key)
{
	return names_get(&ledger->conversations, (uint32_t)key.high);
}

struct slot *
ledger_slot(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, uint32_t chunk, bool add)
{
	uint32_t name = names_take(&ledger->conversations, conversation);
	struct table_key key = key_of(name,
	    partition << CHUNK_BITS | (chunk & ((1U << CHUNK_BITS) - 1)),
	    (uint64_t)(chunk >> CHUNK_BITS) << SEQ_BITS | seq);
	bool added;

	if (name == 0)
		return NULL;
	if (!add)
		return table_find(&ledger->dispatches, key);
	return table_take(&ledger->dispatches, key, &added);
}

uint32_t
slot_partition(const struct slot *slot)
{
	return (uint32_t)slot->key.high >> CHUNK_BITS;
}

uint64_t
slot_seq(const struct slot *slot)
{
	return slot->key.low & SEQ_MAX;
}

uint64_t
digest_start(const uint8_t *digest)
{
	uint64_t start;

	memcpy(&start, digest, sizeof(start));
	return start;
}

static int
tell_entry(struct ledger *ledger, enum ledger_kind kind, uint32_t partition,
    struct slice user, struct slice conversation, uint64_t seq, int64_t offset,
    const char *why, struct err *err)
{
	return ledger_tell(ledger,
	    &(struct finding){
		kind, partition, offset, user, conversation, seq, why},
	    err);
}

int
ledger_entry(struct ledger *ledger, uint32_t partition, struct slice user,
    struct slice conversation, uint64_t seq, bool own, uint64_t mailbox_seq,
    struct err *err)
{
	uint64_t flag = own ? ENTRY_OWN : ENTRY_OTHER;
	struct table_key key = ledger_user_key(ledger, user, conversation, seq);
	struct entry *entry;
	bool added;

	if (key_is_none(key))
		return ledger_memory(err);
	entry = table_take(&ledger->entries, key, &added);
	if (entry == NULL)
		return ledger_memory(err);
	if ((entry->word & flag) != 0)
		return 0;
	ledger->counts.entries++;
	if (added) {
		entry->word = flag | (mailbox_seq & ENTRY_SEQ);
		return 0;
	}
	entry->word |= flag | ENTRY_TOLD;
	return tell_entry(ledger, LEDGER_TWICE, partition, user, conversation,
	    seq, -1, "as own and as another's", err);
}

int
ledger_claim(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, uint32_t chunk, int64_t offset,
    const uint8_t *digest, bool fits, struct err *err)
{
	struct slot *slot =
	    ledger_slot(ledger, partition, conversation, seq, chunk, true);

	if (slot == NULL)
		return ledger_memory(err);
	if (slot->flags & SLOT_CLAIM)
		return 0;
	ledger->counts.claims++;
	slot->flags |= SLOT_CLAIM;
	slot->offset = offset;
	slot->digest = digest_start(digest);
	if (fits)
		return 0;
	return tell_entry(ledger, LEDGER_DIGEST, partition, (struct slice){0},
	    conversation, seq, offset,
	    "the claim's body isn't what its digest is of", err);
}

struct view *
ledger_view(struct ledger *ledger, struct table_key key)
{
	bool added;

	return key_is_none(key) ? NULL
				: table_take(&ledger->views, key, &added);
}

/* Takes the greater, as a scan may give a member again. */
static int
take_view(struct ledger *ledger, struct table_key key, uint64_t score,
    struct err *err)
{
	struct view *view = ledger_view(ledger, key);

	if (view == NULL)
		return ledger_memory(err);
	if (view->got < score)
		view->got = score;
	return 0;
}

int
ledger_conv(struct ledger *ledger, struct slice user, struct slice conversation,
    uint64_t created_at_ms, struct err *err)
{
	return take_view(ledger, ledger_user_key(ledger, user, conversation, 0),
	    created_at_ms, err);
}

int
ledger_top(struct ledger *ledger, uint32_t partition, struct slice conversation,
    uint64_t seq, struct err *err)
{
	return take_view(
	    ledger, ledger_top_key(ledger, partition, conversation), seq, err);
}

/* A view of its own, which the end compares with that of `top`. */
int
ledger_read(struct ledger *ledger, uint32_t partition,
    struct slice conversation, uint64_t seq, struct err *err)
{
	struct table_key key = ledger_top_key(ledger, partition, conversation);

	if (!key_is_none(key))
		key.low = 2;
	return take_view(ledger, key, seq, err);
}

static struct table_key
quarantine_key(const uint8_t *id, const uint8_t *digest)
{
	uint8_t field[2 * HASH_BYTES];
	XXH128_hash_t hash;

	memcpy(field, id, HASH_BYTES);
	memcpy(field + HASH_BYTES, digest, HASH_BYTES);
	hash = XXH3_128bits(field, sizeof(field));
	return (struct table_key){hash.high64, hash.low64 | !hash.high64};
}

int
ledger_quarantined(struct ledger *ledger, const uint8_t *field, struct err *err)
{
	bool added;

	if (table_take(&ledger->quarantine,
		quarantine_key(field, field + HASH_BYTES), &added) == NULL)
		return ledger_memory(err);
	return 0;
}

bool
ledger_has_quarantined(
    const struct ledger *ledger, const uint8_t *id, const uint8_t *digest)
{
	return table_find(&ledger->quarantine, quarantine_key(id, digest)) !=
	    NULL;
}

int
ledger_floor(
    struct ledger *ledger, struct slice user, uint64_t floor, struct err *err)
{
	struct table_key key = key_of(names_take(&ledger->users, user), 0, 0);
	struct floor *entry;
	bool added;

	if (key_is_none(key))
		return ledger_memory(err);
	entry = table_take(&ledger->floors, key, &added);
	if (entry == NULL)
		return ledger_memory(err);
	if (entry->floor < floor)
		entry->floor = floor;
	return 0;
}

int
ledger_stray(struct ledger *ledger, uint32_t partition, struct slice user,
    struct slice conversation, const char *why, struct err *err)
{
	return tell_entry(ledger, LEDGER_EXTRA, partition, user, conversation,
	    0, -1, why, err);
}

static bool
is_trimmed(const struct ledger *ledger, uint32_t user, int64_t offset)
{
	const struct floor *floor =
	    table_find(&ledger->floors, key_of(user, 0, 0));

	return floor != NULL && (uint64_t)offset < floor->floor;
}

/* An entry of a recipient that isn't in the box. */
static int
miss(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct entry *entry, struct err *err)
{
	if (entry->word & ENTRY_TOLD)
		return 0;
	entry->word |= ENTRY_TOLD;
	if (is_trimmed(ledger, (uint32_t)(entry->key.high >> 32), offset)) {
		ledger->counts.trimmed++;
		return 0;
	}
	return tell_entry(ledger, LEDGER_MISSING, partition,
	    key_user(ledger, entry->key), key_conversation(ledger, entry->key),
	    entry->key.low, offset, "no entry in the box", err);
}

static int
check_entry(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct entry *entry, bool own, struct err *err)
{
	enum ledger_kind kind = LEDGER_SEQ;
	const char *why = "the entry has another mailbox_seq than its claim";

	if (!(entry->word & ENTRY_STANDS))
		return miss(ledger, partition, offset, entry, err);
	if (entry->word & ENTRY_TOLD)
		return 0;
	if ((entry->word & ENTRY_SEQ) == (uint64_t)offset + 1) {
		if (entry->word & (own ? ENTRY_OWN : ENTRY_OTHER))
			return 0;
		kind = LEDGER_OWN;
		why = own ? "the sender's own isn't marked"
			  : "marked as the sender's own";
	}
	entry->word |= ENTRY_TOLD;
	return tell_entry(ledger, kind, partition, key_user(ledger, entry->key),
	    key_conversation(ledger, entry->key), entry->key.low, offset, why,
	    err);
}

int
ledger_check_entries(struct ledger *ledger, uint32_t partition, int64_t offset,
    struct dispatch dispatch, uint64_t flag, struct err *err)
{
	bool due = (uint64_t)offset < ledger->parts[partition].mark;
	struct ident user;
	struct entry *entry;
	bool added, own;

	while (dispatch_next_recipient(&dispatch, &user) == 1) {
		struct table_key key = ledger_user_key(ledger, user.bytes,
		    dispatch.conversation.bytes, dispatch.conversation_seq);

		if (key_is_none(key))
			return ledger_memory(err);
		entry = due ? table_take(&ledger->entries, key, &added)
			    : table_find(&ledger->entries, key);
		if (entry == NULL && due)
			return ledger_memory(err);
		if (entry == NULL)
			continue;
		entry->word |= flag;
		own = slice_equal(user.bytes, dispatch.sender.bytes);
		if (due &&
		    check_entry(ledger, partition, offset, entry, own, err) < 0)
			return -1;
	}
	return 0;
}
