/*
 * fanout - from the outbox to the dispatch topic: reports, receipts, commits.
 *
 * Each record of the outbox is a batch and becomes two dispatches.  A chain
 * is started again until it has come to the end.  What goes wrong costs one
 * of FAULTS: a process killed at any step, a request that fails before or
 * after its record was appended, a report without an offset for a record that
 * isn't in the topic, a commit whose answer is lost and which lands at any
 * later time or never, a start that a person gave (-o), what a second chain
 * of the group does.
 *
 * R1 is checked whenever the committed offset moves.  README.md says what the
 * BROKEN_ switches take out.
 */
#ifndef RECORDS
#define RECORDS 3
#endif
#ifndef FAULTS
#define FAULTS 3
#endif
#define WINDOW 2 /* batches in flight */
#define BOTH 3 /* dispatches of a record, a bit for each */

/* In a pipe, behind the receipts. */
#define END 14
#define TORN 15

#define NONE 13

byte log[RECORDS]; /* dispatches of a record that are in the topic */
byte committed;
byte faults = FAULTS;
bool has_ended; /* the chain has come to the end */
bool is_late; /* a commit came late, so that the last may not be the highest */

/* A commit on its way, and one that nobody waits for any more. */
byte sent = NONE;
byte late = NONE;

chan hello = [0] of { byte }; /* where the reader starts */
chan receipts = [2] of { byte }; /* up to which offset */
chan exits = [0] of { byte }; /* how the committer ended */
bool is_gone; /* the reader of the receipts */

inline take_fault()
{
	faults > 0;
	faults--
}

inline commit(offset)
{
	committed = offset;
	offset = NONE;
	assert(committed < 1 || log[0] == BOTH);
	assert(committed < 2 || log[1] == BOTH);
	assert(committed < 3 || log[2] == BOTH)
}

/* outbox-read decides where to start: at what is committed, or as told. */
inline begin()
{
	if
	:: read = committed
	:: take_fault() -> read = 0
	:: take_fault() -> read = RECORDS - 1
	fi;
	due = read;
	has_failed = false;
	record = 0;
	do
	:: record < RECORDS -> acked[record] = 0; record++
	:: else -> record = 0; break
	od
}

/* What became of one dispatch of a record. */
inline report(record, one)
{
	if
	:: log[record] = log[record] | one;
	   acked[record] = acked[record] | one
	:: take_fault() -> /* not persisted */
	   has_failed = true
	:: take_fault() -> /* possibly persisted */
	   log[record] = log[record] | one;
	   has_failed = true
	:: take_fault() -> /* unproven */
#ifdef BROKEN_UNPROVEN
	   acked[record] = acked[record] | one
#else
	   has_failed = true
#endif
	fi
}

#ifdef BROKEN_COMMIT_EARLY
#define IS_DONE(record) true
#else
#define IS_DONE(record) (acked[record] == BOTH)
#endif

#define IS_OUT(record) ((record) < read && acked[record] != BOTH)

/* outbox-read, fanout-plan and dispatch-produce. */
active proctype Producer()
{
	byte acked[RECORDS];
	byte read, due; /* [due, read) is in flight */
	byte record, last;
	bool has_failed;

	do
	:: atomic { begin(); hello!due };
	   do
	   :: atomic { read < RECORDS && read < due + WINDOW && !has_failed ->
		read++ }
	   :: atomic { !has_failed && (IS_OUT(due) || IS_OUT(due + 1)) ->
		if
		:: IS_OUT(due) -> record = due
		:: IS_OUT(due + 1) -> record = due + 1
		fi;
		if
		:: (acked[record] & 1) == 0 -> report(record, 1)
		:: (acked[record] & 2) == 0 -> report(record, 2)
		fi;
		record = 0 }
	   :: atomic { due < read && IS_DONE(due) && nfull(receipts) ->
		receipts!(due + 1);
		due++ }
#ifdef BROKEN_ORDER
	   :: atomic { due + 1 < read && IS_DONE(due + 1) &&
		nfull(receipts) ->
		receipts!(due + 2);
		due = due + 2 }
#endif
	   :: due == RECORDS -> last = END; break
	   :: has_failed && due < RECORDS && acked[due] != BOTH ->
		last = TORN;
		break
	   :: is_gone -> last = TORN; break
	   :: atomic { take_fault() -> last = TORN; break }
	   od;
	   if
	   :: receipts!last
	   :: is_gone
	   fi;
	   atomic { exits?last ->
		if
		:: last == END -> has_ended = true; break
		:: last == TORN
		fi }
	od
}

#define IDLE 0 /* nothing to be committed, or not known */
#define READ 1 /* what is committed was read again */
#define SENT 2

/* offset-commit. */
active proctype Committer()
{
	byte from, acknowledged, seen, next, last, phase;

end:	do
	:: atomic { hello?from ->
		acknowledged = from;
		seen = 0;
		phase = IDLE;
		last = NONE;
		is_gone = false;
		do /* a pipe of its own */
		:: nempty(receipts) -> receipts?next
		:: empty(receipts) -> next = 0; break
		od };
	   do
	   :: atomic { phase != READ && last == NONE &&
		nempty(receipts) ->
		receipts?next;
		if
		:: next >= END -> last = next
#ifndef BROKEN_ORDER
		:: next < END -> assert(next == acknowledged + 1);
		   acknowledged = next
#else
		:: next < END -> acknowledged = next
#endif
		fi;
		next = 0 }
	   :: atomic { phase == IDLE && acknowledged > seen ->
		seen = committed;
		if
#ifndef BROKEN_START_ABOVE
		:: from > committed -> last = TORN; break
#endif
		:: else -> phase = (acknowledged > seen -> READ : IDLE)
		fi }
	   :: atomic { phase == READ ->
		sent = acknowledged;
		seen = acknowledged;
		phase = SENT }
	   :: atomic { phase == SENT && sent == NONE -> phase = IDLE }
	   :: atomic { phase == SENT && sent != NONE &&
		late == NONE && faults > 0 ->
		faults--;
		late = sent;
		sent = NONE;
		seen = 0;
		phase = IDLE }
	   :: phase == IDLE && last != NONE && acknowledged <= seen -> break
	   :: atomic { late == NONE && faults > 0 ->
		faults--;
		late = sent;
		sent = NONE;
		last = TORN;
		break }
	   od;
	   is_gone = true;
	   exits!last
	od
}

active proctype Coordinator()
{
end:	do
	:: atomic { sent != NONE -> commit(sent) }
	:: atomic { late != NONE -> is_late = true; commit(late) }
	:: atomic { late != NONE -> late = NONE }
	od
}

/* A second chain, as far as this one can notice: it appends what it has read,
 * and commits at any time what R1 lets it, also an offset that lies below. */
active proctype Other()
{
	byte offset;

end:	do
	:: atomic { take_fault() ->
		log[0] = BOTH;
		offset = 1;
		do
		:: offset < RECORDS -> log[offset] = BOTH; offset++
		:: true -> break
		od;
		commit(offset);
		offset = 0;
		is_late = true }
	od
}

active proctype End()
{
	has_ended;
	assert(log[0] == BOTH && log[1] == BOTH && log[2] == BOTH);
	assert(committed == RECORDS || is_late)
}
