#!/usr/bin/env python3
"""dispatch-check.py: receipts and the dispatch topic against the plan.

PLAN is a file with a stream of dispatches whose batches have no parts, and
RECEIPTS are what dispatch-produce wrote in its runs, one file a run, in order.
The first run began with batch 1; each of the others with the batch after the
last one that the runs before had a receipt for, as `rest` gives it.

dispatch-check.py rest [-m BATCHES] PLAN RECEIPTS...
    the stream for the next run, at most so many batches of it; exit status 3
    where nothing is left
dispatch-check.py count RECEIPTS...
    how many batches have receipts
dispatch-check.py topic BROKERS TOPIC PLAN RECEIPTS...
    reads the topic with kcat: each record of each batch with a receipt is in
    its partition, byte for byte by its dispatch id, and nothing is that isn't
    planned.  Prints counts, inversions of first copies against the plan too.

Exit status 1 with a line for whatever is wrong.
"""
import collections
import subprocess
import sys

import msgpack

ID = b"\xa2id\xc4\x10"


def frames(path):
    """The frames' bodies, decoded when asked; a torn one at the end is left."""
    with open(path, "rb") as f:
        while len(head := f.read(5)) == 5:
            if head[0] != 0xC6:
                sys.exit(f"dispatch-check: {path}: not a frame of qim's own")
            length = int.from_bytes(head[1:], "big")
            body = f.read(length)
            if len(body) < length:
                return
            yield body


def decode(body):
    return msgpack.unpackb(body, strict_map_key=False)[1]


def write_frame(body):
    sys.stdout.buffer.write(b"\xc6" + len(body).to_bytes(4, "big") + body)


def write(fields):
    write_frame(msgpack.packb([None, fields]))


def renumber(body, number):
    """The batch with another number and no checksum, and how many records it
    has: without decoding them."""
    reader = msgpack.Unpacker()
    reader.feed(body)
    reader.read_array_header()
    reader.skip()
    pairs = reader.read_map_header()
    if reader.unpack() != "batch":
        sys.exit("dispatch-check: a batch's number isn't its first field")
    reader.skip()
    tail = body[reader.tell():]
    while reader.unpack() != "rec":
        reader.skip()
    return (b"\x92\xc0" + bytes([0x80 | pairs]) + msgpack.packb("batch") +
            msgpack.packb(number) + tail, reader.read_array_header())


class Plan:
    def __init__(self, path):
        hello, *batches = frames(path)
        self.hello = decode(hello)
        self.batches = batches[:-1]
        if "end" not in decode(batches[-1]):
            sys.exit(f"dispatch-check: {path}: no end")

    def batch(self, index):
        batch = decode(self.batches[index])
        if "part" in batch or batch["batch"] != index + 1:
            sys.exit(f"dispatch-check: a part, or batch {batch['batch']} "
                     f"in the place of {index + 1}")
        return batch


def receipts(paths):
    """Each receipt of all runs, checked to be in order; (run, receipt)."""
    for path in paths:
        wanted = 0
        for fields in map(decode, frames(path)):
            if "batch" not in fields:
                continue
            wanted += 1
            if fields["batch"] != wanted:
                sys.exit(f"dispatch-check: {path}: receipt {fields['batch']},"
                         f" wants {wanted}")
            yield path, fields


def check_receipt(receipt, batch, path):
    for name, planned in (("src", batch["src"]), ("in", len(batch["rec"])),
                          ("out", len(batch["rec"]))):
        if receipt[name] != planned:
            sys.exit(f"dispatch-check: {path}: receipt {receipt['batch']}: "
                     f"{name} is {receipt[name]}, planned {planned}")


def rest(plan_path, *paths, most=None):
    plan = Plan(plan_path)
    first = 0
    start = {tuple(s[:2]): s[2] for s in plan.hello["start"]}
    for _, receipt in receipts(paths):
        first += 1
        start.update({(t, p): end for t, p, _, end in receipt["src"]})
    last = len(plan.batches)
    if most is not None:
        last = min(last, first + most)
    if first == last:
        sys.exit(3)
    write({**plan.hello, "start": [[*key, begin, "explicit"]
                                   for key, begin in start.items()]})
    total = 0
    for number, body in enumerate(plan.batches[first:last], 1):
        body, count = renumber(body, number)
        write_frame(body)
        total += count
    write({"end": True, "batches": last - first, "records": total})


def records_of(brokers, topic):
    """(partition, key, value) of all records, in order within a partition."""
    kcat = subprocess.Popen(
        ["kcat", "-C", "-e", "-q", "-b", brokers, "-t", topic, "-o",
         "beginning", "-f", "%p %K %S\n%k%s"], stdout=subprocess.PIPE)
    while line := kcat.stdout.readline():
        partition, key, value = map(int, line.split())
        yield (partition, kcat.stdout.read(max(key, 0)),
               kcat.stdout.read(max(value, 0)))
    if kcat.wait() != 0:
        sys.exit(f"dispatch-check: kcat ended with {kcat.returncode}")


def id_of(value):
    at = value.index(ID) + len(ID)
    return value[at:at + 16]


def topic(brokers, name, plan_path, *paths):
    plan = Plan(plan_path)
    planned = {}    # id: (place in the plan, batch, partition, key, value)
    for n in range(len(plan.batches)):
        for record in plan.batch(n)["rec"]:
            planned[id_of(record[3])] = (len(planned), n, *record[1:4])
    done = 0
    for path, receipt in receipts(paths):
        check_receipt(receipt, plan.batch(done), path)
        done += 1
    seen, wrong, inversions = collections.Counter(), 0, 0
    newest = {}     # partition: place of its last first copy
    for partition, key, value in records_of(brokers, name):
        id_ = id_of(value)
        place, _, *rest_ = planned.get(id_, (0, 0))
        wrong += rest_ != [partition, key, value]
        seen[id_] += 1
        if seen[id_] == 1:
            inversions += place < newest.get(partition, -1)
            newest[partition] = max(place, newest.get(partition, -1))
    lost = [id_ for id_, p in planned.items() if p[1] < done and not seen[id_]]
    receipted = sum(1 for p in planned.values() if p[1] < done)
    print(f"batches {done} of {len(plan.batches)}, records {receipted} of "
          f"{len(planned)}, missing {len(lost)}, wrong {wrong}, duplicates "
          f"{sum(seen.values()) - len(seen)}, inversions {inversions}")
    if lost or wrong:
        sys.exit("dispatch-check: the topic isn't what was receipted, first "
                 f"missing: {lost[:1]}")


def main():
    command, args = sys.argv[1], sys.argv[2:]
    if command == "rest" and args[0] == "-m":
        rest(*args[2:], most=int(args[1]))
    elif command == "rest":
        rest(*args)
    elif command == "count":
        print(sum(1 for _ in receipts(args)))
    elif command == "topic":
        topic(*args)
    else:
        sys.exit(__doc__)


main()
