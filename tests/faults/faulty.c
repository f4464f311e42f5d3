/*
 * faulty.so - system calls and allocations as bad as a test wants them.
 *
 *	FAULTY='fail=malloc:17 log=calls' LD_PRELOAD=.../faulty.so fanout-plan
 *
 * Words of FAULTY:
 *	fail=malloc:K	the K-th allocation fails, and no other
 *	fail=call:K	the same of the system calls below
 *	fail=thread:K	no thread is started where K - 1 run, whoever asks
 *	short		reads and writes take one byte each
 *	storm=US	a SIGUSR2 each so many microseconds, without SA_RESTART
 *	log=FILE	a line of what has failed, "malloc 17", is written there
 *
 * Calls count that come from the program itself, hiredis, jansson or msgpack,
 * told by their return address.  Of librdkafka and the C library none do, and
 * no allocation of hiredis: both libraries call abort(3) where they get no
 * memory.  What goes to stderr is left alone, so that an error can be told.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* The fortified calls and the C library's own allocator have no header. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room);
int __poll_chk(struct pollfd *polls, nfds_t count, int timeout_ms, size_t room);
int __open_2(const char *path, int flags);

enum {
	MALLOC,
	CALL,
	THREAD
};

#define OBJECTS_MAX 8
#define HERE __builtin_return_address(0)

/* The call of this name in the next library. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static struct {
	uintptr_t from, to;
} objects[OBJECTS_MAX];
static int object_count;
static int failing = -1; /* one of these */
static unsigned long fail_at;
static atomic_ulong passed; /* such calls */
static atomic_ulong running; /* threads */
static bool one_byte;
static char log_path[512];

static bool
is_ours(const void *address)
{
	for (int i = 0; i < object_count; i++)
		if ((uintptr_t)address >= objects[i].from &&
		    (uintptr_t)address < objects[i].to)
			return true;
	return false;
}

static void
write_log(const char *name, unsigned long number)
{
	char line[80];
	int bytes = snprintf(line, sizeof(line), "%s %lu\n", name, number);
	long fd = syscall(SYS_openat, AT_FDCWD, log_path,
	    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd >= 0) {
		syscall(SYS_write, fd, line, bytes);
		syscall(SYS_close, fd);
	}
}

/* Whether this call is the one that fails; then errno is `number`. */
static bool
fails(int kind, const void *caller, const char *name, int number)
{
	if (kind != failing || !is_ours(caller) ||
	    atomic_fetch_add(&passed, 1) + 1 != fail_at)
		return false;
	if (log_path[0] != '\0')
		write_log(name, fail_at);
	errno = number;
	return true;
}

/* --- starting ---------------------------------------------------------------
 */

static int
add_object(struct dl_phdr_info *info, size_t size, void *first)
{
	const char *name = info->dlpi_name;
	bool wanted = *(bool *)first; /* the program itself */

	(void)size;
	*(bool *)first = false;
	wanted |= strstr(name, "libjansson") != NULL;
	wanted |= strstr(name, "libmsgpack") != NULL;
	wanted |= strstr(name, "libhiredis") != NULL && failing != MALLOC;
	for (int i = 0; wanted && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0 ||
		    object_count == OBJECTS_MAX)
			continue;
		objects[object_count].from = info->dlpi_addr + part->p_vaddr;
		objects[object_count].to =
		    objects[object_count].from + part->p_memsz;
		object_count++;
	}
	return 0;
}

static void
ignore_signal(int number)
{
	(void)number;
}

