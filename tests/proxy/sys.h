/*
 * sys - what the proxy asks the system for.
 *
 * A test's tool that doesn't get it has no way on: these end the program with
 * a line on stderr and EX_OSERR, rather than return an error.
 */
#ifndef QIM_TESTS_PROXY_SYS_H
#define QIM_TESTS_PROXY_SYS_H

#include <netinet/in.h>
#include <stdint.h>

#define SECOND_NS UINT64_C(1000000000)

/* A time that doesn't come, and a limit that isn't reached. */
#define NEVER UINT64_MAX

/* Ends the program: "what: " and what errno says. */
_Noreturn void sys_die(const char *what);

/* CLOCK_MONOTONIC. */
uint64_t sys_clock_ns(void);

/* A TCP socket for IPv4 that doesn't block and that exec(3) closes; the
 * caller's. */
int sys_socket(void);

/* Turns on an option that is an int. */
void sys_set_option(int fd, int level, int option);

/* 127.0.0.1:port; doesn't fail. */
struct sockaddr_in sys_loopback(uint16_t port);

#endif
