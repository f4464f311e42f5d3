#!/usr/bin/env python3
"""mailboxes.py: every mailbox in Redis against the messages that were sent.

    mailboxes.py REDIS[,REDIS...] [PREFIX [PARTITIONS]] < messages.jsonl

REDIS is host:port or unix:path, in the order given to mailbox-apply; the
lines are those given to outbox-write, of which the ones that aren't messages
are passed over.  Compares each recipient's whole box and each claim: nothing
missing, extra, twice, with another content, under another mailbox_seq than
its claim's, or above the mark.  Prints what it counted, inversions of
mailbox_seq against conversation_seq too, and exits 1 where anything differs.
Needs no package; uses msgpack where it is installed.
"""
import collections
import json
import socket
import struct
import sys

try:
    import msgpack  # several times faster, where it is installed
except ImportError:
    msgpack = None

PIPELINE = 500


class Redis:
    """A connection that sends many commands before it reads the replies."""

    def __init__(self, address):
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address[len("unix:"):])
        else:
            host, port = address.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)))
        self.file = self.socket.makefile("rb", 1 << 20)

    def send(self, commands):
        parts = []
        for command in commands:
            parts.append(b"*%d\r\n" % len(command))
            for word in command:
                word = word if isinstance(word, bytes) else str(word).encode()
                parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        sys.exit(f"mailboxes: redis says {line!r}")

    def run(self, commands):
        for first in range(0, len(commands), PIPELINE):
            some = commands[first:first + PIPELINE]
            self.send(some)
            for command in some:
                yield command, self.reply()

    def keys(self, pattern):
        cursor = b"0"
        while True:
            self.send([("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)])
            cursor, keys = self.reply()
            yield from keys
            if cursor == b"0":
                return


def decode(data):
    """What a msgpack object of ids, numbers and payloads says."""
    return msgpack.unpackb(data) if msgpack else unpack(data)[0]


def unpack(data, at=0):
    """One msgpack object: (value, where the next one starts)."""
    byte = data[at]
    at += 1
    if byte <= 0x7F:
        return byte, at
    if byte <= 0x8F:
        return unpack_map(data, at, byte & 15)
    if byte <= 0x9F:
        return unpack_array(data, at, byte & 15)
    if byte <= 0xBF:
        return data[at:at + (byte & 31)].decode(), at + (byte & 31)
    if byte >= 0xE0:
        return byte - 256, at
    if byte in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[byte], at
    if byte in (0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB):
        width = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}[byte]
        size = int.from_bytes(data[at:at + width], "big")
        at += width
        piece = data[at:at + size]
        return (piece if byte < 0xD0 else piece.decode()), at + size
    if 0xCC <= byte <= 0xD3:
        width = 1 << (byte & 3)
        return int.from_bytes(data[at:at + width], "big",
                              signed=byte >= 0xD0), at + width
    if byte in (0xCA, 0xCB):
        form, width = (">f", 4) if byte == 0xCA else (">d", 8)
        return struct.unpack_from(form, data, at)[0], at + width
    width = 2 if byte in (0xDC, 0xDE) else 4
    size = int.from_bytes(data[at:at + width], "big")
    if byte in (0xDC, 0xDD):
        return unpack_array(data, at + width, size)
    return unpack_map(data, at + width, size)


def unpack_array(data, at, size):
    items = []
    for _ in range(size):
        item, at = unpack(data, at)
        items.append(item)
    return items, at


def unpack_map(data, at, size):
    pairs = {}
    for _ in range(size):
        key, at = unpack(data, at)
        pairs[key], at = unpack(data, at)
    return pairs, at


def murmur2(data):
    """Kafka's hash of a key, its sign bit cleared."""
    mask, magic = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at:at + 4], "little") * magic & mask
        k = (k ^ k >> 24) * magic & mask
        value = value * magic & mask ^ k
    if len(data) > whole:
        value ^= int.from_bytes(data[whole:], "little")
        value = value * magic & mask
    value = (value ^ value >> 13) * magic & mask
    return (value ^ value >> 15) & 0x7FFFFFFF


def read_messages(lines):
    """{(conversation, seq): message}; a repeated line is one message."""
    messages = {}
    for line in lines:
        try:
            message = json.loads(line)
            key = message["conversation_id"], message["conversation_seq"]
            message["recipients"] = set(message["recipients"])
        except (ValueError, KeyError, TypeError):
            continue
        messages.setdefault(key, message)
    return messages


