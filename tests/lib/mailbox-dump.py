#!/usr/bin/env python3
"""mailbox-dump.py REDIS[,REDIS...] [PREFIX]: what stands in the mailboxes.

A line for each key, sorted, with its members or fields, sorted; without what
says how far an applier has come: marks, and the counters of connections.
"""
import sys

from mailboxes import Redis

READ = {b"zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
        b"hash": lambda key: ("HGETALL", key)}


def main():
    prefix = sys.argv[2] if len(sys.argv) > 2 else "qim"
    lines = []
    for address in sys.argv[1].split(","):
        redis = Redis(address)
        keys = [key for key in sorted(set(redis.keys(prefix + ":{*}:*")))
                if not key.endswith(b"}:mark") and b"}:round:" not in key]
        types = [reply for _, reply in redis.run([("TYPE", k) for k in keys])]
        reads = [READ[kind](key) for key, kind in zip(keys, types)]
        for (_, key, *_), reply in redis.run(reads):
            pairs = sorted(zip(reply[::2], reply[1::2]))
            lines.append(f"{key} {pairs}\n")
    sys.stdout.writelines(sorted(lines))


main()
