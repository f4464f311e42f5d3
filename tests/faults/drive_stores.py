"""What the programs of drive.py work on: a mock broker, an empty Redis.

Where they are is in BROKERS and REDIS of the environment; empty: a program that
needs none is run.
"""
import os
import socket

from drive_base import tool, want

BROKERS = os.environ.get("BROKERS", "")
REDIS = os.environ.get("REDIS", "")


def end_of(topic):
    """The end offset of a TOPIC's partition 0, or of TOPIC:PARTITION."""
    where = topic if ":" in topic else topic + ":0"
    return int(tool("kcat", "-Q", "-b", BROKERS, "-t", where + ":-1").split()[-1])


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
