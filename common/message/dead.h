/*
 * dead - a dead letter: the record that takes the place of what can't be
 * planned, on a topic of its own.
 *
 * It has the key, the value and the headers of the source record, cut so
 * that it surely can be produced, and five more headers: qim-topic,
 * qim-partition and qim-offset (decimal) say where it comes from, qim-reason
 * and qim-program why and by whom.
 */
#ifndef QIM_MESSAGE_DEAD_H
#define QIM_MESSAGE_DEAD_H

#include "stream/record.h"

/* Whatever the size of the source record: its value is cut to _VALUE_, the
 * letter to _BYTES_ in all; a key of more than an eighth of that is cut,
 * headers above _HEADERS_ or an eighth, or of a wrong form, are left out. */
#define DEAD_VALUE_BYTES_MAX ((size_t)900000)
#define DEAD_BYTES_MAX ((size_t)980000)
#define DEAD_BYTES_LEAST ((size_t)4096)
#define DEAD_HEADERS_BYTES_MAX ((size_t)64 << 10)

/* What Kafka's format and its limits want around a record's parts, and for
 * each header: more than enough. */
#define RECORD_BYTES_AROUND ((size_t)128)
#define HEADER_BYTES_AROUND ((size_t)16)

/* The bytes that a record has beside its value, or -1 EX_DATAERR where the
 * headers aren't of their form. */
int record_around_bytes(
    struct slice key, struct slice headers, size_t *bytes, struct err *err);

/*
 * Makes the letter of `record`, which comes from `source`.  `bytes_max` is
 * the largest record that may be produced; less than DEAD_BYTES_LEAST counts
 * as that.  Its headers are packed into `headers`, emptied first; all else
 * points into the record and to `topic`.  -1 EX_OSERR.
 */
int dead_make(const struct record *record, const struct range *source,
    const char *topic, const char *reason, size_t bytes_max,
    struct buf *headers, struct dispatch_record *letter, struct err *err);

/* The way back: which record a letter is of, by its headers (raw; nil: none).
 * True, and *topic points into them, where they name a topic, a partition from
 * 0 to INT32_MAX and an offset; of a name that stands twice the last counts.
 * Headers behind one that isn't of its form aren't seen. */
bool dead_find_source(struct slice headers, struct slice *topic,
    int32_t *partition, int64_t *offset);

#endif