class Found:
    """What stands in Redis."""

    def __init__(self):
        # user -> [(conversation, seq, own?, score)], of all nodes
        self.boxes = collections.defaultdict(list)
        # user -> the partitions that have a box of it
        self.partitions = collections.defaultdict(set)
        self.offsets = collections.defaultdict(set)  # (P, conv, seq) -> claims
        self.bodies = {}      # (P, conversation, seq) -> claim's body
        self.marks = {}       # P -> mark
        self.quarantine = 0

    def read(self, redis, prefix):
        kinds = collections.defaultdict(list)
        for key in redis.keys(prefix + ":{*}:*"):
            kind = key.split(b"}:", 1)[1].split(b":", 1)[0].decode()
            kinds[kind].append(key)
        self.read_boxes(redis, kinds["box"])
        self.read_logs(redis, kinds["log"])
        for key in kinds["mark"]:
            redis.send([("ZRANGE", key, 0, -1, "WITHSCORES")])
            self.marks[partition_of(key)] = int(redis.reply()[1])
        for key in kinds["quarantine"]:
            redis.send([("HLEN", key)])
            self.quarantine += redis.reply()

    def read_boxes(self, redis, keys):
        commands = [("ZRANGE", key, 0, -1, "WITHSCORES") for key in keys]
        for (_, key, *_), reply in redis.run(commands):
            user = key.split(b":box:", 1)[1].decode()
            self.partitions[user].add(partition_of(key))
            self.boxes[user] += [(*decode(member), int(score)) for
                                 member, score in zip(reply[::2], reply[1::2])]

    def read_logs(self, redis, keys):
        for (_, key), reply in redis.run([("HGETALL", key) for key in keys]):
            conversation = key.split(b":log:", 1)[1].decode()
            for field, value in zip(reply[::2], reply[1::2]):
                seq, _, chunk = field.decode().partition("/")
                claim = decode(value)
                place = partition_of(key), conversation, int(seq)
                self.offsets[place].add(claim[0])
                if not chunk:
                    self.bodies[place] = claim[2:]


def partition_of(key):
    return int(key.split(b"{", 1)[1].split(b"}", 1)[0])


def compare(messages, found, partitions):
    """Counter of what differs, with an example of each."""
    wrong, examples = collections.Counter(), {}

    def note(kind, what):
        wrong[kind] += 1
        examples.setdefault(kind, what)

    expected = collections.defaultdict(dict)
    for key, message in messages.items():
        for user in message["recipients"]:
            expected[user][key] = user == message["sender"]
    for user, wanted in expected.items():
        seen = set()
        partition = murmur2(user.encode()) % partitions
        entries = sorted(found.boxes.get(user, ()), key=lambda e: e[-1])
        newest = {}
        for conversation, seq, *own, score in entries:
            key = conversation, seq
            if key in seen:
                note("twice", (user, key))
            elif key not in wanted:
                note("extra", (user, key))
            elif bool(own) != wanted[key]:
                note("own flag", (user, key))
            seen.add(key)
            place = partition, conversation, seq
            if score - 1 not in found.offsets.get(place, ()):
                note("mailbox_seq", (user, key, score))
            if score > found.marks.get(partition, 0):
                note("above mark", (user, key, score))
            if newest.get(conversation, 0) > seq:
                wrong["inverted"] += 1
            newest[conversation] = max(seq, newest.get(conversation, 0))
        for key in wanted.keys() - seen:
            note("missing", (user, key))
        if found.partitions[user] - {partition}:
            note("partition", user)
    for user in found.boxes.keys() - expected.keys():
        note("extra", (user, found.boxes[user][0]))
    for (_, *key), body in found.bodies.items():
        message = messages.get(tuple(key), {})
        if body[:4] != [message.get(name) for name in (
                "message_id", "sender", "created_at", "payload")]:
            note("content", (key, body))
    return wrong, examples, sum(map(len, expected.values()))


def main():
    addresses = sys.argv[1].split(",")
    prefix = sys.argv[2] if len(sys.argv) > 2 else "qim"
    partitions = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    messages = read_messages(sys.stdin)
    found = Found()
    for address in addresses:
        found.read(Redis(address), prefix)
    wrong, examples, entries = compare(messages, found, partitions)
    inverted = wrong.pop("inverted", 0)
    print(f"messages {len(messages)}  mailboxes {len(found.boxes)}  "
          f"entries {sum(map(len, found.boxes.values()))} of {entries}  "
          f"quarantined {found.quarantine}  inverted {inverted}")
    for kind, count in wrong.items():
        print(f"wrong: {kind} {count}, e.g. {examples[kind]}")
    if not wrong:
        print("missing 0  extra 0  twice 0  other content 0")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
