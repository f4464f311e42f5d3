#!/usr/bin/env python3
"""loop.py MESSAGES: the chain and the serial loop in turn; see loop."""
import hashlib
import os
import statistics
import subprocess
import sys

import msgpack

import measure

BROKERS = os.environ["KAFKA_BROKERS"]
BROKER_PID = int(os.environ["BROKER_PID"])
MESSAGES = int(sys.argv[1])
RUNS = 3


def chain(group):
    return [["outbox-read", "-q", "-b", BROKERS, "-t", "outbox", "-g", group,
             "-e", "--first", "beginning"],
            ["fanout-plan"],
            ["dispatch-produce", "-b", BROKERS, "-t", "dispatch-chain"],
            ["offset-commit", "-b", BROKERS, "-g", group]]


def loop(topic, *options):
    return lambda group: [["serial-loop", "-b", BROKERS, "-t", "outbox", "-d",
                           topic, "-g", group, "-c", str(MESSAGES), *options]]


# Each with a topic of its own, for the comparison.
PEERS = {
    "chain": ("the chain", chain),
    "careful": ("serial loop, linger.ms=0",
                loop("dispatch-careful", "-X", "linger.ms=0")),
    "plain": ("serial loop, linger.ms=5", loop("dispatch-plain")),
}


def run(name, number):
    commands = PEERS[name][1](f"{name}-{number}")
    before = measure.cpu_of(BROKER_PID)
    seconds, usage = measure.pipeline(commands, out=subprocess.DEVNULL)
    broker = measure.cpu_of(BROKER_PID) - before
    per_message = {program: (user + system) * 1e6 / MESSAGES
                   for program, user, system in usage}
    return {"rate": MESSAGES / seconds, "cpu": sum(per_message.values()),
            "broker": broker * 1e6 / MESSAGES, "programs": per_message}


def fingerprint(topic):
    """(records, a sum that doesn't depend on their order)."""
    count = total = 0
    reader = subprocess.Popen(
        ["outbox-read", "-q", "-b", BROKERS, "-t", topic, "-o", "beginning",
         "-e"], stdout=subprocess.PIPE)
    frames = msgpack.Unpacker(reader.stdout, max_buffer_size=1 << 25)
    for frame in frames:
        batch = msgpack.unpackb(frame)[1]
        for source, _, _, key, value, *_ in batch.get("rec", []):
            record = repr((batch["src"][source][1], key, value))
            digest = hashlib.blake2b(record.encode(), digest_size=16).digest()
            total += int.from_bytes(digest, "big")
            count += 1
    if reader.wait() != 0:
        sys.exit(f"outbox-read: exit {reader.returncode}")
    return count, total % (1 << 128)


def compare():
    """All have written the same dispatches, or the figures mean nothing."""
    found = {name: fingerprint(f"dispatch-{name}") for name in PEERS}
    if len(set(found.values())) != 1:
        sys.exit(f"loop: the dispatches differ: {found}")
    return found["chain"][0]


def median(runs, figure):
    return statistics.median(run[figure] for run in runs)


def cpu_of(program, runs):
    return statistics.median(run["programs"][program] for run in runs)


def report(runs, dispatches):
    print(f"{MESSAGES} messages of 300 bytes of JSON to 2 recipients, "
          f"{dispatches} dispatches, the same from all; "
          f"medians of {RUNS} runs in turn")
    print(f"{'':26}{'messages/s':>12}{'CPU a message':>16}"
          f"{'of the broker':>16}")
    for name, (title, _) in PEERS.items():
        print(f"{title:26}{median(runs[name], 'rate'):12,.0f}"
              f"{median(runs[name], 'cpu'):13.1f} us"
              f"{median(runs[name], 'broker'):13.1f} us")
    print("the chain's CPU a message: " + ", ".join(
        f"{name} {cpu_of(name, runs['chain']):.1f} us"
        for name in runs["chain"][0]["programs"]))
    for name in ("careful", "plain"):
        ratio = median(runs["chain"], "rate") / median(runs[name], "rate")
        print(f"ratio to the {PEERS[name][0]}: {ratio:.1f}")
    print("wanted: a ratio of at least 5, at most 8 us a message")


def main():
    # The first round warms the broker up and is compared, not measured.
    for name in PEERS:
        run(name, 0)
    dispatches = compare()
    runs = {name: [] for name in PEERS}
    for number in range(1, RUNS + 1):
        for name in PEERS:
            runs[name].append(run(name, number))
    report(runs, dispatches)


main()