static void
start_storm(long us)
{
	struct sigaction action = {.sa_handler = ignore_signal};
	struct sigevent event = {
	    .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	struct itimerspec each = {{0, 1000 * us}, {0, 1000 * us}};
	timer_t timer;

	if (NEXT(sigaction)(SIGUSR2, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &each, NULL) < 0)
		_exit(64);
}

static void
take_word(const char *word)
{
	static const char *const kinds[] = {
	    "fail=malloc:", "fail=call:", "fail=thread:"};

	for (int i = 0; i < 3; i++)
		if (strncmp(word, kinds[i], strlen(kinds[i])) == 0) {
			failing = i;
			fail_at = strtoul(word + strlen(kinds[i]), NULL, 10);
			return;
		}
	if (strncmp(word, "log=", 4) == 0) {
		snprintf(log_path, sizeof(log_path), "%s", word + 4);
	} else if (strncmp(word, "storm=", 6) == 0) {
		start_storm(strtol(word + 6, NULL, 10));
	} else if (strcmp(word, "short") == 0) {
		one_byte = true;
	} else {
		fprintf(stderr, "faulty: no such word: %s\n", word);
		_exit(64);
	}
}

__attribute__((constructor)) static void
start(void)
{
	const char *given = getenv("FAULTY");
	char words[1024], *rest = words, *word;
	bool first = true;

	snprintf(words, sizeof(words), "%s", given == NULL ? "" : given);
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			take_word(word);
	dl_iterate_phdr(add_object, &first);
}

/* --- memory -----------------------------------------------------------------
 */

void *
malloc(size_t bytes)
{
	return fails(MALLOC, HERE, "malloc", ENOMEM) ? NULL
						     : __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
	return fails(MALLOC, HERE, "calloc", ENOMEM)
	    ? NULL
	    : __libc_calloc(count, bytes);
}

void *
realloc(void *old, size_t bytes)
{
	return fails(MALLOC, HERE, "realloc", ENOMEM)
	    ? NULL
	    : __libc_realloc(old, bytes);
}

void *
reallocarray(void *old, size_t count, size_t bytes)
{
	size_t all;

	if (fails(MALLOC, HERE, "reallocarray", ENOMEM) ||
	    __builtin_mul_overflow(count, bytes, &all))
		return NULL;
	return __libc_realloc(old, all);
}

static char *
copy_text(const char *text, size_t bytes)
{
	char *copy = __libc_malloc(bytes + 1);

	if (copy != NULL) {
		memcpy(copy, text, bytes);
		copy[bytes] = '\0';
	}
	return copy;
}

char *
strdup(const char *text)
{
	return fails(MALLOC, HERE, "strdup", ENOMEM)
	    ? NULL
	    : copy_text(text, strlen(text));
}

char *
strndup(const char *text, size_t most)
{
	return fails(MALLOC, HERE, "strndup", ENOMEM)
	    ? NULL
	    : copy_text(text, strnlen(text, most));
}

/* --- system calls -----------------------------------------------------------
 */

static size_t
some_of(const void *caller, int fd, size_t bytes)
{
	return one_byte && fd != STDERR_FILENO && bytes > 1 && is_ours(caller)
	    ? 1
	    : bytes;
}

static bool
write_fails(const void *caller, int fd, const char *name)
{
	return fd != STDERR_FILENO && fails(CALL, caller, name, ENOSPC);
}

ssize_t
read(int fd, void *data, size_t bytes)
{
	if (fails(CALL, HERE, "read", EIO))
		return -1;
	return NEXT(read)(fd, data, some_of(HERE, fd, bytes));
}

ssize_t
__read_chk(int fd, void *data, size_t bytes, size_t room)
{
	if (fails(CALL, HERE, "read", EIO))
		return -1;
	return NEXT(__read_chk)(fd, data, some_of(HERE, fd, bytes), room);
}

ssize_t
write(int fd, const void *data, size_t bytes)
{
	if (write_fails(HERE, fd, "write"))
		return -1;
	return NEXT(write)(fd, data, some_of(HERE, fd, bytes));
}

ssize_t
writev(int fd, const struct iovec *pieces, int count)
{
	if (write_fails(HERE, fd, "writev"))
		return -1;
	if (one_byte && count > 0 && is_ours(HERE))
		return NEXT(write)(
		    fd, pieces->iov_base, some_of(HERE, fd, pieces->iov_len));
	return NEXT(writev)(fd, pieces, count);
}

ssize_t
send(int fd, const void *data, size_t bytes, int flags)
{
	if (fails(CALL, HERE, "send", ECONNRESET))
		return -1;
	return NEXT(send)(fd, data, some_of(HERE, fd, bytes), flags);
}

int
poll(struct pollfd *polls, nfds_t count, int timeout_ms)
{
	return fails(CALL, HERE, "poll", ENOMEM)
	    ? -1
	    : NEXT(poll)(polls, count, timeout_ms);
}

int
__poll_chk(struct pollfd *polls, nfds_t count, int timeout_ms, size_t room)
{
	return fails(CALL, HERE, "poll", ENOMEM)
	    ? -1
	    : NEXT(__poll_chk)(polls, count, timeout_ms, room);
}

int
open(const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	return fails(CALL, HERE, "open", EMFILE)
	    ? -1
	    : NEXT(open)(path, flags, mode);
}

int
__open_2(const char *path, int flags)
{
	return fails(CALL, HERE, "open", EMFILE) ? -1
						 : NEXT(__open_2)(path, flags);
}

int
openat(int folder, const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	return fails(CALL, HERE, "openat", EMFILE)
	    ? -1
	    : NEXT(openat)(folder, path, flags, mode);
}

/* It is closed all the same, as Linux does it. */
int
close(int fd)
{
	int result = NEXT(close)(fd);

	return fails(CALL, HERE, "close", EIO) ? -1 : result;
}

int
fcntl(int fd, int command, ...)
{
	va_list rest;
	void *argument;

	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	return fails(CALL, HERE, "fcntl", EMFILE)
	    ? -1
	    : NEXT(fcntl)(fd, command, argument);
}

int
pipe2(int ends[2], int flags)
{
	return fails(CALL, HERE, "pipe2", EMFILE) ? -1
						  : NEXT(pipe2)(ends, flags);
}

int
fstat(int fd, struct stat *st)
{
	return fails(CALL, HERE, "fstat", EIO) ? -1 : NEXT(fstat)(fd, st);
}

int
stat(const char *path, struct stat *st)
{
	return fails(CALL, HERE, "stat", EACCES) ? -1 : NEXT(stat)(path, st);
}

int
flock(int fd, int operation)
{
	return fails(CALL, HERE, "flock", ENOLCK) ? -1
						  : NEXT(flock)(fd, operation);
}

int
renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	return fails(CALL, HERE, "renameat", EIO)
	    ? -1
	    : NEXT(renameat)(from_folder, from, to_folder, to);
}

