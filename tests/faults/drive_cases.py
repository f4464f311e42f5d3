"""The programs that drive.py runs: a class each, by its name in CASES.

A new program gets a class here, or in drive_mailboxes where it has to do with
mailboxes; what it doesn't say of itself is as Case says it.
"""
import json
import os
import re
import sys
import tempfile

from drive_base import tool, want
from drive_case import CONNECT_MS, Case
from drive_mailboxes import (MailboxAck, MailboxApply, MailboxAudit, MailboxBox,
                             MailboxConversations, MailboxHistory, MailboxTrim)
from drive_stores import BROKERS, end_of
from drive_streams import (batches, dispatches_stream, message,
                           receipts_stream, records_stream)


class StreamDump(Case):
    name, is_stream = "stream-dump", False
    kind = "records"

    def input(self):
        return records_stream()


class StreamMake(Case):
    name = "stream-make"

    def input(self):
        return tool("stream-dump", data=records_stream())

    def batches_in(self, data):
        return data.count(b'{"batch"')


class StreamTap(Case):
    name, kind = "stream-tap", "records"
    folder = None

    def input(self):
        return records_stream()

    def prepare(self):
        self.folder = tempfile.TemporaryDirectory()

    @property
    def command(self):
        return [self.name, os.path.join(self.folder.name, "tap")]


class FanoutPlan(Case):
    name = "fanout-plan"
    kind = "records"

    def input(self):
        return records_stream()


class FanoutFigures(FanoutPlan):
    """With figures, which end nothing once they have begun."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    @property
    def command(self):
        return [self.name, "--stats", "/dev/null", "--prom", self.folder.name]


class DispatchProduce(Case):
    name, appended = "dispatch-produce", 0
    kind = "dispatches"

    def input(self):
        return dispatches_stream()

    @property
    def command(self):
        return [self.name, "-b", BROKERS, "-t", "d", "--connect-ms", CONNECT_MS,
                "-X", "message.timeout.ms=20000"]

    def prepare(self):
        self.appended = end_of("d")

    def check(self, code, found, most):
        receipted = sum(frame[b"out"] for frame in batches(found))
        appended = end_of("d") - self.appended
        want(appended >= receipted, receipted, "in receipts,", appended,
             "in the topic")


class OffsetCommit(Case):
    """The one partition of o has at least three records."""
    name, is_stream = "offset-commit", False

    def input(self):
        return receipts_stream("g")

    @property
    def command(self):
        return [self.name, "-b", BROKERS, "-g", "g", "--connect-ms", CONNECT_MS]

    def set(self, *more):
        return tool(*self.command, "-q", "--set", "o:0=0", *more)

    def prepare(self):
        self.set()

    def check(self, code, found, most):
        committed = int(re.search(rb"(\d+|none) -> 0", self.set("--dry-run"))[1])
        want(committed <= most, committed, "committed of", most)
        want(code != 0 or committed == most, committed, "committed with 0")


class OutboxRead(Case):
    name, parallel = "outbox-read", 4

    def batches_in(self, data):
        return sys.maxsize

    @property
    def command(self):
        return [self.name, "-b", BROKERS, "-t", "o", "-o", "beginning", "-e",
                "--batch", "2", "--connect-ms", CONNECT_MS]


class OutboxWrite(Case):
    name, is_stream, appended = "outbox-write", False, 0

    def input(self):
        return "".join(json.dumps(message(seq)) + "\n"
                       for seq in (1, 2, 3)).encode()

    @property
    def command(self):
        return [self.name, "-q", "-b", BROKERS, "-t", "w", "--connect-ms",
                CONNECT_MS]

    def prepare(self):
        self.appended = end_of("w")

    def check(self, code, found, most):
        want(code != 0 or end_of("w") - self.appended == 3, "0 without all")


class LogAudit(Case):
    name, is_stream, parallel = "log-audit", False, 4

    @property
    def command(self):
        return [self.name, "-q", "-b", BROKERS, "-t", "o", "--connect-ms",
                CONNECT_MS]


class LogKeep(Case):
    """Into a folder, in several files.  What the folder doesn't take is said on
    stderr: no line is lost but those that couldn't be read."""
    name, is_stream, input_fd = "log-keep", False, 5
    folder, err = None, ""

    def input(self):
        return b"".join(b"log-keep: info: %03d %s\n" % (i, b"x" * 100)
                        for i in range(70))

    def prepare(self):
        self.folder = tempfile.TemporaryDirectory()

    @property
    def command(self):
        return [self.name, "--bytes", "4096", "--files", "4", "--dir",
                self.folder.name, "--last-dir", self.folder.name, "a=5"]

    def said(self, text):
        """Lines for the folder have a time in front."""
        self.err = re.sub(r"^\d{4}-\S+Z ", "", text, flags=re.M)
        return self.err

    def errors(self, text):
        """Where it can't read it warns, and goes on with the others."""
        return super().errors(text) + re.findall(
            r"^log-keep: warning: a: (?:read of|input: ).*$", text, re.M)

    def kept(self, name):
        with open(os.path.join(self.folder.name, name), "rb") as file:
            return file.read()

    def check(self, code, found, most):
        names = os.listdir(self.folder.name)
        kept = b"\n".join(self.kept(name) for name in names
                          if name.startswith("current"))
        kept = re.findall(rb"^\S+Z (log-keep: info: .*)$", kept, re.M) + \
            [line.encode() for line in self.err.splitlines()
             if line.startswith("log-keep: info: ")]
        lines = self.data.splitlines()
        want(sorted(kept) == lines[:len(kept)], "kept", sorted(kept))
        want(code != 0 or len(kept) == len(lines), "0 with", len(kept), "lines")
        last = "a.last" in names and self.kept("a.last")
        want(code != 0 or last == lines[-1] + b"\n" or "last" in self.err,
             "the last line is", last)


CASES = {
    "log-keep": LogKeep,
    "fanout-plan/figures": FanoutFigures, "stream-tap": StreamTap,
    "stream-dump": StreamDump, "stream-make": StreamMake,
    "fanout-plan": FanoutPlan, "dispatch-produce": DispatchProduce,
    "offset-commit": OffsetCommit, "outbox-read": OutboxRead,
    "outbox-write": OutboxWrite, "mailbox-apply": MailboxApply,
    "mailbox-read": MailboxBox, "mailbox-read/history": MailboxHistory,
    "mailbox-read/conversations": MailboxConversations,
    "mailbox-ack": MailboxAck, "mailbox-trim": MailboxTrim,
    "log-audit": LogAudit, "mailbox-audit": MailboxAudit}
