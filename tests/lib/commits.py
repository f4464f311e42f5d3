#!/usr/bin/env python3
"""commits.py GROUP: every commit of a group, in the order of the log.

Reads the records of __consumer_offsets as
	kcat -C -e -q -t __consumer_offsets -f '%K %S\\n%k%s'
prints them; writes "topic partition offset" lines. Unlike what a poll of the
committed offsets sees, none is missing.
"""
import struct
import sys


def text(data, at):
    n, = struct.unpack_from(">h", data, at)
    return data[at + 2:at + 2 + n].decode(), at + 2 + n


def main(wanted):
    stream = sys.stdin.buffer
    while head := stream.readline():
        key_bytes, value_bytes = (int(n) for n in head.split())
        key = stream.read(max(key_bytes, 0))
        value = stream.read(max(value_bytes, 0))
        # Versions 0 and 1 of a key are of an offset; no value: it is gone.
        if key[:2] not in (b"\0\0", b"\0\1") or not value:
            continue
        group, at = text(key, 2)
        topic, at = text(key, at)
        if group == wanted:
            print(topic, struct.unpack_from(">i", key, at)[0],
                  struct.unpack_from(">q", value, 2)[0])


main(sys.argv[1])
