/*
 * script.h against a Redis whose replies are fixed: which calls are sent
 * again, and what comes of replies that no Redis would give.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "redis/device.h"
#include "redis/script.h"

/* A server in a process of its own, and a client of it. */
struct peer {
	char path[64], text[80];
	pid_t pid;
	int requests; /* what the server has read */
	struct nodes nodes;
	struct login login;
	struct client client;
};

/* Answers each request, whatever it is, with the next reply. */
static void
serve(int listener, int requests, const char *const *replies)
{
	int fd = accept(listener, NULL, NULL);
	char request[4096];

	for (; *replies != NULL; replies++) {
		ssize_t got = read(fd, request, sizeof(request));

		if (got <= 0 || write(requests, request, (size_t)got) != got ||
		    write(fd, *replies, strlen(*replies)) < 0)
			_exit(1);
	}
	_exit(0);
}

static void
peer_init(struct peer *peer, const char *const *replies)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), pipes[2];
	struct err err;

	*peer = (struct peer){0};
	snprintf(peer->path, sizeof(peer->path), "/tmp/qim-test-script.%ld",
	    (long)getpid());
	snprintf(peer->text, sizeof(peer->text), "unix:%s", peer->path);
	memcpy(address.sun_path, peer->path, sizeof(peer->path));
	unlink(peer->path);
	assert_int_equal(
	    bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pipe(pipes), 0);
	peer->pid = fork();
	if (peer->pid == 0)
		serve(listener, pipes[1], replies);
	close(listener);
	close(pipes[1]);
	peer->requests = pipes[0];
	assert_int_equal(nodes_parse(peer->text, &peer->nodes, &err), 0);
	assert_int_equal(client_init(&peer->client, &peer->nodes.all[0],
			     &peer->login, 5000, &err),
	    0);
}

/* Ends both; *text becomes what was requested after the PING. */
static void
peer_end(struct peer *peer, char *text, size_t bytes)
{
	size_t used = 0;
	ssize_t got;

	client_release(&peer->client);
	waitpid(peer->pid, NULL, 0);
	while ((got = read(peer->requests, text + used, bytes - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	close(peer->requests);
	nodes_release(&peer->nodes);
	unlink(peer->path);
	memmove(text, text + strlen("*1\r\n$4\r\nPING\r\n"),
	    used + 1 - strlen("*1\r\n$4\r\nPING\r\n"));
}

static void
add_calls(struct commands *commands, const struct script *script, int count)
{
	static const char *const arguments[] = {"a", "b", "c"};

	for (int i = 0; i < count; i++) {
		script_begin(commands, script, 1, 1);
		commands_text(commands, "KEY");
		commands_text(commands, arguments[i]);
	}
}

static const struct script known = {
    "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"};

/* Another client may have given the node the script between two calls. */
static void
test_some_unknown(void **unused)
{
	static const char *const replies[] = {"+PONG\r\n",
	    "-NOSCRIPT No matching script.\r\n:2\r\n-NOSCRIPT No\r\n",
	    ":1\r\n:3\r\n", NULL};
	struct peer peer;
	struct err err;
	char text[4096];

	(void)unused;
	peer_init(&peer, replies);
	add_calls(&peer.client.commands, &known, 3);
	assert_int_equal(script_run(&known, &peer.client, &err), 0);
	assert_int_equal(peer.client.reply_count, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(peer.client.replies[i].integer, i + 1);
	assert_int_equal(peer.client.commands.count, 0);
	peer_end(&peer, text, sizeof(text));
	assert_string_equal(strstr(text, "*5\r\n$4\r\nEVAL\r\n"),
	    "*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nKEY\r\n"
	    "$1\r\na\r\n"
	    "*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nKEY\r\n"
	    "$1\r\nc\r\n");
}

static void
test_errors(void **unused)
{
	static const char *const replies[] = {"+PONG\r\n",
	    ":1\r\n-NOSCRIPT No\r\n", "-OOM command not allowed\r\n", NULL};
	struct peer peer;
	struct err err;
	char text[4096];

	(void)unused;
	peer_init(&peer, replies);
	add_calls(&peer.client.commands, &known, 2);
	assert_int_equal(script_run(&known, &peer.client, &err), -1);
	assert_int_equal(err.code, EX_UNAVAILABLE);
	assert_non_null(strstr(err.text, ": KEY: OOM command"));
	peer_end(&peer, text, sizeof(text));
}

/* The node goes while the calls are sent again. */
static void
test_gone(void **unused)
{
	static const char *const replies[] = {
	    "+PONG\r\n", "-NOSCRIPT No\r\n", NULL};
	struct peer peer;
	struct err err;
	char text[4096];

	(void)unused;
	peer_init(&peer, replies);
	add_calls(&peer.client.commands, &known, 1);
	assert_int_equal(script_run(&known, &peer.client, &err), -1);
	assert_int_equal(err.code, EX_UNAVAILABLE);
	peer_end(&peer, text, sizeof(text));
}

static int
given_nothing(const struct given *given, struct err *err)
{
	(void)err;
	assert_int_equal(given->count, 0);
	return 0;
}

static int
show_nothing(const struct message *message, struct err *err)
{
	(void)message;
	(void)err;
	fail();
	return -1;
}

/* Not what our scripts return: refused, or no entries. */
static void
test_other_forms(void **unused)
{
	static const char *const forms[] = {":1\r\n", "$1\r\nx\r\n", "*0\r\n",
	    "$-1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n",
	    "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
	    "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"};

	(void)unused;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const char *replies[] = {"+PONG\r\n", forms[i], NULL};
		struct peer peer;
		struct reader reader = {.user = slice_of("u")};
		struct err err;
		char text[4096];

		peer_init(&peer, replies);
		reader.client = peer.client;
		assert_int_equal(device_batch(&reader, slice_of("d"), 5,
				     given_nothing, show_nothing, &err),
		    -1);
		assert_int_equal(err.code, EX_DATAERR);
		peer.client = reader.client;
		peer_end(&peer, text, sizeof(text));
	}
}

static void
test_cursors(void **unused)
{
	struct reply items[2] = {{.type = REPLY_TEXT,
	    .text = {(const uint8_t *)"18446744073709551615", 20}}};
	struct reply page = {.type = REPLY_ARRAY, .items = items, .count = 2};
	char cursor[REPLY_CURSOR_BYTES] = "7";

	(void)unused;
	assert_true(reply_cursor(&page, cursor));
	assert_string_equal(cursor, "18446744073709551615");
	items[0].text = slice_of("184467440737095516150000");
	assert_false(reply_cursor(&page, cursor));
	items[0].type = REPLY_INTEGER;
	assert_false(reply_cursor(&page, cursor));
	page.count = 0;
	assert_false(reply_cursor(&page, cursor));
	page.type = REPLY_NIL;
	assert_false(reply_cursor(&page, cursor));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_some_unknown),
	    cmocka_unit_test(test_errors),
	    cmocka_unit_test(test_gone),
	    cmocka_unit_test(test_other_forms),
	    cmocka_unit_test(test_cursors),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
