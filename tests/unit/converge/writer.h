/*
 * writer - what mailbox-apply is, without its pipes: batches of random size
 * through round.h, one command of Redis a turn.
 */
#ifndef QIM_TESTS_CONVERGE_WRITER_H
#define QIM_TESTS_CONVERGE_WRITER_H

#include "model.h"
#include "redis/round.h"
#include "topic.h"

#define WORKS_MAX 4
#define REPLIES_MAX 2100

#define LANES_MAX 2

/* A connection and its rounds. */
struct lane {
	struct round round;
	struct link link;
	struct commands commands;
	const uint8_t *at; /* the next command that Redis takes */
};

/* Stays where it is: its rounds point into it. */
struct writer {
	struct lane lanes[LANES_MAX];
	uint32_t lane_count;
	struct work works[WORKS_MAX];
	struct buf frames[WORKS_MAX]; /* what they point into */
	size_t first, count; /* works in use, a ring */
	size_t next[PARTITIONS]; /* offsets that the next batch begins with */
	int64_t due[PARTITIONS];
};

enum turn {
	TURN_ON,
	TURN_DONE, /* all of the topic is in the mailboxes */
	TURN_LOST, /* 75: to be started again at the mark */
	TURN_WRONG, /* what can't be */
};

/* Starts at the marks, or anywhere below them. */
void writer_begin(struct writer *writer, struct model *model, bool below);
void writer_end(struct writer *writer);

/* Something is read, sent, or taken by Redis. */
enum turn writer_turn(struct writer *writer, bool faults);

#endif
