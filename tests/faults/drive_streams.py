"""The streams that drive.py gives to programs, and what it sees in theirs.

Streams are bytes, made by stream-make of lines of JSON.  All are of the topic
o, partition 0, and the group g unless said otherwise, and hold three records
or so: a program runs thousands of times with each.
"""
import json

import msgpack

from drive_base import tool


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
