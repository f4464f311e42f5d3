#!/usr/bin/env python3
"""drive.py: a program run again and again, each time with another fault.

    drive.py torn PROGRAM [EVERY]         its input ends after N bytes, for each N
    drive.py flipped PROGRAM [EVERY]      a bit of its input is another, for each
    drive.py malloc PROGRAM [EVERY]       the K-th allocation fails, for each K
    drive.py call PROGRAM [EVERY]         the K-th system call fails, for each K
    drive.py thread PROGRAM               K - 1 threads are all it gets
    drive.py files PROGRAM                K descriptors are all it gets
    drive.py rough PROGRAM                one byte a call, and a storm of signals
    drive.py silent PROGRAM               stderr takes nothing
    drive.py stopped PROGRAM              the reader of a long output sleeps

EVERY: of the cases one in so many, from a random one on.  BROKERS is a mock broker with the topics o
and d, of one partition each, and REDIS host:port of an empty server of one's
own, where the program needs it.  LD_PRELOAD of faulty.so is FAULTY_SO.

Of each run: the exit code is one of those the fault may have, with one line of
error (none with 0); the output is that of a run without fault, times excepted,
or where the exit isn't 0 a beginning of it without the end; each receipt is of
a batch that came whole and is where it says; and what was begun is finished by
the next run.  Prints how many runs ended how.
"""
import collections
import concurrent.futures
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import msgpack

HANGS_S = 60
CONNECT_MS = "20000"
HURRIED_MS = "1500"     # for what can't connect: too few descriptors
READER_SLEEPS_S = 0.5
FEED_PIECES = 8
FEED_PAUSE_S = 0.005
MEMORY_MOST_KB = 64 * 1024
HERE = os.path.dirname(os.path.abspath(__file__))
BROKERS = os.environ.get("BROKERS", "")
REDIS = os.environ.get("REDIS", "")
SO = os.environ.get("FAULTY_SO", "")


class Wrong(Exception):
    """What isn't as it must be."""


def want(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


def tool(*command, data=b""):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE,
                          check=True).stdout


# --- streams ------------------------------------------------------------------

def frames(data):
    """The whole frames of a stream, without what differs from run to run."""
    found, at = [], 0
    while at + 5 <= len(data):
        after = at + 5 + int.from_bytes(data[at + 1:at + 5], "big")
        if data[at] != 0xC6 or after > len(data):
            break
        fields = msgpack.unpackb(data[at + 5:after], raw=True,
                                 strict_map_key=False)[1]
        fields.pop(b"run", None)
        fields.pop(b"at", None)
        found.append(fields)
        at = after
    return found


def batches(found):
    return [frame for frame in found if b"src" in frame]


def stream_of(lines):
    return tool("stream-make", data="\n".join(map(json.dumps, lines)).encode())


def many(kind, count=3000):
    """A stream of so many batches without a record."""
    more = {"partitions": 1} if kind == "dispatches" else {}
    return stream_of([hello(kind, **more), *(
        batch(i + 1, i, i + 1, rec=[]) for i in range(count)),
        {"end": True, "batches": count, "records": 0}])


def hello(kind, **more):
    return {"qim": 1, "minor": 0, "kind": kind, "from": "test", "run": 7,
            "topic": "o", "group": "g", "start": [["o", 0, 0, "stored"]],
            **more}


def batch(number, start, following, **more):
    return {"batch": number, "src": [["o", 0, start, following]], "at": [],
            **more}


def message(seq):
    return {"message_id": f"m{seq}", "conversation_id": "c",
            "conversation_seq": seq, "sender": "lou", "created_at": seq,
            "payload": {"text": f"text {seq}"},
            "recipients": ["lou", "bob", "pat"]}


def records_stream():
    value = [json.dumps(message(seq)) for seq in (1, 2, 3)]
    return stream_of([
        hello("records"), batch(1, 0, 0, rec=[]),
        batch(2, 0, 2, rec=[[0, i, 1, "k", value[i], None] for i in (0, 1)]),
        batch(3, 2, 4, rec=[[0, 3, 1, "k", value[2], [["h", "x"]]]]),
        {"end": True, "batches": 3, "records": 3}])


