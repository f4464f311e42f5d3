"""The cases of drive.py that have mailboxes in Redis, which they empty and fill.

Of four partitions, with what mailbox_stream() brings.
"""
from drive_base import tool, want
from drive_case import CONNECT_MS, Case
from drive_stores import BROKERS, REDIS, Redis, end_of
from drive_streams import batches, mailbox_stream, plan_stream


class MailboxApply(Case):
    name = "mailbox-apply"
    kind = "records"

    def __init__(self):
        super().__init__()
        self.redis = Redis()
        self.learn()

    def learn(self):
        self.prepare()
        tool(*self.command, data=self.data)
        self.content = self.redis.content()

    def input(self):
        return mailbox_stream()

    def prepare(self):
        self.redis("FLUSHALL")

    @property
    def command(self):
        return [self.name, "-q", "-n", "4", "-r", REDIS, "--connect-ms",
                CONNECT_MS]

    def same(self, frame):
        frame.pop(b"out", None)  # what this run has written or found written
        return frame

    def check(self, code, found, _):
        marks = self.redis.marks()
        for frame in batches(found):
            for _, partition, _, following in frame[b"src"]:
                want(marks.get(partition, 0) >= following, "a receipt up to",
                     following, "with the marks at", marks)
        tool(*self.command, data=self.data)
        want(self.redis.content() == self.content,
             "the next run has another result")


class MailboxTool(Case):
    """One that works on a small mailbox: more is its arguments."""
    is_stream = False
    redis = None

    def __init__(self):
        super().__init__()
        self.prepare()
        tool(*self.command)
        self.forget()
        self.content = self.redis.content()

    def forget(self):
        """What of its content differs from run to run."""

    def prepare(self):
        self.redis = self.redis or Redis()
        self.redis("FLUSHALL")
        tool("mailbox-apply", "-q", "-n", "4", "-r", REDIS,
             data=mailbox_stream())

    @property
    def command(self):
        return [self.name, "-q", "-n", "4", "-r", REDIS, "--connect-ms",
                CONNECT_MS, *self.more]

    def check(self, code, found, most):
        if code != 0:
            tool(*self.command)
        self.forget()
        want(self.redis.content() == self.content,
             "the next run has another result")


class MailboxRead(MailboxTool):
    """It changes nothing: once filled is enough."""
    name = "mailbox-read"

    def __init__(self):
        super().prepare()
        super().__init__()

    def prepare(self):
        pass


class MailboxBox(MailboxRead):
    more = ("box", "-u", "lou")


class MailboxHistory(MailboxRead):
    more = ("history", "-u", "lou", "--conversation", "c")


class MailboxConversations(MailboxRead):
    more = ("conversations", "-u", "lou")


class MailboxAck(MailboxTool):
    name = "mailbox-ack"
    more = ("-u", "lou", "--read", "--conversation", "c", "--seq", "2")


class MailboxTrim(MailboxTool):
    name = "mailbox-trim"
    more = ("-t", "dispatch", "--box-count", "1", "--bodies", "1")

    def forget(self):
        """It says what it has done until then, and when in a key."""
        for p in range(4):
            self.redis("DEL", "qim:{%d}:times" % p)

    def same_text(self, code, text):
        return text if code == 0 else b""


class MailboxAudit(Case):
    """Of the topic dispatch, of four partitions, which this fills."""
    name, is_stream = "mailbox-audit", False

    def __init__(self):
        super().__init__()
        if end_of("dispatch:3") == 0:
            tool("dispatch-produce", "-q", "-b", BROKERS, "-t", "dispatch",
                 data=plan_stream())
        Redis()("FLUSHALL")
        tool("mailbox-apply", "-q", "-n", "4", "-r", REDIS,
             data=mailbox_stream())

    @property
    def command(self):
        return [self.name, "-q", "-b", BROKERS, "-t", "dispatch", "-r", REDIS,
                "--drained", "--connect-ms", CONNECT_MS]
