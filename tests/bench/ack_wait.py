#!/usr/bin/env python3
"""ack_wait.py list|run|sort|table: the parts of ack-wait.

    list [--quick] [NAME=VALUE]...  brokers, round trip and words of each point
    run STATE POINT...              measure one: a line of columns
    sort                            such lines as list has them, and a head
    table                           what sort prints, for people
"""
import json
import math
import os
import statistics
import subprocess
import sys

import msgpack

import measure

HERE = os.path.dirname(__file__)
BATCH = 512
WARM = 5                # batches that aren't counted

# What each base has; a point gives some of them another value.
ALWAYS = {"idempotent": "false", "connections": "1", "brokers": "1",
          "copies": "1", "rtt": "0", "proxy": "no", "busy": "0"}
LENGTHS = {"seconds": "4", "batches": "600"}    # of a point, at most
QUICK = ["seconds=1", "batches=150"]
BASES = {
    "serial": {"linger": "5", "in-flight": "1000000", "nagle": "on",
               "wait": "reports"},
    "chain": {"window": "16", "linger": "1", "in-flight": "5",
              "nagle": "off"},
}
STEPS = ["read", "plan", "enqueue", "acks", "commit"]
LATENCIES = ["int_latency", "outbuf_latency", "rtt"]
COLUMNS = (["point", "batches", "ms_per_batch"] + STEPS +
           ["acks_p99", "requests_per_batch",
            "records_per_request"] +
           [f"{name}_{figure}" for name in LATENCIES
            for figure in ("avg", "p99")])


# --- points ------------------------------------------------------------------

def settings_of(words):
    base, given = words[0], dict(word.split("=") for word in words[1:])
    settings = {**ALWAYS, **LENGTHS, **BASES[base]}
    unknown = set(given) - set(settings)
    if unknown:
        sys.exit(f"ack-wait: {' '.join(words)}: no such setting: {unknown}")
    settings.update(given)
    if settings["idempotent"] == "true" and "in-flight" not in given:
        settings["in-flight"] = "5"     # librdkafka allows no more
    return settings


def name_of(words):
    return " ".join(word for word in words
                    if word.split("=")[0] not in LENGTHS)


def place_of(words):
    settings = settings_of(words)
    return settings["brokers"], float(settings["rtt"])


def list_points(arguments):
    quick = "--quick" in arguments
    wanted = set(arguments) - {"--quick"}
    points = []
    with open(f"{HERE}/ack-wait.points") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            starred = words[:1] == ["*"]
            words = words[starred:]
            if words and (starred or not quick) and wanted <= set(words):
                points.append(words + QUICK if quick else words)
    for words in sorted(points, key=place_of):     # few changes of clusters
        print(*place_of(words), *words)


# --- measuring ---------------------------------------------------------------

def properties(settings):
    values = {"linger.ms": settings["linger"],
              "max.in.flight": settings["in-flight"],
              "socket.nagle.disable": str(settings["nagle"] == "off").lower(),
              "statistics.interval.ms": "200"}
    return [word for name, value in values.items()
            for word in ("-X", f"{name}={value}")]


def brokers_of(settings):
    proxied = settings["proxy"] == "yes" or settings["rtt"] != "0"
    return os.environ["KAFKA_PROXIED" if proxied else "KAFKA_BROKERS"]


def run_serial(settings, state, group, topic):
    """The steps of each batch, in ms; how long a batch takes."""
    command = ["serial-loop", "-b", brokers_of(settings), "-t", "outbox",
               "-d", topic, "-g", group, "-c",
               str(int(settings["batches"]) * BATCH),
               "--seconds", settings["seconds"], "--stats", f"{state}/stats",
               "--connections", settings["connections"],
               *properties(settings)]
    if settings["idempotent"] == "true":
        command += ["-X", "enable.idempotence=true"]
    if settings["wait"] == "flush":
        command.append("--flush")
    with open(f"{state}/batches", "w") as out:
        measure.pipeline([command], out=out)
    with open(f"{state}/batches") as lines:
        rows = [[int(word) for word in line.split()] for line in lines]
    batches = [dict(zip(STEPS, [us / 1000 for us in row[2:]]))
               for row in rows]
    batches = batches[WARM:] or batches
    return batches, statistics.median(sum(b.values()) for b in batches)


