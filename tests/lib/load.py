#!/usr/bin/env python3
"""load.py RATE SEED LEDGER COMMAND...: so many Outbox messages a second.

As JSON lines, those of 200 conversations, which no other seed has; most go to
two people, some to groups of up to 60.  COMMAND, an outbox-write, gets what is
due on its stdin, again until it ends with 0; then it stands in LEDGER.  A TERM
ends this behind what was begun.
"""
import json
import random
import signal
import subprocess
import sys
import time

import messages

PAUSE_S = 0.5


def make_messages(seed):
    rnd = random.Random(seed)
    users = [f"user-{i}" for i in range(2000)]
    groups = [rnd.sample(users, messages.group_size(rnd, 60))
              for _ in range(200)]
    seqs = [0] * len(groups)
    while True:
        number = rnd.randrange(len(groups))
        seqs[number] += 1
        yield json.dumps({
            "message_id": f"m{seed}-{number}-{seqs[number]}",
            "conversation_id": f"c{seed}-{number}",
            "conversation_seq": seqs[number],
            "sender": rnd.choice(groups[number]),
            "created_at": 1700000000000 + sum(seqs),
            "payload": {"text": "x" * rnd.randint(5, 120)},
            "recipients": groups[number]}, separators=(",", ":")) + "\n"


def main():
    rate, seed, ledger, *command = sys.argv[1:]
    source = make_messages(int(seed))
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    start, sent = time.monotonic(), 0
    with open(ledger, "a") as out:
        while not stop:
            due = int((time.monotonic() - start + PAUSE_S) * float(rate)) - sent
            lines = "".join(next(source) for _ in range(due))
            while subprocess.run(command, input=lines.encode()).returncode:
                time.sleep(PAUSE_S)
            sent += due
            out.write(lines)
            out.flush()
            time.sleep(PAUSE_S)


main()
