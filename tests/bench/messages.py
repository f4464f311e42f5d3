#!/usr/bin/env python3
"""messages.py COUNT BYTES RECIPIENTS: COUNT Outbox messages of BYTES bytes of
JSON, each to RECIPIENTS of 20,000 people, a line "key TAB message" each for
kcat -K; always the same ones."""
import random
import sys

count, size, recipients = map(int, sys.argv[1:])
rnd = random.Random(1)
seqs = [0] * 5000
for i in range(count):
    number = rnd.randrange(len(seqs))
    seqs[number] += 1
    to = [f"user-{user:05}" for user in rnd.sample(range(20000), recipients)]
    front = (f'{{"message_id":"m{i:08}","conversation_id":"c{number:04}",'
             f'"conversation_seq":{seqs[number]},"sender":"{to[0]}",'
             f'"created_at":{1700000000000 + i},"payload":{{"text":"')
    back = '"},"recipients":["' + '","'.join(to) + '"]}'
    text = "x" * (size - len(front) - len(back))
    print(f"c{number:04}\t{front}{text}{back}")
