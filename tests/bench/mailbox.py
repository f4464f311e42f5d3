"""mailbox.py: what tests/bench/mailbox runs.

Makes a stream of dispatches, has mailbox-apply write it to redis-servers of its own, records what it sends, and lets a client
that neither parses nor waits send the same bytes to fresh ones: the limit that those commands have.  The two take turns.  Times
are the best of the runs, as what disturbs only makes slower, the rest medians.
CPU time of Redis is that of its main thread (INFO cpu), so it doesn't depend on what else runs.
"""
import argparse
import importlib.util
import os
import random
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import msgpack

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("dispatch_stream", HERE + "/../lib/dispatch-stream.py")
DISPATCH = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(DISPATCH)

PARTITIONS = 64
BATCH = 512
BODY = 300
CHUNK = 1 << 18

# Recipients of a message, and entries that each user has at the end.
SHAPES = {"pairs-1": (1, 1), "pairs-20": (1, 20), "pairs-5000": (1, 5000), "groups-1": (100, 1), "groups-20": (100, 20),
          "groups-5000": (100, 5000)}


def frame(fields):
    body = msgpack.packb([None, fields])
    return b"\xc6" + len(body).to_bytes(4, "big") + body


def make_records(shape, recipients):
    """(partition, value) of each dispatch, as fanout-plan would make them."""
    size, entries = SHAPES[shape]
    rnd = random.Random(1)
    users = [b"user-%07d" % i for i in range(max(size, recipients // entries))]
    places = [DISPATCH.murmur2(u) % PARTITIONS for u in users]
    for message in range(recipients // size):
        if size > 1:
            first = message * size % (len(users) - size + 1)
            to, conversation = range(first, first + size), b"group-%07d" % first
        else:
            # 1:1 chats: each user has some ten partners.
            user = message % len(users)
            to, conversation = (user,), b"chat-%07d-%d" % (user, rnd.randrange(10))
        by_partition = {}
        for i in to:
            by_partition.setdefault(places[i], []).append(users[i].decode())
        said = {"conversation_id": conversation.decode(), "conversation_seq": message + 1, "sender": "sender-%05d" % message,
                "created_at": 1700000000000 + message, "message_id": "m-%09d" % message, "payload": {"text": "x" * BODY}}
        for partition, names in sorted(by_partition.items()):
            yield partition, DISPATCH.dispatch(said, partition, names), len(names)


def make_stream(path, shape, recipients):
    """Returns how many dispatches and recipients are in it."""
    offsets, dispatches, total, number, batch = [0] * PARTITIONS, 0, 0, 1, []
    with open(path, "wb") as out:
        out.write(frame({"qim": 1, "minor": 0, "kind": "records", "from": "bench", "run": 7, "topic": "dispatch",
                         "group": "g", "start": [["dispatch", p, 0, "stored"] for p in range(PARTITIONS)]}))
        out.write(frame({"batch": 1, "src": [["dispatch", p, 0, 0] for p in range(PARTITIONS)], "at": [], "rec": []}))

        def flush():
            nonlocal number
            number += 1
            by = {}
            for partition, value in batch:
                by.setdefault(partition, []).append(value)
            src, rec = [], []
            for i, (partition, values) in enumerate(sorted(by.items())):
                first = offsets[partition]
                offsets[partition] += len(values)
                src.append(["dispatch", partition, first, offsets[partition]])
                rec += [[i, first + k, 1, None, v, None] for k, v in enumerate(values)]
            out.write(frame({"batch": number, "src": src, "at": [], "rec": rec}))
            batch.clear()

        for partition, value, count in make_records(shape, recipients):
            batch.append((partition, value))
            dispatches += 1
            total += count
            if len(batch) == BATCH:
                flush()
        if batch:
            flush()
        out.write(frame({"end": True, "batches": number, "records": dispatches}))
    return dispatches, total


class Server:
    """A redis-server with its append-only file in `folder`, for one run."""

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        self.path = self.folder + "/socket"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.folder, "--save", "", "--appendonly", "yes",
             "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"],
            stdout=subprocess.DEVNULL)
        while True:
            try:
                self.start = self.info()
                return
            except OSError:
                time.sleep(.01)

    def info(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path)
            s.sendall(b"INFO\r\nQUIT\r\n")
            text = b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def busy(self):
        """Seconds that the main thread ran or waited for a core."""
        with open("/proc/%d/task/%d/schedstat" % (self.process.pid, self.process.pid)) as file:
            ran, waited = file.read().split()[:2]
        return (int(ran) + int(waited)) / 1e9

    def figures(self):
        """CPU seconds of the main thread, and bytes of data, since the start."""
        now, was = self.info(), self.start
        names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
        return (sum(float(now[n]) - float(was[n]) for n in names),
                int(now["used_memory_dataset"]) - int(was["used_memory_dataset"]))

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Tee:
    """Passes connections to a server on, and keeps what each of them sent."""

    def __init__(self, server):
        self.path, self.target, self.sent = server.path + ".tee", server.path, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            kept = bytearray()
            self.sent.append(kept)
            threading.Thread(target=self.move, args=(client, server, kept), daemon=True).start()
            threading.Thread(target=self.move, args=(server, client, None), daemon=True).start()

    @staticmethod
    def move(source, target, kept):
        while data := source.recv(CHUNK):
            if kept is not None:
                kept += data
            target.sendall(data)
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def apply(stream, paths, options):
    """Seconds, and CPU seconds of mailbox-apply."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with open(stream, "rb") as source:
        subprocess.run(["mailbox-apply", "-q", "-r", ",".join("unix:" + p for p in paths)] + options,
                       stdin=source, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


END = b"*2\r\n$4\r\nECHO\r\n$7\r\nthe-end\r\n"
LAST = b"$7\r\nthe-end\r\n"


def blind(jobs):
    """Sends each (path, bytes) on a connection of its own, all at once; returns the seconds until the last reply."""
    open_jobs, start = {}, time.monotonic()
    for path, data in jobs:
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.setblocking(False)
        open_jobs[s] = [memoryview(bytes(data) + END), b""]
    while open_jobs:
        readable, writable, _ = select.select(open_jobs, [s for s, job in open_jobs.items() if job[0]], [])
        for s in writable:
            sent = s.send(open_jobs[s][0][:CHUNK])
            open_jobs[s][0] = open_jobs[s][0][sent:]
        for s in readable:
            tail = open_jobs[s][1] = (open_jobs[s][1] + s.recv(1 << 20))[-len(LAST):]
            if tail == LAST:
                del open_jobs[s]
                s.close()
    return time.monotonic() - start


def commands_of(data):
    """The commands in bytes as they go over the wire, as lists of words."""
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        words, count, at = [], int(data[at + 1:end]), end + 2
        for _ in range(count):
            end = data.index(b"\r\n", at)
            size = int(data[at + 1:end])
            words.append(bytes(data[end + 2:end + 2 + size]))
            at = end + 4 + size
        yield words


def wire(words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def is_key(words, kind):
    return len(words) > 1 and b"}:" + kind in words[1]


def only(test):
    return lambda words: words if test(words) else None


def one_set(words):
    """The conversation list in the box's own sorted set, above all mailbox_seqs."""
    if not is_key(words, b"conv:"):
        return words
    scores = [w if i % 2 else b"%d" % ((1 << 52) + int(w)) for i, w in enumerate(words[3:])]
    return [words[0], words[1].replace(b"}:conv:", b"}:box:"), words[2]] + scores


def key_per_claim(words):
    return [b"SET", words[1] + b":" + words[2], words[3], b"NX"] if words[0] == b"HSETNX" else words


ROUND = (b"MULTI", b"EXEC", b"WATCH")
VARIANTS = {
    "as it is": lambda words: words,
    "no MULTI, EXEC, WATCH": only(lambda words: words[0] not in ROUND),
    "no top": only(lambda words: not (len(words) > 1 and words[1].endswith(b"}:top"))),
    "conv in box's set": one_set,
    "no conv": only(lambda words: not is_key(words, b"conv:")),
    "a string per claim": key_per_claim,
    "claims alone": only(lambda words: words[0] != b"ZADD" or words[1].endswith(b"}:mark")),
}


class Bench:
    def __init__(self, folder, options):
        self.folder, self.runs, self.options = folder, options.runs, options.options.split()
        self.stream = folder + "/stream"

    def servers(self, count):
        return [Server(self.folder, "redis-%d" % i) for i in range(count)]

    def record(self, count):
        """What mailbox-apply sends, as (server, bytes) for each connection."""
        servers = self.servers(count)
        try:
            tees = [Tee(s) for s in servers]
            apply(self.stream, [t.path for t in tees], self.options)
        finally:
            for server in servers:
                server.stop()
        return [(i, sent) for i, tee in enumerate(tees) for sent in tee.sent if b"MULTI" in sent]

    def once(self, count, work):
        servers = self.servers(count)
        try:
            was = sum(s.busy() for s in servers)
            result = work([s.path for s in servers])
            busy = (sum(s.busy() for s in servers) - was) / count
            figures = [s.figures() for s in servers]
        finally:
            for server in servers:
                server.stop()
        return result, sum(f[0] for f in figures), sum(f[1] for f in figures), busy

    def compare(self, name, count, recipients):
        sent, ours, limits = self.record(count), [], []
        for _ in range(self.runs):
            ours.append(self.once(count, lambda paths: apply(self.stream, paths, self.options)))
            limits.append(self.once(count, lambda paths: blind([(paths[i], data) for i, data in sent])))
        # What disturbs only makes slower.
        seconds, limit = min(o[0][0] for o in ours), min(l[0] for l in limits)
        micro = 1e6 / recipients
        print("%-12s %7d %9.0f %9.0f %5.0f%% %5.0f%% %5.0f%% %9.2f %9.2f %9.2f %7.0f" % (
            name, count, recipients / seconds, recipients / limit, 100 * limit / seconds,
            100 * statistics.median(o[3] / o[0][0] for o in ours), 100 * statistics.median(l[3] / l[0] for l in limits),
            statistics.median(o[1] for o in ours) * micro, statistics.median(l[1] for l in limits) * micro,
            statistics.median(o[0][1] for o in ours) * micro, ours[0][2] / recipients), flush=True)

    def variants(self, recipients):
        sent = self.record(1)
        made = {name: [(i, b"".join(wire(w) for w in map(change, commands_of(data)) if w)) for i, data in sent]
                for name, change in VARIANTS.items()}
        taken = {name: [] for name in made}
        for _ in range(self.runs):
            for name, jobs in made.items():
                taken[name].append(self.once(1, lambda paths, jobs=jobs: blind([(paths[i], data) for i, data in jobs])))
        for name, runs in taken.items():
            micro = sorted(r[1] * 1e6 / recipients for r in runs)
            print("    %-24s %7.2f us (least %.2f)  %6.0f bytes" % (name, statistics.median(micro), micro[0],
                                                                   runs[0][2] / recipients), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="mailbox")
    parser.add_argument("--recipients", type=int, default=200000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--servers", default="1,2")
    parser.add_argument("--options", default="", help="of mailbox-apply, in one argument")
    parser.add_argument("--variants", action="store_true", help="the costs of other keys and commands instead")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    roomy = "/dev/shm" if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 2 << 30 else None
    with tempfile.TemporaryDirectory(prefix="qim-bench-", dir=roomy) as folder:
        bench = Bench(folder, options)
        if not options.variants:
            print("%-12s %7s %9s %9s %6s %6s %6s %9s %9s %9s %7s" % (
                "", "servers", "ours/s", "blind/s", "ratio", "busy", "blind", "redis us", "blind us", "apply us", "bytes"))
        for shape in options.shapes.split(","):
            _, recipients = make_stream(bench.stream, shape, options.recipients)
            if options.variants:
                print(shape)
                bench.variants(recipients)
                continue
            for count in map(int, options.servers.split(",")):
                bench.compare(shape, count, recipients)


main()
