/*
 * mailbox - from the dispatch topic into Redis: claims, joins, rounds, marks.
 *
 * One dispatch partition of three offsets: a message, another one, and then
 * the first one again (a copy) or another one that says to be the first (a
 * conflict).  A chain applies it, killed or cut off at any step and started
 * again; a second one starts at any time, stands still for as long as one
 * likes and goes on, until it finds that data was lost.  At any moment Redis
 * may come back with a data set that it had before, or an empty one, with the
 * connections dropped (a restart with a cut tail, an old replica) or kept
 * (FLUSHALL, REPLICAOF).
 *
 * R4 and R7 are checked after each round, R10 when the first has come to its
 * end.  README.md says
 * what the BROKEN_ switches take out.
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define OFFSETS 3
#define COPY 2 /* the offset of the copy, or of the conflict */

/* The message of an offset; the recipient of a conflict is another one. */
#define MESSAGE(offset) ((offset) == COPY -> 0 : (offset))

/* 0 is nothing; a claim holds its offset + 1, a box the mailbox_seq. */
typedef data_set {
	byte claim[2]; /* by message */
	byte box[2]; /* of the recipient, by message */
	byte stray; /* in the box of the conflict's recipient */
	byte mark;
	bool counted[2]; /* by writer: every round of its connection */
};

data_set redis, past;
byte committed; /* of the group, in Kafka */
byte kills = KILLS;
byte losses = LOSSES;
bool has_past; /* past is one that Redis had, else it is empty */
bool has_conflict;
bool is_replaced[2]; /* the data set, since the writer's WATCH */
bool is_cut[2]; /* the writer's connection */
bool has_ended; /* the first writer, and no data can be lost any more */

inline copy(from, to)
{
	to.claim[0] = from.claim[0];
	to.claim[1] = from.claim[1];
	to.box[0] = from.box[0];
	to.box[1] = from.box[1];
	to.stray = from.stray;
	to.mark = from.mark;
	to.counted[0] = from.counted[0];
	to.counted[1] = from.counted[1]
}

inline wipe(set)
{
	set.claim[0] = 0;
	set.claim[1] = 0;
	set.box[0] = 0;
	set.box[1] = 0;
	set.stray = 0;
	set.mark = 0;
	set.counted[0] = false;
	set.counted[1] = false
}

/* What must hold in every data set that there is. */
inline check()
{
	/* R4: the first copy's, or nothing. */
	assert(redis.claim[0] <= 1);
	assert(redis.claim[1] == 0 || redis.claim[1] == 2);
	assert(redis.box[0] <= 1);
	assert(redis.box[1] == 0 || redis.box[1] == 2);
	assert(redis.stray == 0);
	/* R7: what is below the mark is there. */
	assert(redis.mark < 1 || redis.box[0] != 0);
	assert(redis.mark < 2 || redis.box[1] != 0)
}

inline greatest(to, value)
{
	to = (to < value -> value : to)
}

/* What a writer does next, or waits for. */
#define OVER 0
#define START 1 /* at the lower of mark and committed offset */
#define OPEN 2 /* SET of a new connection's counter */
#define OPENED 3 /* its WATCH, and GET */
#define PROVE_OPEN 4
#define LOOK 5 /* read the mark that it goes on from */
#define ROUND 6 /* MULTI ... EXEC */
#define WATCH 7 /* behind it: WATCH, and GET of the counter */
#define PROVE 8
#define ASK 9 /* whose a claim is that existed */

/* Exit 75, or killed: another one starts. */
inline start_again()
{
	phase = (me == 0 -> START : OVER);
	base = 0;
	joined = 0;
	claimed = 0;
	below = 0;
	first = 0;
	answer = 0;
	must_ask = false
}

/* The connection is gone: what isn't confirmed is done again. */
inline open_again()
{
	phase = OPEN;
	joined = base;
	claimed = base;
	below = 0;
	first = 0;
	answer = 0;
	must_ask = false
}

inline join(offset, seq)
{
	if
	:: offset == COPY && has_conflict -> redis.stray = seq
	:: else ->
	   if
	   :: redis.box[MESSAGE(offset)] == 0 ->
	      redis.box[MESSAGE(offset)] = seq
	   :: else
	   fi
	fi
}

inline put_claim(offset)
{
	answer = 0;
	must_ask = false;
	if
	:: offset < below
#ifndef BROKEN_LAST_CLAIM
	:: offset >= below && redis.claim[MESSAGE(offset)] != 0 ->
	   must_ask = true
	:: offset >= below && redis.claim[MESSAGE(offset)] == 0 ->
#else
	:: offset >= below ->
#endif
	   redis.claim[MESSAGE(offset)] = offset + 1;
	   answer = offset + 1
	fi;
#ifdef BROKEN_EARLY_JOINS
	join(offset, offset + 1)
#endif
}

