"""times: where the time went, from what the stages say in their receipts."""
import json
import re
import statistics
import subprocess

# As they stand in the chains.
STEPS = [
    ("fanout", "outbox-read", "read"), ("fanout", "fanout-plan", "plan"),
    ("fanout", "dispatch-produce", "enqueue"),
    ("fanout", "dispatch-produce", "acks"),
    ("fanout", "offset-commit", "commit"),
    ("mailbox", "outbox-read", "read"), ("mailbox", "mailbox-apply", "apply"),
    ("mailbox", "offset-commit", "commit"),
]


def dump(path, *options):
    """The lines that stream-dump makes of a tap."""
    with open(path, "rb") as tap:
        done = subprocess.run(["stream-dump", *options], stdin=tap,
                              stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def sum_of(path, field):
    """The sum of a field over all receipts."""
    return sum(frame.get(field, 0) for frame in dump(path) if "batch" in frame)


def read(directory):
    """{(chain, program, step): [ms, …]}, of the batches that had records."""
    found = {key: [] for key in STEPS}
    for chain in ("fanout", "mailbox"):
        for line in dump(f"{directory}/{chain}.tap", "--time"):
            for program, step, _, took_us in line["steps_us"]:
                if line["records"] > 0:
                    found.setdefault((chain, program, step), []).append(
                        took_us / 1000)
        with open(f"{directory}/{chain}.log", errors="replace") as log:
            found[chain, "offset-commit", "commit"] = [
                float(ms) for ms in re.findall(
                    r"offset-commit: info: committed in ([0-9.]+) ms",
                    log.read())]
    return found


def show(directory):
    print(f"  {'chain':8} {'program':16} {'step':9} {'batches':>7}"
          f" {'ms, median':>11} {'ms, longest':>11} {'s, all':>8}")
    for (chain, program, step), ms in read(directory).items():
        if ms:
            print(f"  {chain:8} {program:16} {step:9} {len(ms):7,}"
                  f" {statistics.median(ms):11,.2f} {max(ms):11,.2f}"
                  f" {sum(ms) / 1000:8,.2f}")
