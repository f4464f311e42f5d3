#include "base/secret.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* As in linux/posix_acl_xattr.h, whose structures end in an array that the
 * standard doesn't know. All little-endian. */
#define ACL_NAME "system.posix_acl_access"
#define ACL_VERSION 2
#define ACL_USER_OBJ 0x01
#define ACL_USER 0x02
#define ACL_MASK 0x10
#define ACL_ENTRIES_MAX 16

struct acl_entry {
	uint16_t tag;
	uint16_t rights;
	uint32_t id;
};

struct acl {
	uint32_t version;
	struct acl_entry entries[ACL_ENTRIES_MAX];
};

static bool
is_ours(const struct acl_entry *entry)
{
	switch (le16toh(entry->tag)) {
	case ACL_USER_OBJ:
	case ACL_MASK: /* takes rights, gives none */
		return true;
	case ACL_USER:
		return le32toh(entry->id) == geteuid();
	default:
		return false;
	}
}

/* True when the file has a list that gives rights to nobody but its owner and
 * this user.  What is longer, or can't be read, is taken for more. */
static bool
has_list_for_us(int fd)
{
	struct acl acl;
	ssize_t bytes = fgetxattr(fd, ACL_NAME, &acl, sizeof(acl));
	size_t count;

	if (bytes < (ssize_t)sizeof(acl.version) ||
	    le32toh(acl.version) != ACL_VERSION)
		return false;
	count = ((size_t)bytes - sizeof(acl.version)) / sizeof(acl.entries[0]);
	for (size_t i = 0; i < count; i++)
		if (acl.entries[i].rights != 0 && !is_ours(&acl.entries[i]))
			return false;
	return true;
}

int
secret_check(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, EX_IOERR, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, EX_CONFIG, "%s: not a regular file", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, EX_CONFIG,
		    "%s: belongs to uid %u, wants uid %u or 0", path,
		    (unsigned)st.st_uid, (unsigned)geteuid());
	/* With a list the group's bits are its mask. */
	if ((st.st_mode & 07) != 0 ||
	    ((st.st_mode & 070) != 0 && !has_list_for_us(fd)))
		return err_set(err, EX_CONFIG,
		    "%s: mode %04o lets others read it, wants 0600", path,
		    (unsigned)(st.st_mode & 07777));
	return 0;
}

int
secret_hide(struct err *err)
{
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_set(err, EX_OSERR, "prctl: not dumpable: refused");
	return 0;
}
