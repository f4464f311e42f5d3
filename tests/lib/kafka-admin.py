#!/usr/bin/env python3
"""kafka-admin.py: Kafka's admin requests for tests, without a JVM.

A Java tool takes a second or two to start; a suite makes hundreds of topics.
This speaks the few requests itself (last versions before the compact
encoding, all still accepted by Kafka 4.1), one connection a request.

kafka-admin.py BROKERS create NAME:PARTITIONS[:REPLICATION]... [config=value]...
    returns once every broker that lives knows a leader for each partition
kafka-admin.py BROKERS grow NAME:PARTITIONS...    to so many, the same way
kafka-admin.py BROKERS delete TOPIC...            returns once none of them
                                                  knows it any more
kafka-admin.py BROKERS brokers                    id, one a line
kafka-admin.py BROKERS topic [TOPIC]              topic partition leader
                                                  replicas isr
kafka-admin.py BROKERS insync [TOPIC]...          every broker named answers,
                                                  knows the others, and has
                                                  all replicas in sync
kafka-admin.py BROKERS begins|ends TOPIC          partition offset
kafka-admin.py BROKERS trim TOPIC PARTITION:OFFSET...   delete records below
kafka-admin.py BROKERS elect TOPIC                preferred leaders
kafka-admin.py BROKERS committed GROUP [TOPIC]    topic partition offset
kafka-admin.py BROKERS follow GROUP TOPIC         every 50 ms, where there is
                                                  an answer: seconds since 1970
                                                  and [partition offset]...
kafka-admin.py BROKERS reach [GROUP TOPIC]...     wait until each group has
                                                  committed what the topic
                                                  holds now; prints how many
                                                  seconds that took, or fails
                                                  with what is missing
kafka-admin.py BROKERS coordinator GROUP          id
kafka-admin.py BROKERS commit GROUP TOPIC PARTITION:OFFSET...
kafka-admin.py BROKERS forget GROUP               delete the group
kafka-admin.py BROKERS grant|deny|undeny topic|group NAME PRINCIPAL
                       all|read|write             rules; undeny drops one

Errors that pass (no leader yet, coordinator loading, ...) are retried for
KAFKA_ADMIN_SECONDS, 60 unless it is set. Exit status 0, or 1 with one line.
"""
import os
import socket
import struct
import sys
import time

PATIENCE = float(os.environ.get("KAFKA_ADMIN_SECONDS", 60))
PASSING = {3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 41}
NAMES = {1: "OFFSET_OUT_OF_RANGE", 3: "UNKNOWN_TOPIC_OR_PARTITION",
         5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER",
         7: "REQUEST_TIMED_OUT", 8: "BROKER_NOT_AVAILABLE",
         9: "REPLICA_NOT_AVAILABLE", 14: "COORDINATOR_LOAD_IN_PROGRESS",
         15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR",
         25: "UNKNOWN_MEMBER_ID", 36: "TOPIC_ALREADY_EXISTS",
         37: "INVALID_PARTITIONS", 38: "INVALID_REPLICATION_FACTOR",
         40: "INVALID_CONFIG", 68: "NON_EMPTY_GROUP",
         69: "GROUP_ID_NOT_FOUND"}
NOTHING_TO_DO = 84      # ELECTION_NOT_NEEDED


class KafkaError(Exception):
    def __init__(self, code, what):
        super().__init__(f"{what}: {NAMES.get(code, 'error')} ({code})")
        self.code = code
        self.passing = code in PASSING


def check(code, what):
    if code:
        raise KafkaError(code, what)


UNKNOWN_TOPIC, TIMED_OUT, TOPIC_EXISTS, BAD_PARTITIONS, NO_GROUP = 3, 7, 36, 37, 69
answers_lost = False    # what was asked may have been done nevertheless


def check_change(code, what, done):
    """What is asked again, its answer lost, may find that it is done."""
    global answers_lost
    answers_lost |= code == TIMED_OUT
    if code != done or not answers_lost:
        check(code, what)


# Writing: each returns bytes.
def i8(n): return struct.pack(">b", n)
def i16(n): return struct.pack(">h", n)
def i32(n): return struct.pack(">i", n)
def i64(n): return struct.pack(">q", n)


def text(s):
    return i16(-1) if s is None else i16(len(s.encode())) + s.encode()