int
unlinkat(int folder, const char *path, int flags)
{
	return fails(CALL, HERE, "unlinkat", EIO)
	    ? -1
	    : NEXT(unlinkat)(folder, path, flags);
}

int
mkdir(const char *path, mode_t mode)
{
	return fails(CALL, HERE, "mkdir", ENOSPC) ? -1
						  : NEXT(mkdir)(path, mode);
}

int
sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
	return fails(CALL, HERE, "sigaction", EINVAL)
	    ? -1
	    : NEXT(sigaction)(number, new, old);
}

int
prctl(int option, ...)
{
	unsigned long more[4];
	va_list rest;

	va_start(rest, option);
	for (int i = 0; i < 4; i++)
		more[i] = va_arg(rest, unsigned long);
	va_end(rest);
	return fails(CALL, HERE, "prctl", EINVAL)
	    ? -1
	    : NEXT(prctl)(option, more[0], more[1], more[2], more[3]);
}

ssize_t
getrandom(void *data, size_t bytes, unsigned flags)
{
	return fails(CALL, HERE, "getrandom", ENOSYS)
	    ? -1
	    : NEXT(getrandom)(data, bytes, flags);
}

int
eventfd(unsigned value, int flags)
{
	return fails(CALL, HERE, "eventfd", EMFILE)
	    ? -1
	    : NEXT(eventfd)(value, flags);
}

int
signalfd(int fd, const sigset_t *mask, int flags)
{
	return fails(CALL, HERE, "signalfd", EMFILE)
	    ? -1
	    : NEXT(signalfd)(fd, mask, flags);
}

int
socket(int domain, int type, int protocol)
{
	return fails(CALL, HERE, "socket", EMFILE)
	    ? -1
	    : NEXT(socket)(domain, type, protocol);
}

int
connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
	return fails(CALL, HERE, "connect", ETIMEDOUT)
	    ? -1
	    : NEXT(connect)(fd, to, bytes);
}

int
setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	return fails(CALL, HERE, "setsockopt", ENOBUFS)
	    ? -1
	    : NEXT(setsockopt)(fd, level, name, value, bytes);
}

int
getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	return fails(CALL, HERE, "getsockopt", ENOBUFS)
	    ? -1
	    : NEXT(getsockopt)(fd, level, name, value, bytes);
}

/* --- threads ----------------------------------------------------------------
 */

struct started {
	void *(*routine)(void *);
	thrd_start_t routine_c11;
	void *argument;
};

static bool
thread_fails(const char *name)
{
	if (failing != THREAD || atomic_load(&running) + 1 < fail_at)
		return false;
	if (log_path[0] != '\0')
		write_log(name, fail_at);
	return true;
}

static struct started *
start_of(void *(*routine)(void *), thrd_start_t routine_c11, void *argument)
{
	struct started *started = __libc_malloc(sizeof(*started));

	if (started == NULL)
		_exit(64);
	*started = (struct started){routine, routine_c11, argument};
	atomic_fetch_add(&running, 1);
	return started;
}

static void *
run_thread(void *data)
{
	struct started started = *(struct started *)data;
	void *result;

	free(data);
	result = started.routine(started.argument);
	atomic_fetch_sub(&running, 1);
	return result;
}

static int
run_thread_c11(void *data)
{
	struct started started = *(struct started *)data;
	int result;

	free(data);
	result = started.routine_c11(started.argument);
	atomic_fetch_sub(&running, 1);
	return result;
}

int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
    void *(*routine)(void *), void *argument)
{
	if (thread_fails("pthread_create"))
		return EAGAIN;
	return NEXT(pthread_create)(
	    thread, attributes, run_thread, start_of(routine, NULL, argument));
}

/* librdkafka's way. */
int
thrd_create(thrd_t *thread, thrd_start_t routine, void *argument)
{
	if (thread_fails("thrd_create"))
		return thrd_error;
	return NEXT(thrd_create)(
	    thread, run_thread_c11, start_of(NULL, routine, argument));
}