def dispatches_stream():
    def record(i):
        return [None, 0, "k", f"value {i}", None, [0, i]]
    return stream_of([
        hello("dispatches", partitions=1),
        batch(1, 0, 2, rec=[record(0), record(1)]), batch(2, 2, 3, rec=[]),
        batch(3, 3, 4, rec=[record(3)]),
        {"end": True, "batches": 3, "records": 3}])


def receipts_stream(group):
    return stream_of([
        hello("receipts", durable=True) | {"group": group},
        *(batch(i, i - 1, i, **{"in": 1, "out": 1, "dead": 0, "bytes": 1})
          for i in (1, 2, 3)),
        {"end": True, "batches": 3, "records": 3}])


def as_records(frame):
    """What a reader of the dispatch topic gives for a frame of dispatches."""
    if "kind" in frame:
        frame["kind"], frame["topic"] = "records", "dispatch"
        frame["start"] = [["dispatch", p, 0, "stored"] for p in range(4)]
    elif "rec" in frame:
        record = frame["rec"]
        number = frame["batch"] - 2  # one record a partition and message
        partitions = [some[1] for some in record]
        frame["src"] = [["dispatch", p, number, number + 1]
                        for p in partitions] or \
            [["dispatch", p, 0, 0] for p in range(4)]
        frame["rec"] = [[i, number, 1, *some[2:5]]
                        for i, some in enumerate(record)]
    return frame


def plan_stream():
    """Dispatches for four partitions: none, then three messages of a batch
    each."""
    value = [json.dumps(message(seq)) for seq in (1, 2, 3)]
    return tool("fanout-plan", "-q", "-n", "4", data=stream_of([
        hello("records"), batch(1, 0, 0, rec=[]),
        *(batch(i + 2, i, i + 1, rec=[[0, i, 1, "k", value[i], None]])
          for i in range(3)), {"end": True, "batches": 4, "records": 3}]))


def mailbox_stream():
    """The same as records of the topic dispatch."""
    lines = tool("stream-dump", data=plan_stream()).splitlines()
    return stream_of(map(as_records, map(json.loads, lines)))


def end_of(topic):
    """The end offset of a TOPIC's partition 0, or of TOPIC:PARTITION."""
    where = topic if ":" in topic else topic + ":0"
    return int(tool("kcat", "-Q", "-b", BROKERS, "-t", where + ":-1").split()[-1])


# --- Redis --------------------------------------------------------------------

class Redis:
    def __init__(self):
        host, port = REDIS.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        text = b"*%d\r\n" % len(words)
        for word in words:
            word = str(word).encode()
            text += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(text)
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        if line[:1] == b"$":
            return None if line[1:3] == b"-1" else \
                self.file.read(int(line[1:]) + 2)[:-2]
        want(line[:1] in b"+:", "redis says", line)
        return line[1:-2]

    def content(self):
        self("EVAL", "for _, k in ipairs(redis.call('keys', '*:round:*')) "
             "do redis.call('del', k) end", 0)
        return self("DEBUG", "DIGEST")

    def marks(self):
        found = {}
        for key in self("KEYS", "qim:{*}:mark"):
            partition = int(key.split(b"{")[1].split(b"}")[0])
            found[partition] = int(
                self("ZRANGE", key.decode(), 0, -1, "WITHSCORES")[1])
        return found


# --- the programs -------------------------------------------------------------

class Case:
    """A program, what it reads, and what must be after each run."""
    input_fd = 0          # where it reads it
    is_stream = True      # what it writes
    parallel = 1          # runs at once: those of a broker wait mostly

    def __init__(self):
        self.data = self.input()

    def input(self):
        return b""

    def learn(self):
        """What a run without fault leaves, with these data."""

    def prepare(self):
        """Before each run."""

    @property
    def command(self):
        return [self.name]

    def batches_in(self, data):
        """How many have come whole."""
        return len(batches(frames(data)))

    def same(self, frame):
        """What of a frame is the same in each run."""
        return frame

    def same_text(self, code, text):
        """What of an output that isn't a stream is the same."""
        return text

    def said(self, text):
        """What it has said of itself on stderr."""
        return text

    def errors(self, text):
        """The lines that say what the exit code is for."""
        return re.findall(rf"^{self.name}: error: .*$", text, re.M)

    def check(self, code, found, most):
        """After each run: found are its frames, or its bytes, most is how
        many batches it was given."""


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