def array(write, items):
    return i32(len(items)) + b"".join(write(item) for item in items)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def i8(self): return self.number(">b")
    def i16(self): return self.number(">h")
    def i32(self): return self.number(">i")
    def i64(self): return self.number(">q")

    def text(self):
        length = max(self.i16(), 0)
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def array(self, read):
        return [read() for _ in range(max(self.i32(), 0))]


ANSWER_SECONDS = 10


def call(address, key, version, body):
    """One request on a connection of its own; returns a Reader."""
    global answers_lost
    with socket.create_connection(address, ANSWER_SECONDS) as s:
        message = i16(key) + i16(version) + i32(1) + text("test") + body
        try:
            s.sendall(i32(len(message)) + message)
            with s.makefile("rb") as f:
                head = f.read(4)
                data = f.read(*struct.unpack(">i", head)) if head else b""
            if not data:
                raise ConnectionError("%s:%d closed the connection" % address)
        except OSError:
            answers_lost = True
            raise
    r = Reader(data)
    r.i32()
    return r


class Cluster:
    def __init__(self, bootstrap):
        self.bootstrap = []
        for one in bootstrap.split(","):
            host, port = one.rsplit(":", 1)
            self.bootstrap.append((host, int(port)))

    def any(self, key, version, body):
        for n, address in enumerate(self.bootstrap):
            try:
                return call(address, key, version, body)
            except OSError:
                if n + 1 == len(self.bootstrap):
                    raise

    def metadata(self, topics=None, address=None):
        """({id: address}, {topic: {partition: (leader, replicas, isr)}})"""
        body = i32(-1) if topics is None else array(text, topics)
        body += i8(0)
        r = (call(address, 3, 5, body) if address else self.any(3, 5, body))
        r.i32()

        def broker():
            id_, host, port = r.i32(), r.text(), r.i32()
            r.text()
            return id_, (host, port)

        def partition():
            error, number, leader = r.i16(), r.i32(), r.i32()
            replicas, isr = r.array(r.i32), r.array(r.i32)
            r.array(r.i32)
            return number, (leader if error in (0, 9) else -1, replicas, isr)

        def topic():
            error, name, _ = r.i16(), r.text(), r.i8()
            parts = dict(r.array(partition))
            check(error, f"topic {name}")
            return name, parts

        brokers = dict(r.array(broker))
        r.text()
        r.i32()
        return brokers, dict(r.array(topic))

    def find_coordinator(self, group):
        r = self.any(10, 0, text(group))
        check(r.i16(), f"group {group}")
        return r.i32(), (r.text(), r.i32())

    def coordinator(self, group):
        return self.find_coordinator(group)[1]

    def by_leader(self, topic, partitions=None):
        """[(address, [partition, ...])] for all, or the named, partitions."""
        brokers, topics = self.metadata([topic])
        groups = {}
        for number, (leader, _, _) in sorted(topics[topic].items()):
            if partitions is None or number in partitions:
                if leader not in brokers:
                    raise KafkaError(5, f"partition {number}")
                groups.setdefault(brokers[leader], []).append(number)
        return groups.items()


def pairs(args):
    return [tuple(int(n) for n in a.split(":")) for a in args]


def create(cluster, *args):
    configs = [a.split("=", 1) for a in args if "=" in a]
    wanted = [(a.split(":") + ["-1"])[:3] for a in args if "=" not in a]
    r = cluster.any(19, 4, array(
        lambda t: text(t[0]) + i32(int(t[1])) + i16(int(t[2])) + i32(0) +
        array(lambda c: text(c[0]) + text(c[1]), configs),
        wanted) + i32(10000) + i8(0))
    r.i32()
    for name, code, why in r.array(lambda: (r.text(), r.i16(), r.text())):
        check_change(code, f"{name}: {why}" if why else name, TOPIC_EXISTS)
    patiently(known_everywhere, cluster, [t[0] for t in wanted])


def grow(cluster, *args):
    wanted = [a.split(":") for a in args]
    r = cluster.any(37, 0, array(
        lambda t: text(t[0]) + i32(int(t[1])) + i32(-1), wanted) +
        i32(10000) + i8(0))
    r.i32()
    for name, code, why in r.array(lambda: (r.text(), r.i16(), r.text())):
        check_change(code, f"{name}: {why}" if why else name, BAD_PARTITIONS)
    patiently(known_everywhere, cluster, [t[0] for t in wanted],
              [int(t[1]) for t in wanted])


