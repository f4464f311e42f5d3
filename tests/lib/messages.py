#!/usr/bin/env python3
"""messages.py COUNT [SEED [MOST]]: COUNT Outbox messages as JSON lines.

Most go to two people, some to groups, a few to MOST (300) recipients; the
conversation_seq of each conversation is dense from 1.  The same for the same
arguments.
"""
import json
import random
import sys


def group_size(rnd, most):
    dice = rnd.random()
    if dice < .05:
        return 1
    if dice < .75:
        return 2
    if dice < .95:
        return rnd.randint(3, 10)
    if dice < .995:
        return rnd.randint(11, 60)
    return most


def main():
    count = int(sys.argv[1])
    rnd = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    users = [f"user-{i}" for i in range(20000)]
    groups = [rnd.sample(users, min(most, group_size(rnd, most)))
              for _ in range(max(1, count // 20))]
    groups[0] = rnd.sample(users, most)
    seqs = [0] * len(groups)
    out = []
    for i in range(count):
        number = rnd.randrange(len(groups))
        seqs[number] += 1
        out.append(json.dumps({
            "message_id": f"m{i}", "conversation_id": f"c{number}",
            "conversation_seq": seqs[number],
            "sender": rnd.choice(groups[number]),
            "created_at": 1700000000000 + i,
            "payload": {"text": "x" * rnd.randint(5, 120)},
            "recipients": groups[number]}, separators=(",", ":")))
    print("\n".join(out))


if __name__ == "__main__":
    main()
