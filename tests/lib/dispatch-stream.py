#!/usr/bin/env python3
"""A records stream of a dispatch topic, for tests of mailbox-apply.

    dispatch-stream.py [-n PARTITIONS] [-t TOPIC] [-s PARTITION:OFFSET]... < lines > stream

A line is a message as JSON: conversation_id, conversation_seq, to, and where wanted message_id, sender, created_at,
payload, chunk, digest, offset (of its record; else the next one of its partition), partition (else one record for each
partition that has recipients). {"raw": base64, "partition": P} is a record of any bytes, {"null": true} one without a
value. An empty line ends a batch; so does {"wait": FILE}, which goes on once the file exists. Ids may be {"base64": ...}: bin. Frames carry no checksum.
"""
import argparse
import base64
import hashlib
import json
import os
import sys
import time

import msgpack


def murmur2(data):
    """Kafka's, sign bit cleared."""
    mask, m = 0xffffffff, 0x5bd1e995
    h = (0x9747b28c ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = ((h ^ int.from_bytes(rest, "little")) * m) & mask
    h = ((h ^ h >> 13) * m) & mask
    return (h ^ h >> 15) & 0x7fffffff


def ident(value):
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value


def as_bytes(value):
    return value.encode() if isinstance(value, str) else value


def frame(fields):
    body = msgpack.packb([None, fields])
    sys.stdout.buffer.write(b"\xc6" + len(body).to_bytes(4, "big") + body)
    sys.stdout.buffer.flush()


def wait_for(path):
    end = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(.02)


def digest(*parts):
    return hashlib.md5(msgpack.packb(parts)).digest()


def dispatch(message, partition, to):
    conversation, seq = ident(message["conversation_id"]), message["conversation_seq"]
    chunk = message.get("chunk", [1, 1])
    said = [message.get("message_id", f"m{seq}"), ident(message.get("sender", "sender")),
            message.get("created_at", 1000 + seq), message.get("payload", {"text": f"text {seq}"})]
    value = {"v": 1, "id": digest(as_bytes(conversation), seq, partition, chunk[0]),
             "digest": digest(message.get("digest"), *said), "conversation_id": conversation, "conversation_seq": seq,
             "message_id": said[0], "sender": said[1], "created_at": said[2], "chunk": chunk, "to": to,
             "payload": said[3]}
    return msgpack.packb(value)


def records_of(message, partitions):
    """Pairs of partition and value."""
    if "raw" in message:
        return [(message["partition"], base64.b64decode(message["raw"]))]
    if "null" in message:
        return [(message["partition"], None)]
    by_partition = {}
    for user in map(ident, message["to"]):
        partition = message.get("partition", murmur2(as_bytes(user)) % partitions)
        by_partition.setdefault(partition, []).append(user)
    return [(p, dispatch(message, p, to)) for p, to in sorted(by_partition.items())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=4)
    parser.add_argument("-t", default="dispatch")
    parser.add_argument("-s", action="append", default=[])
    parser.add_argument("--hello-partitions", type=int)
    parser.add_argument("--no-end", action="store_true")
    parser.add_argument("--hole", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    start = {p: 0 for p in range(options.n)}
    start.update({int(p): int(o) for p, o in (s.split(":") for s in options.s)})
    hello = {"qim": 1, "minor": 0, "kind": "records", "from": "test", "run": 7, "topic": options.t, "group": "g",
             "start": [[options.t, p, o, "stored"] for p, o in sorted(start.items())]}
    if options.hello_partitions:
        hello["partitions"] = options.hello_partitions
    frame(hello)
    covered, number, total = dict(start), 1, 0
    frame({"batch": 1, "src": [[options.t, p, o, o] for p, o in sorted(start.items())], "at": [], "rec": []})

    def flush(batch):
        nonlocal number, total
        number += 1
        total += len(batch)
        partitions = sorted({p for p, _, _ in batch})
        src = []
        for p in partitions:
            end = max(o for q, o, _ in batch if q == p) + 1 + options.hole
            src.append([options.t, p, covered[p], end])
            covered[p] = end
        records = [[partitions.index(p), o, 1, None, v, None] for p, o, v in batch]
        if not options.parts:
            frame({"batch": number, "src": src, "at": [], "rec": records})
        for i, record in enumerate(records if options.parts else []):
            frame({"batch": number, "src": src, "at": [], "part": i + 1, "more": i + 1 < len(records),
                   "rec": [record]})

    batch, following = [], dict(start)
    for line in sys.stdin:
        message = json.loads(line) if line.strip() else {"wait": "/"}
        if "wait" in message:
            if batch:
                flush(batch)
            wait_for(message["wait"])
            batch = []
            following = {p: max(following[p], covered[p]) for p in following}
            continue
        for partition, value in records_of(message, options.n):
            offset = message.get("offset", following[partition])
            following[partition] = offset + 1
            batch.append((partition, offset, value))
    if batch:
        flush(batch)
    if not options.no_end:
        frame({"end": True, "batches": number, "records": total})


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(0)  # the reader has told why
