#include "redis/login.h"

#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define PASSWORD_BYTES_MAX 4096

static int
take_line(struct login *login, const char *path, size_t bytes, struct err *err)
{
	char *text = login->password;

	if (bytes > 0 && text[bytes - 1] == '\n')
		text[--bytes] = '\0';
	if (bytes == 0)
		return err_set(err, EX_CONFIG, "%s: empty", path);
	if (memchr(text, '\n', bytes) != NULL ||
	    memchr(text, '\0', bytes) != NULL)
		return err_set(err, EX_CONFIG,
		    "%s: wants one line, the password, and nothing else", path);
	return 0;
}

int
login_init(struct login *login, const char *user, const char *password_file,
    struct err *err)
{
	size_t bytes;

	*login = (struct login){.user = user};
	if (password_file == NULL && user == NULL)
		return 0;
	if (password_file == NULL)
		return err_set(
		    err, EX_USAGE, "--user: wants --password-file too");
	login->password =
	    io_read_file(password_file, PASSWORD_BYTES_MAX, true, &bytes, err);
	if (login->password == NULL)
		return -1;
	if (take_line(login, password_file, bytes, err) == 0)
		return 0;
	login_release(login);
	return -1;
}

void
login_release(struct login *login)
{
	if (login->password != NULL)
		explicit_bzero(login->password, strlen(login->password));
	free(login->password);
	login->password = NULL;
}

void
login_commands(const struct login *login, struct commands *commands)
{
	if (login->password == NULL)
		return;
	if (login->user == NULL)
		commands_add(commands, "AUTH", login->password, (char *)NULL);
	else
		commands_add(commands, "AUTH", login->user, login->password,
		    (char *)NULL);
}