/* The three parts of a round, of three batches. */
inline send_round()
{
#ifdef BROKEN_EARLY_MARK
	greatest(redis.mark, claimed + (claimed < OFFSETS -> 1 : 0));
#elif defined(BROKEN_UNCOVERED)
	greatest(redis.mark, joined + (joined < OFFSETS -> 1 : 0));
#else
	greatest(redis.mark, joined);
#endif
	if
	:: joined < claimed && first != 0 -> join(joined, first)
	:: else
	fi;
	if
	:: claimed < OFFSETS -> put_claim(claimed)
	:: else
	fi;
	past.counted[me] = false
}

/* The receipt of what is confirmed, and its commit, which may be late. */
inline commit(offset)
{
	if
	:: committed < offset ->
	   committed = offset;
	   assert(losses < LOSSES || committed <= redis.mark)
	:: true
	fi
}

inline confirm()
{
	base = joined;
	commit(base);
	joined = claimed;
	first = answer;
	answer = 0;
	claimed = (claimed < OFFSETS -> claimed + 1 : claimed);
	phase = (must_ask -> ASK : ROUND);
	must_ask = false
}

#ifdef BROKEN_NO_WATCH
#define IS_NIL false
#else
#define IS_NIL is_replaced[me]
#endif
#ifdef BROKEN_NO_COUNTER
#define IS_COUNTED true
#else
#define IS_COUNTED redis.counted[me]
#endif

/* outbox-read, mailbox-apply and offset-commit of a chain, and who starts it
 * again. */
proctype Writer(bit me)
{
	byte phase;
	byte base; /* confirmed marks: where it goes on */
	byte joined, claimed; /* up to where joins and claims are confirmed */
	byte below; /* the mark that it found: nothing to do below it */
	byte first; /* of the claim at `joined`, its offset + 1; 0: no join */
	byte answer; /* the same of the claim in the round */
	bool must_ask;

	phase = START;
end:	do
	:: atomic { phase == START ->
#ifdef BROKEN_NO_REWIND
		base = committed;
#else
		base = (committed < redis.mark -> committed : redis.mark);
#endif
		open_again() }
	:: atomic { phase == OPEN ->
		is_cut[me] = false;
		redis.counted[me] = true;
		past.counted[me] = false;
		phase = OPENED }
	:: atomic { phase == OPENED && !is_cut[me] ->
		is_replaced[me] = false;
		phase = PROVE_OPEN }
	:: atomic { phase == PROVE_OPEN && !is_cut[me] ->
		if
		:: IS_COUNTED -> phase = LOOK
		:: else -> start_again()
		fi }
	:: atomic { phase == LOOK && !is_cut[me] ->
		below = redis.mark;
		phase = ROUND;
#ifndef BROKEN_NO_LOOK
		if
		:: below < base -> start_again()
		:: else
		fi
#endif
		}
	:: atomic { phase == ROUND && !is_cut[me] &&
		(base < OFFSETS || is_replaced[me]) ->
		if
		:: IS_NIL -> start_again()
		:: else ->
		   send_round();
#ifdef BROKEN_COMMIT_EARLY
		   commit(claimed);
#endif
		   phase = WATCH
		fi;
		check() }
	:: atomic { phase == WATCH && !is_cut[me] ->
		is_replaced[me] = false;
		phase = PROVE }
	:: atomic { phase == PROVE && !is_cut[me] ->
		if
		:: IS_COUNTED -> confirm()
		:: else -> start_again()
		fi }
	:: atomic { phase == ASK && !is_cut[me] ->
		if
		:: redis.claim[MESSAGE(claimed - 1)] == 0 -> start_again()
		:: else ->
		   first = redis.claim[MESSAGE(claimed - 1)];
		   /* Another digest: into quarantine, and no join. */
		   first = (claimed - 1 == COPY && has_conflict &&
			first != COPY + 1 -> 0 : first);
		   phase = ROUND
		fi }

	:: atomic { phase > OPEN && is_cut[me] -> open_again() }
	:: atomic { me == 0 && phase > OPEN && kills > 0 -> kills--; open_again() }
	:: atomic { me == 0 && phase > START && kills > 0 -> kills--; start_again() }
	:: atomic { me == 0 && phase == ROUND && base == OFFSETS && losses == 0 &&
		!is_replaced[me] && !is_cut[me] ->
		committed = OFFSETS;
		has_ended = true;
		break }
	od
}

/* What becomes of the data, at any time. */
active proctype Fate()
{
	do
	:: atomic { losses > 0 && !has_past ->
		has_past = true;
		copy(redis, past) }
	:: atomic { losses > 0 ->
		losses--;
		copy(past, redis);
		wipe(past);
		has_past = false;
		is_replaced[0] = true;
		is_replaced[1] = true;
		if
		:: is_cut[0] = true; is_cut[1] = true
		:: true
		fi }
	:: atomic { losses > 0 -> losses = 0; has_past = false; wipe(past) }
	:: losses == 0 -> break
	od
}

init
{
	atomic {
		if
		:: has_conflict = true
		:: true
		fi;
		run Writer(0);
		run Writer(1)
	}
	has_ended;
	assert(redis.mark == OFFSETS && committed == OFFSETS);
	assert(redis.claim[0] == 1 && redis.claim[1] == 2);
	assert(redis.box[0] == 1 && redis.box[1] == 2)
}
