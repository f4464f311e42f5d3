/*
 * secret: which files may hold a secret, by mode and by access list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/secret.h"

#define USER_OBJ 0x01
#define USER 0x02
#define GROUP_OBJ 0x04
#define GROUP 0x08
#define MASK 0x10
#define OTHER 0x20
#define NO_ID UINT32_MAX

struct entry {
	uint16_t tag, rights;
	uint32_t id;
};

static char path[] = "/tmp/qim-test-secret-XXXXXX";
static int file = -1;

static int
make_file(void **state)
{
	(void)state;
	file = mkstemp(path);
	return file < 0;
}

static int
remove_file(void **state)
{
	(void)state;
	close(file);
	return unlink(path);
}

static int
code(void)
{
	struct err err = {0};

	return secret_check(file, path, &err) < 0 ? err.code : 0;
}

static void
test_modes(void **state)
{
	static const mode_t fine[] = {0600, 0400, 0700, 0},
			    bad[] = {0640, 0604, 0660, 0444, 0601, 0610};

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		assert_int_equal(fchmod(file, fine[i]), 0);
		assert_int_equal(code(), 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fchmod(file, bad[i]), 0);
		assert_int_equal(code(), EX_CONFIG);
	}
	assert_int_equal(fchmod(file, 0600), 0);
}

/* Gives the file a list as systemd does for a credential, and one entry with
 * other rights; the code. */
static int
code_of_list(uint16_t tag, uint32_t id, uint16_t rights)
{
	struct {
		uint32_t version;
		struct entry entries[6];
	} acl = {htole32(2),
	    {{USER_OBJ, 4, NO_ID}, {USER, 4, geteuid()}, {GROUP_OBJ, 0, NO_ID},
		{GROUP, 0, 4242}, {MASK, 4, NO_ID}, {OTHER, 0, NO_ID}}};
	struct stat st;

	for (size_t i = 0; i < 6; i++) {
		struct entry *entry = &acl.entries[i];

		if (entry->tag == tag) {
			entry->rights = rights;
			entry->id = id;
		}
		entry->tag = htole16(entry->tag);
		entry->rights = htole16(entry->rights);
		entry->id = htole32(entry->id);
	}
	assert_int_equal(
	    fsetxattr(file, "system.posix_acl_access", &acl, sizeof(acl), 0),
	    0);
	assert_int_equal(fstat(file, &st), 0);
	assert_int_equal(st.st_mode & 0770, 0440);
	return code();
}

static void
test_lists(void **state)
{
	(void)state;
	assert_int_equal(code_of_list(USER, geteuid(), 4), 0);
	assert_int_equal(code_of_list(USER, geteuid() + 1, 0), 0);
	assert_int_equal(code_of_list(USER, geteuid() + 1, 4), EX_CONFIG);
	assert_int_equal(code_of_list(GROUP_OBJ, NO_ID, 4), EX_CONFIG);
	assert_int_equal(code_of_list(GROUP, 4242, 4), EX_CONFIG);
	assert_int_equal(code_of_list(OTHER, NO_ID, 4), EX_CONFIG);
	assert_int_equal(code_of_list(OTHER, NO_ID, 1), EX_CONFIG);
}

/* More entries than are looked at are taken for more rights. */
static void
test_long_list(void **state)
{
	struct {
		uint32_t version;
		struct entry entries[40];
	} acl = {.version = htole32(2)};

	(void)state;
	acl.entries[0] = (struct entry){htole16(USER_OBJ), htole16(4), NO_ID};
	for (uint32_t i = 1; i < 37; i++)
		acl.entries[i] =
		    (struct entry){htole16(USER), 0, htole32(5000 + i)};
	acl.entries[37] = (struct entry){htole16(GROUP_OBJ), 0, NO_ID};
	acl.entries[38] = (struct entry){htole16(MASK), htole16(4), NO_ID};
	acl.entries[39] = (struct entry){htole16(OTHER), 0, NO_ID};
	assert_int_equal(
	    fsetxattr(file, "system.posix_acl_access", &acl, sizeof(acl), 0),
	    0);
	assert_int_equal(code(), EX_CONFIG);
}

static void
test_kinds(void **state)
{
	int fds[2];
	struct err err;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(secret_check(fds[0], "pipe", &err), -1);
	assert_int_equal(err.code, EX_CONFIG);
	assert_string_equal(err.text, "pipe: not a regular file");
	close(fds[0]);
	close(fds[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_modes),
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_long_list),
	    cmocka_unit_test(test_kinds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name(
	    "secret", tests, make_file, remove_file);
}