def known_everywhere(cluster, names, counts=None):
    brokers, _ = cluster.metadata([])
    for address in brokers.values():
        try:
            _, topics = cluster.metadata(names, address)
        except OSError:
            continue    # it has died, and its lease still runs
        for i, name in enumerate(names):
            if any(p[0] < 0 for p in topics[name].values()) or (
                    counts and len(topics[name]) != counts[i]):
                raise KafkaError(5, name)


def delete(cluster, *topics):
    r = cluster.any(20, 1, array(text, topics) + i32(10000))
    r.i32()
    for name, code in r.array(lambda: (r.text(), r.i16())):
        check_change(code, name, UNKNOWN_TOPIC)
    patiently(known_nowhere, cluster, topics)


def known_nowhere(cluster, names):
    brokers, _ = cluster.metadata([])
    for address in brokers.values():
        for name in names:
            try:
                cluster.metadata([name], address)
            except OSError:
                break   # it has died
            except KafkaError as error:
                if error.code == UNKNOWN_TOPIC:
                    continue
                raise
            raise KafkaError(TIMED_OUT, f"{name} is still there")


def brokers(cluster):
    for id_ in sorted(cluster.metadata([])[0]):
        print(id_)


def topic(cluster, *names):
    for name, parts in sorted(cluster.metadata(names or None)[1].items()):
        for number, (leader, replicas, isr) in sorted(parts.items()):
            print(name, number, leader, *(",".join(map(str, sorted(x)))
                                          for x in (replicas, isr)))


def insync(cluster, *names):
    count = len(cluster.bootstrap)
    for address in cluster.bootstrap:
        brokers, topics = cluster.metadata(names or None, address)
        if len(brokers) != count:
            raise KafkaError(8, f"{len(brokers)} of {count} brokers")
        for name, parts in topics.items():
            for number, (leader, replicas, isr) in parts.items():
                if leader < 0 or sorted(replicas) != sorted(isr):
                    raise KafkaError(9, f"{name} {number}: leader {leader}, "
                                     f"in sync {isr} of {replicas}")


def find_offsets(cluster, name, when):
    """{partition: offset}"""
    found = {}
    for address, numbers in cluster.by_leader(name):
        r = call(address, 2, 1, i32(-1) + i32(1) + text(name) +
                 array(lambda p: i32(p) + i64(when), numbers))
        r.i32()
        r.text()
        for number, code, _, offset in r.array(
                lambda: (r.i32(), r.i16(), r.i64(), r.i64())):
            check(code, f"{name} {number}")
            found[number] = offset
    return found


def begins(cluster, name):
    for pair in sorted(find_offsets(cluster, name, -2).items()):
        print(*pair)


def ends(cluster, name):
    for pair in sorted(find_offsets(cluster, name, -1).items()):
        print(*pair)


def trim(cluster, name, *args):
    below = dict(pairs(args))
    for address, numbers in cluster.by_leader(name, below):
        r = call(address, 21, 0, i32(1) + text(name) + array(
            lambda p: i32(p) + i64(below[p]), numbers) + i32(10000))
        r.i32()
        r.i32()
        r.text()
        for number, _, code in r.array(
                lambda: (r.i32(), r.i64(), r.i16())):
            check(code, f"{name} {number}")


def elect(cluster, name):
    numbers = list(cluster.metadata([name])[1][name])
    r = cluster.any(43, 1, i8(0) + i32(1) + text(name) + array(i32, numbers) +
                    i32(10000))
    r.i32()
    check(r.i16(), name)
    r.i32()
    r.text()
    for number, code, _ in r.array(lambda: (r.i32(), r.i16(), r.text())):
        if code != NOTHING_TO_DO:
            check(code, f"{name} {number}")


def coordinator(cluster, group):
    print(cluster.find_coordinator(group)[0])


def committed_offsets(cluster, group, name=None):
    r = call(cluster.coordinator(group), 9, 5, text(group) + i32(-1))
    r.i32()
    topics = r.array(lambda: (r.text(), r.array(lambda: (
        r.i32(), r.i64(), r.i32(), r.text(), r.i16()))))
    check(r.i16(), group)
    for found, parts in sorted(topics):
        for number, offset, _, _, code in sorted(parts):
            check(code, f"{found} {number}")
            if name in (None, found):
                yield found, number, offset


def committed(cluster, group, name=None):
    for line in list(committed_offsets(cluster, group, name)):
        print(*line)