class FanoutPlan(Case):
    name = "fanout-plan"
    kind = "records"

    def input(self):
        return records_stream()


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


class FanoutFigures(FanoutPlan):
    """With figures, which end nothing once they have begun."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    @property
    def command(self):
        return [self.name, "--stats", "/dev/null", "--prom", self.folder.name]


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


# --- runs ---------------------------------------------------------------------

Run = collections.namedtuple("Run", "code out err")


def feed(file, data):
    """In pieces that are waited for, so that signals come into the waiting."""
    step = len(data) // FEED_PIECES + 1
    try:
        for at in range(0, len(data), step):
            time.sleep(FEED_PAUSE_S)
            file.write(data[at:at + step])
            file.flush()
        file.close()
    except BrokenPipeError:
        pass


def run(command, data, faulty=None, err=subprocess.PIPE, files=None,
        stop=False, slowly=False, input_fd=0):
    env = dict(os.environ)
    if faulty is not None:
        env |= {"LD_PRELOAD": SO, "FAULTY": faulty}
    if files is not None:
        command = ["prlimit", f"--nofile={files}", *command]
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE if slowly else file, env=env,
            stderr=err, stdout=subprocess.PIPE, close_fds=input_fd == 0,
            preexec_fn=(lambda: os.dup2(0, input_fd)) if input_fd else None)
        if slowly:
            threading.Thread(target=feed, args=(process.stdin, data)).start()
            process.stdin = None  # it is the thread's
        try:
            if stop:
                time.sleep(READER_SLEEPS_S)
                want(process.poll() is None, "it hasn't waited for its reader")
            out, text = process.communicate(timeout=HANGS_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            raise Wrong(f"no end within {HANGS_S} s") from None
    return Run(process.returncode, out, (text or b"").decode())


def check_run(case, result, clean, codes):
    code, said = result.code, case.said(result.err)
    errors = case.errors(said)
    want(code in codes, "exit", code, said)
    want(len(errors) == (code != 0), "exit", code, "with", errors)
    want(all(line.startswith(case.name + ": ")
             for line in said.splitlines()), said)
    if not case.is_stream:
        out = case.same_text(code, result.out)
        want(clean.out.startswith(out), "output", out)
        want(code != 0 or clean.out == result.out, "output", result.out)
        return result.out
    found = list(map(case.same, frames(result.out)))
    whole = list(map(case.same, frames(clean.out)))
    want(found == whole[:len(found)], "frames", found, "instead of", whole)
    want((len(found) == len(whole)) >= (code == 0), "0 without an end")
    want(code in (0, 74) or len(found) < len(whole), "an end with", code)
    return found


def hurried(command):
    return [HURRIED_MS if word == CONNECT_MS else word for word in command]


def one(case, clean, label, data, faulty, codes, most, **more):
    """A run; its exit code, or what is wrong.  Most is how many batches it
    gets whole."""
    try:
        case.prepare()
        command = hurried(case.command) if "files" in more else case.command
        result = run(command, data, faulty, input_fd=case.input_fd, **more)
        found = check_run(case, result, clean, codes)
        if case.is_stream:
            want(len(batches(found)) <= most, len(batches(found)),
                 "batches of", most)
        case.check(result.code, found, most)
        return result.code
    except Wrong as wrong:
        return f"{label}: {wrong}"


def torn(case, clean, every):
    """Batches that came whole are the most there may be in the output."""
    for count in range(random.randrange(every), len(case.data), every):
        data = case.data[:count]
        yield (f"after {count} bytes", data, None, (75,),
               case.batches_in(data))


def flipped(case, clean, every):
    for bit in range(random.randrange(every), 8 * len(case.data), every):
        data = bytearray(case.data)
        data[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(data), None, (65, 75), \
            case.batches_in(case.data[:bit // 8])


def tell(case, fault, results):
    counts = collections.Counter(r for r in results if isinstance(r, int))
    ends = ", ".join(f"{code} x {count}"
                     for code, count in sorted(counts.items()))
    print(f"{fault} {sys.argv[2]}: {sum(counts.values())} runs: {ends}")
    bad = [r for r in results if not isinstance(r, int)]
    for text in bad[:5]:
        print(f"wrong: {text}")
    if "QIM_FAULTS_TALLY" in os.environ:
        with open(os.environ["QIM_FAULTS_TALLY"], "a") as tally:
            tally.write(f"{len(results)} 0 0 0\n")
    return not bad and counts


def run_all(case, clean, cases):
    if case.parallel == 1:
        return [one(case, clean, *some) for some in cases]
    with concurrent.futures.ThreadPoolExecutor(case.parallel) as pool:
        return list(pool.map(lambda some: one(case, clean, *some), cases))


def failing(case, clean, kind, every):
    """K = 1 and on, about every EVERY-th, until none fails."""
    codes = {"malloc": (0, 71), "thread": (0, 71),
             "call": (0, 66, 69, 71, 74, 75)}[kind]
    results, last, number = [], False, 1
    with tempfile.TemporaryDirectory() as folder:
        while not last:
            cases, logs = [], []
            for _ in range(case.parallel):
                logs.append(f"{folder}/{number}")
                cases.append((f"{kind} {number}", case.data,
                              f"fail={kind}:{number} log={logs[-1]}", codes,
                              case.batches_in(case.data)))
                number += random.randint(1, 2 * every - 1)
            for log, result in zip(logs, run_all(case, clean, cases)):
                last |= not os.path.exists(log)
                if not isinstance(result, int) and os.path.exists(log):
                    result += " (" + open(log).read().strip() + ")"
                results.append(result)
    want(len(results) > 1, "nothing has failed")
    return results


def few_files(case, clean):
    """Of 3 the dynamic linker gets none."""
    most = case.batches_in(case.data)
    return [one(case, clean, f"{files} files", case.data, None,
                (0, 69, 71, 75), most, files=files)
            for files in range(4, 13, 2)]


def silent(case, clean):
    with open("/dev/full", "wb") as full:
        return [one(case, clean, "/dev/full", case.data, None, (0,),
                    case.batches_in(case.data), err=full)]


def rough(case, clean):
    most = case.batches_in(case.data)
    return [one(case, clean, words, case.data, words, (0,), most, slowly=True)
            for words in ("short", "storm=100", "short storm=100")]


def stopped(case):
    case.data = many(case.kind)
    case.learn()
    case.prepare()
    clean = run(case.command, case.data)
    want(clean.code == 0 and len(clean.out) > 100000, clean.err, len(clean.out))
    return [one(case, clean, f"stopped {words}", case.data, words, (0,),
                case.batches_in(case.data), stop=True)
            for words in (None, "storm=100")]


def main():
    fault, case = sys.argv[1], CASES[sys.argv[2]]()
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    case.prepare()
    clean = run(case.command, case.data, input_fd=case.input_fd)
    want(clean.code == 0, "without fault:", clean)
    if fault in ("malloc", "call", "thread"):
        results = failing(case, clean, fault, every)
    elif fault == "files":
        results = few_files(case, clean)
    elif fault == "silent":
        results = silent(case, clean)
    elif fault == "stopped":
        results = stopped(case)
    elif fault == "rough":
        results = rough(case, clean)
    else:
        results = run_all(case, clean, list(
            {"torn": torn, "flipped": flipped}[fault](case, clean, every)))
    memory_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    want(memory_kb < MEMORY_MOST_KB, "memory:", memory_kb, "kB")
    sys.exit(0 if tell(case, fault, results) else 1)


if __name__ == "__main__":
    try:
        main()
    except Wrong as is_wrong:
        sys.exit(f"wrong: {is_wrong}")