def receipts_in(path):
    with open(path, "rb") as stream:
        for frame in msgpack.Unpacker(stream, max_buffer_size=1 << 25):
            content = msgpack.unpackb(frame)[1]
            if content.get("in", 0) > 0:
                yield content


def commits_in(path):
    """The times that offset-commit -v tells."""
    with open(path) as lines:
        return [float(line.split("committed in ")[1].split()[0])
                for line in lines if "committed in " in line]


def run_chain(settings, state, group, topic):
    brokers = ["-b", brokers_of(settings)]
    commands = [
        ["outbox-read", "-q", *brokers, "-t", "outbox", "-g", group,
         "--first", "beginning", "-c", str(int(settings["batches"]) * BATCH)],
        ["fanout-plan"],
        ["dispatch-produce", *brokers, "-t", topic, "-w", settings["window"],
         "--connections", settings["connections"],
         "--kafka-stats", f"{state}/stats", *properties(settings)],
        ["tee", f"{state}/receipts"],
        ["offset-commit", "-v", *brokers, "-g", group]]
    os.environ["QIM_FANOUT_PRODUCER_IDEMPOTENCE"] = settings["idempotent"]
    with open(f"{state}/log", "w+") as log:
        try:
            measure.pipeline(commands, err=log)
        except measure.Failed:
            log.seek(0)
            sys.stderr.writelines(line for line in log if ": error:" in line)
            raise
    receipts = list(receipts_in(f"{state}/receipts"))[WARM:]
    commit = statistics.median(commits_in(f"{state}/log") or [0])
    batches = []
    for receipt in receipts:
        steps = {step: (end - start) / 1000
                 for _, step, start, end in receipt["at"]}
        batches.append({**steps, "commit": commit})
    ends = [receipt["at"][-1][3] for receipt in receipts]
    return batches, (ends[-1] - ends[0]) / 1000 / (len(ends) - 1)


def statistics_of(path):
    """librdkafka's own figures: counts of all clients, weighted means."""
    weights = dict.fromkeys(LATENCIES, 0)
    sums = {(name, figure): 0.0 for name in LATENCIES
            for figure in ("avg", "p99")}
    requests, records = {}, {}
    with open(path) as lines:
        for line in lines:
            figures = json.loads(line)
            brokers = figures["brokers"].values()
            requests[figures["name"]] = sum(
                b["req"].get("Produce", 0) for b in brokers)
            records[figures["name"]] = figures["txmsgs"]
            for broker in brokers:
                for name in LATENCIES:
                    window = broker[name]
                    weights[name] += window["cnt"]
                    for figure in ("avg", "p99"):
                        sums[name, figure] += window["cnt"] * window[figure]
    means = {(name, figure): total / max(1, weights[name]) / 1000
             for (name, figure), total in sums.items()}
    return sum(requests.values()) / max(1, sum(records.values())), means


def spin(count):
    return [subprocess.Popen(["sh", "-c", "while :; do :; done"])
            for _ in range(int(count))]