def follow(cluster, group, name):
    global ANSWER_SECONDS
    ANSWER_SECONDS = 0.5
    while True:
        try:
            found = list(committed_offsets(cluster, group, name))
            print(f"{time.time():.6f}", *(n for f in found for n in f[1:]),
                  flush=True)
        except (KafkaError, OSError):
            pass
        time.sleep(0.05)


def reach(cluster, *args):
    """Each group in turn: another's records may come of what it commits."""
    start = time.monotonic()
    for group, name in zip(args[::2], args[1::2]):
        wanted = patiently(find_offsets, cluster, name, -1)
        missing = "no answer"
        while missing:
            try:
                found = {f[1]: f[2] for f in
                         committed_offsets(cluster, group, name)}
                missing = " ".join(f"{p}:{found.get(p, 0)}/{end}"
                                   for p, end in sorted(wanted.items())
                                   if found.get(p, 0) < end)
            except (KafkaError, OSError) as error:
                missing = str(error)
            if missing and time.monotonic() - start > PATIENCE:
                sys.exit(f"{group}: {missing}")
            time.sleep(0.1 if missing else 0)
    print(f"{time.monotonic() - start:.1f}")


def commit(cluster, group, name, *args):
    r = call(cluster.coordinator(group), 8, 2, text(group) + i32(-1) +
             text("") + i64(-1) + i32(1) + text(name) + array(
                 lambda p: i32(p[0]) + i64(p[1]) + text(""), pairs(args)))
    for _, parts in r.array(lambda: (r.text(), r.array(
            lambda: (r.i32(), r.i16())))):
        for number, code in parts:
            check(code, f"{name} {number}")


def forget(cluster, group):
    r = call(cluster.coordinator(group), 42, 0, array(text, [group]))
    r.i32()
    for name, code in r.array(lambda: (r.text(), r.i16())):
        check_change(code, name, NO_GROUP)


# Rules about what a principal may do; what is denied is denied whatever is
# granted.
ACL_RESOURCES = {"topic": 2, "group": 3}
ACL_OPERATIONS = {"all": 2, "read": 3, "write": 4}
DENY, ALLOW = 2, 3


def acl(permission, resource, name, principal, operation):
    return (i8(ACL_RESOURCES[resource]) + text(name) + i8(3) +
            text(principal) + text("*") + i8(ACL_OPERATIONS[operation]) +
            i8(permission))


def add_rule(cluster, permission, args):
    r = cluster.any(30, 1, array(lambda a: acl(permission, *a), [args]))
    r.i32()
    for code, why in r.array(lambda: (r.i16(), r.text())):
        check(code, why)


def grant(cluster, *args):
    add_rule(cluster, ALLOW, args)


def deny(cluster, *args):
    add_rule(cluster, DENY, args)


def undeny(cluster, *args):
    """Returns once the brokers go by it."""
    r = cluster.any(31, 1, array(lambda a: acl(DENY, *a), [args]))
    r.i32()
    for code, why, found in r.array(lambda: (r.i16(), r.text(), r.array(
            lambda: (r.i16(), r.text(), r.i8(), r.text(), r.i8(), r.text(),
                     r.text(), r.i8(), r.i8())))):
        check(code or len(found) - 1, why or "no such rule")
    patiently(not_denied, cluster, args)


def not_denied(cluster, args):
    for address in cluster.metadata([])[0].values():
        r = call(address, 29, 1, acl(DENY, *args))
        r.i32()
        code, why = r.i16(), r.text()
        check(code, why)
        if r.i32() > 0:
            raise KafkaError(TIMED_OUT, "it is still denied")


def patiently(what, *args):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return what(*args)
        except (KafkaError, OSError) as error:
            if (not getattr(error, "passing", True) or
                    time.monotonic() > end):
                raise
        time.sleep(0.02)


COMMANDS = {f.__name__: f for f in (
    create, grow, delete, brokers, topic, insync, begins, ends, trim, elect,
    committed, follow, reach, coordinator, commit, forget, grant,
    deny, undeny)}


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in COMMANDS:
        sys.exit(__doc__)
    try:
        patiently(COMMANDS[sys.argv[2]], Cluster(sys.argv[1]), *sys.argv[3:])
    except (KafkaError, OSError) as error:
        sys.exit(f"kafka-admin: {sys.argv[2]}: {error}")


if __name__ == "__main__":
    main()
