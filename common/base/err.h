/*
 * err - what went wrong, as an exit code and one line of text.
 *
 * Libraries return errors, only cmd/ prints them and exits.  A function that
 * can fail takes a `struct err *` as its last parameter, returns -1 and has
 * filled it.  The codes are those of sysexits(3), with the meaning of qim(7):
 *
 *	EX_USAGE 64, EX_DATAERR 65, EX_NOINPUT 66, EX_SOFTWARE 70,
 *	EX_PROTOCOL 76, EX_NOPERM 77, EX_CONFIG 78	a person must act
 *	EX_UNAVAILABLE 69, EX_OSERR 71, EX_IOERR 74, EX_TEMPFAIL 75
 *						may pass: start again
 */
#ifndef QIM_BASE_ERR_H
#define QIM_BASE_ERR_H

#include <sysexits.h>

/* Longest text kept, with its NUL; longer ones are cut. */
#define ERR_TEXT_BYTES 512

struct err {
	int code; /* 0, or one of sysexits(3) */
	char text[ERR_TEXT_BYTES]; /* "what: why", unmasked, no newline */
};

/* Fills *err and returns -1, so that a caller can return it. */
int err_set(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* EX_OSERR for a failed allocation of `what`; returns -1. */
int err_memory(struct err *err, const char *what);

/* EX_SOFTWARE: a state that can't be; returns -1. */
int err_bug(struct err *err, const char *what);

/* Puts "PREFIX: " in front of the text; returns -1. */
int err_prefix(struct err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