def run_point(state, *words):
    settings = settings_of(words)
    group = f"bench-{os.getpid()}"
    run = run_serial if words[0] == "serial" else run_chain
    stats = f"{state}/stats"
    if os.path.exists(stats):
        os.unlink(stats)        # the programs add to it
    spinning = spin(settings["busy"])
    try:
        batches, per_batch = run(settings, state, group,
                                 f"dispatch-{settings['copies']}")
    except measure.Failed as failure:
        sys.exit(f"ack-wait: {name_of(words)}: {failure}")
    finally:
        for process in spinning:
            process.kill()
    requests_per_record, means = statistics_of(stats)
    acks = sorted(batch["acks"] for batch in batches)
    row = [per_batch, *(statistics.median(b[step] for b in batches)
                        for step in STEPS),
           acks[len(acks) * 99 // 100],
           requests_per_record * BATCH,
           1 / requests_per_record if requests_per_record else 0,
           *(means[name, figure] for name in LATENCIES
             for figure in ("avg", "p99"))]
    print(name_of(words), len(batches), *(f"{n:.3f}" for n in row), sep="\t",
          flush=True)


# --- the table ---------------------------------------------------------------

def print_sorted(lines):
    with open(f"{HERE}/ack-wait.points") as points:
        order = [name_of(line.lstrip("* ").split()) for line in points]
    print(*COLUMNS, sep="\t")
    for line in sorted(lines, key=lambda l: order.index(l.split("\t")[0])):
        print(line, end="")


def print_table(lines):
    rows = [dict(zip(COLUMNS, line.rstrip("\n").split("\t")))
            for line in lines[1:]]
    print("ms a batch of 512; in the chain the steps overlap, and `ms` is "
          "what a batch adds")
    print(f"{'':50}{'ms':>7} |{'read':>6}{'plan':>6}{'enq':>6}{'acks':>7}"
          f"{'commit':>7} |{'requests':>9}{'ms each':>8} |{'int':>7}"
          f"{'outbuf':>7}{'rtt':>7}{'p99':>7}")
    for row in rows:
        n = {name: float(row[name]) for name in COLUMNS[1:]}
        each = n["ms_per_batch"] if row["point"].startswith("chain") else (
            n["enqueue"] + n["acks"])
        print(f"{row['point']:50}{n['ms_per_batch']:7.2f} |{n['read']:6.1f}"
              f"{n['plan']:6.1f}{n['enqueue']:6.1f}{n['acks']:7.1f}"
              f"{n['commit']:7.1f} |{n['requests_per_batch']:9.1f}"
              f"{each / max(1e-9, n['requests_per_batch']):8.2f} |"
              f"{n['int_latency_avg']:7.2f}{n['outbuf_latency_avg']:7.2f}"
              f"{n['rtt_avg']:7.2f}{n['rtt_p99']:7.2f}")
    print_models(rows)


def print_models(rows):
    """The serial points against the two models of what the wait is."""
    alone = [row for row in rows
             if row["point"] == "serial linger=0 in-flight=1"]
    if not alone:
        return
    service = float(alone[0]["rtt_avg"])
    print(f"\nwhat a wait is made of, where a request alone takes "
          f"{service:.2f} ms (serial linger=0 in-flight=1)")
    print(f"{'':50}{'waits':>8}{'linger + requests':>20}"
          f"{'linger + rounds of':>20}")
    print(f"{'':50}{'':>8}{'one by one':>20}{'a round trip':>20}")
    for row in rows:
        settings = settings_of(row["point"].split())
        if (row["point"].startswith("chain") or settings["busy"] != "0" or
                settings["brokers"] != "1"):
            continue
        linger = 0 if settings["wait"] == "flush" else int(settings["linger"])
        connections = int(settings["connections"])
        requests = float(row["requests_per_batch"]) / connections
        rounds = math.ceil(requests / int(settings["in-flight"]))
        waits = float(row["enqueue"]) + float(row["acks"])
        print(f"{row['point']:50}{waits:8.1f}"
              f"{linger + requests * service:20.1f}"
              f"{linger + rounds * (float(settings['rtt']) + service):20.1f}")


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "list":
        list_points(arguments)
    elif command == "run":
        run_point(*arguments)
    elif command == "sort":
        print_sorted(sys.stdin.readlines())
    else:
        print_table(sys.stdin.readlines())


main()
