#!/usr/bin/env python3
"""faults-check.py BROKERS OUTBOX DISPATCH PARTITIONS RUN [marks-fall] [retried]
                [again=MESSAGES]

After a fault: both topics against RUN/ledger, which has the messages that the
Outbox's writer was given, and against what observe.py saw.  Prints counts,
and a line for whatever is wrong; exits 1 where anything is.

    accepted     messages in the ledger; unaccepted: neither in the Outbox nor,
                 where that was cut, dispatched
    undispatched planned dispatches that aren't in the dispatch topic
    repeats      dispatches that say again what an earlier one said: as
                 many as so many MESSAGES have, where given
    inverted     first copies behind one of a later record of its partition:
                 none, unless requests may have been retried
    early        commits that were seen before what they are for was there;
                 those of mailboxes only where marks don't fall, as they do
                 in a Redis that loses data
    unobserved   chains of which nobody saw a commit
    excess       repeats, where they are more than that; disorder: inverted
                 ones, where there may be none
"""
import collections
import json
import subprocess
import sys

import mailboxes


def read(brokers, topic):
    """(partition, offset, value) of all records."""
    kcat = subprocess.Popen(
        ["kcat", "-C", "-e", "-q", "-b", brokers, "-t", topic, "-o",
         "beginning", "-f", "%p %o %S\n%s"], stdout=subprocess.PIPE)
    while head := kcat.stdout.readline():
        partition, offset, size = map(int, head.split())
        yield partition, offset, kcat.stdout.read(max(size, 0))
    if kcat.wait() != 0:
        sys.exit("faults-check: kcat failed")


class Topics:
    def __init__(self, brokers, outbox, dispatch, partitions):
        self.source = {}    # (conversation, seq) -> its place in the Outbox
        self.wanted = {}    # the same -> dispatch partitions
        self.first = {}     # (conversation, seq, P) -> first offset
        self.repeats = 0
        for partition, offset, value in read(brokers, outbox):
            message = mailboxes.decode(value)
            key = message["conversation_id"], message["conversation_seq"]
            self.source.setdefault(key, (partition, offset))
            self.wanted[key] = {mailboxes.murmur2(user.encode()) % partitions
                                for user in message["recipients"]}
        for partition, offset, value in sorted(read(brokers, dispatch),
                                               key=lambda r: r[:2]):
            said = mailboxes.decode(value)
            key = (said["conversation_id"], said["conversation_seq"],
                   partition)
            self.repeats += key in self.first
            self.first.setdefault(key, offset)

    def undispatched(self):
        return [(*key, p) for key, all_of in self.wanted.items()
                for p in all_of if (*key, p) not in self.first]

    def inverted(self):
        found, newest = [], collections.defaultdict(lambda: -1)
        for (conversation, seq, p), at in sorted(
                self.first.items(), key=lambda f: (f[0][2], f[1])):
            partition, offset = self.source.get((conversation, seq), (-1, 0))
            if offset < newest[p, partition]:
                found.append((conversation, seq, p, at))
            newest[p, partition] = max(offset, newest[p, partition])
        return found

    def excess(self, messages):
        """The repeats, where they are more than so many messages have."""
        most = messages * len(self.first) / max(len(self.wanted), 1)
        return [(self.repeats, most)] if self.repeats > most else []


def early_commits(topics, observed, marks_fall):
    """Of the fan-out by the ends, of the mailboxes by the marks."""
    by_partition = collections.defaultdict(list)
    for key, (partition, offset) in topics.source.items():
        by_partition[partition].append((offset, key))
    for found in by_partition.values():
        found.sort(reverse=True)
    early, seen = [], {"fanout": 0, "mailbox": 0}
    for line in observed:
        if any(at > 0 for at in line.get("committed", {}).values()):
            seen["mailbox" if "marks" in line else "fanout"] += 1
        # Each message once: at the first commit that covers it.
        for partition, committed in line.get("committed", {}).items():
            if "marks" in line:
                if (not marks_fall and
                        committed > line["marks"].get(partition, 0)):
                    early.append((line, partition))
                continue
            left = by_partition[int(partition)]
            while left and left[-1][0] < committed:
                offset, key = left.pop()
                early += [(partition, offset, key, p)
                          for p in topics.wanted[key]
                          if topics.first.get((*key, p), 1 << 62) >=
                          line["ends"].get(str(p), 0)]
    return early, seen


def main():
    brokers, outbox, dispatch, partitions, run, *words = sys.argv[1:]
    again = [float(w[6:]) for w in words if w.startswith("again=")]
    topics = Topics(brokers, outbox, dispatch, int(partitions))
    with open(f"{run}/ledger") as f:
        ledger = mailboxes.read_messages(f)
    with open(f"{run}/observed") as f:
        observed = [json.loads(line) for line in f]
    early, seen = early_commits(topics, observed, "marks-fall" in words)
    known = topics.source.keys() | {key[:2] for key in topics.first}
    inverted = topics.inverted()
    wrong = {"unaccepted": [k for k in ledger if k not in known],
             "undispatched": topics.undispatched(), "early": early,
             "unobserved": [of for of, count in seen.items() if not count],
             "excess": [e for n in again for e in topics.excess(n)],
             "disorder": [] if "retried" in words else inverted}
    print(f"accepted {len(ledger)}  dispatches {len(topics.first)}  "
          f"repeats {topics.repeats}  inverted {len(inverted)}  "
          f"observed {sum(seen.values())}",
          *(f"{name} {len(found)}" for name, found in wrong.items()),
          sep="  ")
    for name, found in wrong.items():
        if found:
            print(f"wrong: {name}, e.g. {found[0]}")
    sys.exit(any(wrong.values()))


main()
