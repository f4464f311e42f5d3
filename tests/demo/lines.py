#!/usr/bin/env python3
"""lines: the messages of the demo, as JSON lines from stdin to stdout.

    lines.py accepted WRITELOG blanks those that outbox-write refused
    lines.py unique            blanks a line that repeats the conversation and
                               number of an earlier one: only the first counts
    lines.py dispatches        prints how many dispatches they come to
"""
import collections
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../lib"))
import mailboxes  # noqa: E402

PARTITIONS = 64
MAX_RECIPIENTS = 1000


def key_of(line):
    """Conversation and number, or None where it isn't a message."""
    try:
        message = json.loads(line)
        return message["conversation_id"], message["conversation_seq"]
    except (ValueError, KeyError, TypeError):
        return None


def unique(lines, out):
    seen = {}
    for number, line in enumerate(lines, 1):
        key = repr(key_of(line))
        if key == "None":
            key = number
        first = seen.setdefault(key, number)
        if first != number:
            print(f"demo: line {number}: has the conversation and number of "
                  f"line {first}: left out", file=sys.stderr)
            line = b"\n"
        out.write(line)


def accepted(lines, out, log):
    refused = set()
    with open(log, "rb") as messages:
        for message in messages:
            found = re.match(rb"outbox-write: error: line (\d+): ", message)
            if found:
                refused.add(int(found[1]))
                sys.stderr.buffer.write(message)
    if refused:
        sys.stderr.buffer.flush()
        print(f"demo: lines refused: {len(refused)}; the others go on",
              file=sys.stderr)
    for number, line in enumerate(lines, 1):
        out.write(b"\n" if number in refused else line)


def dispatches(lines):
    """One per partition that has recipients, in chunks of 1,000."""
    partition = {}
    total = 0
    for line in filter(bytes.strip, lines):
        count = collections.Counter()
        for user in set(json.loads(line)["recipients"]):
            if user not in partition:
                partition[user] = mailboxes.murmur2(user.encode()) % PARTITIONS
            count[partition[user]] += 1
        total += sum(-(-n // MAX_RECIPIENTS) for n in count.values())
    return total


def main():
    lines, out = sys.stdin.buffer, sys.stdout.buffer
    if sys.argv[1] == "unique":
        unique(lines, out)
    elif sys.argv[1] == "accepted":
        accepted(lines, out, sys.argv[2])
    else:
        print(dispatches(lines))


if __name__ == "__main__":
    main()
