#!/usr/bin/env python3
"""kafka-rotate.py BROKER TOPIC PARTITIONS SECONDS

Moves the leader of each partition to its next replica, again and again for so
many seconds: the order of replicas is changed and the preferred one elected,
on a cluster whose nodes are 1, 2, 3 and hold all of the topic.  No broker
stops.  Prints how often it did that.
"""
import socket
import struct
import sys
import time

REASSIGN, ELECT = 45, 43
PAUSE_SECONDS = 0.5     # a producer needs half of it to find the new leaders
NODES = 3
PASSING = {7, 41}       # timed out, not the controller


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def compact_array(items):
    return varint(len(items) + 1) + b"".join(items)


def reassign(topic, partitions, first):
    """All partitions to the same replicas, the preferred one another."""
    def one(number):
        order = [(first + number + i) % NODES + 1 for i in range(NODES)]
        return (struct.pack(">i", number) +
                compact_array([struct.pack(">i", n) for n in order]) + b"\0")
    name = topic.encode()
    return (struct.pack(">i", 10000) + compact_array([
        varint(len(name) + 1) + name +
        compact_array([one(n) for n in range(partitions)]) + b"\0"]) + b"\0")


def elect(topic, partitions):
    name = topic.encode()
    return (struct.pack(">biH", 0, 1, len(name)) + name +
            struct.pack(f">i{partitions}ii", partitions, *range(partitions),
                        10000))


def call(file, key, version, tags, body):
    message = struct.pack(">hhih", key, version, 1, -1) + tags + body
    file.write(struct.pack(">i", len(message)) + message)
    file.flush()
    length, = struct.unpack(">i", file.read(4))
    return file.read(length)


def move(file, topic, partitions, count):
    """False: a controller that has gone has to be followed by another."""
    for what, answer, at in (
            ("reassign", call(file, REASSIGN, 0, b"\0",
                              reassign(topic, partitions, count)), 9),
            ("elect", call(file, ELECT, 1, b"", elect(topic, partitions)), 8)):
        code, = struct.unpack(">h", answer[at:at + 2])
        if code in PASSING:
            return False
        if code:
            sys.exit(f"kafka-rotate: {what}: error {code}")
    return True


def main():
    host, port = sys.argv[1].split(",")[0].rsplit(":", 1)
    topic, partitions = sys.argv[2], int(sys.argv[3])
    end = time.monotonic() + float(sys.argv[4])
    count = 0
    with socket.create_connection((host, int(port)), 60) as s:
        with s.makefile("rwb") as file:
            while time.monotonic() < end:
                count += move(file, topic, partitions, count)
                time.sleep(PAUSE_SECONDS)
    print(count)


main()
