#!/usr/bin/env python3
"""load.py RATE SEED: so many Outbox messages a second, until a TERM.

As JSON lines, those of 200 conversations, which no other seed has; most go to
two people, some to groups of up to 60.  What was begun is written whole.
"""
import json
import random
import signal
import sys
import time

import messages

TICK_S = 0.02


def main():
    rate, seed = float(sys.argv[1]), int(sys.argv[2])
    rnd = random.Random(seed)
    users = [f"user-{i}" for i in range(2000)]
    groups = [rnd.sample(users, messages.group_size(rnd, 60))
              for _ in range(200)]
    seqs = [0] * len(groups)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    start, sent = time.monotonic(), 0
    while not stop:
        due = int((time.monotonic() - start) * rate) - sent
        for _ in range(due):
            number = rnd.randrange(len(groups))
            seqs[number] += 1
            sent += 1
            print(json.dumps({
                "message_id": f"m{seed}-{sent}",
                "conversation_id": f"c{seed}-{number}",
                "conversation_seq": seqs[number],
                "sender": rnd.choice(groups[number]),
                "created_at": 1700000000000 + sent,
                "payload": {"text": "x" * rnd.randint(5, 120)},
                "recipients": groups[number]}, separators=(",", ":")))
        sys.stdout.flush()
        time.sleep(TICK_S)


main()
