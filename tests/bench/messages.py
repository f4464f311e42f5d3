#!/usr/bin/env python3
"""messages.py COUNT BYTES RECIPIENTS: COUNT Outbox messages of BYTES bytes of
JSON, each to RECIPIENTS of 20,000 people, a line "key TAB message" each for
kcat -K; always the same ones."""
import json
import random
import sys

count, size, recipients = map(int, sys.argv[1:])
rnd = random.Random(1)
users = [f"user-{i:05}" for i in range(20000)]
seqs = [0] * 5000
for i in range(count):
    number = rnd.randrange(len(seqs))
    seqs[number] += 1
    to = rnd.sample(users, recipients)
    message = {
        "message_id": f"m{i:08}", "conversation_id": f"c{number:04}",
        "conversation_seq": seqs[number], "sender": to[0],
        "created_at": 1700000000000 + i, "payload": {"text": ""},
        "recipients": to}
    left = size - len(json.dumps(message, separators=(",", ":")))
    message["payload"]["text"] = "x" * left
    print(message["conversation_id"],
          json.dumps(message, separators=(",", ":")), sep="\t")
