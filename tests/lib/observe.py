#!/usr/bin/env python3
"""observe.py BROKERS REDIS OUTBOX DISPATCH GROUP RUN [SECRET...]

Beside running chains, five times a second until a TERM, into RUN/observed a
JSON line each of

    committed, ends    what GROUP-fanout has committed, and after that the
                       ends of DISPATCH
    committed, marks   what GROUP-mailbox has committed, and after that the
                       marks in Redis

where there are answers: all that is committed must be there afterwards.  Each
is seen once, if only after the TERM, within 20 s.  Last
a line of the processes that have QIM_FAULTS_RUN=RUN in their environment: by
program the most KiB, threads and descriptors that one ever had, and what
stood in arguments or environment that may not: payload, or a SECRET.
"""
import importlib.util
import json
import os
import signal
import sys
import time

import mailboxes

PAYLOAD = "xxxxx"   # in each of load.py's
PAUSE_S = 0.2
AFTERWARDS_S = 20


def load_admin():
    path = os.path.join(os.path.dirname(__file__), "kafka-admin.py")
    spec = importlib.util.spec_from_file_location("kafka_admin", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ANSWER_SECONDS = 0.5
    return module


class Processes:
    def __init__(self, run, secrets):
        self.mine = f"QIM_FAULTS_RUN={run}".encode()
        self.wrong = [s.encode() for s in [PAYLOAD, *secrets]]
        self.most = {}
        self.found = set()

    def look(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                self.look_at(f"/proc/{pid}")
            except OSError:
                continue    # it has gone

    def look_at(self, at):
        with open(f"{at}/environ", "rb") as f:
            environment = f.read()
        if self.mine not in environment.split(b"\0"):
            return
        with open(f"{at}/cmdline", "rb") as f:
            arguments = f.read()
        with open(f"{at}/status") as f:
            status = dict(line.split(":", 1) for line in f)
        name = status["Name"].strip()
        if "VmHWM" not in status:
            return
        if any(w in environment or w in arguments for w in self.wrong):
            self.found.add(name)
        now = (int(status["VmHWM"].split()[0]), int(status["Threads"]),
               len(os.listdir(f"{at}/fd")))
        was = self.most.get(name, now)
        self.most[name] = tuple(map(max, was, now))


def main():
    brokers, redis, outbox, dispatch, group, run, *secrets = sys.argv[1:]
    admin = load_admin()
    cluster = admin.Cluster(brokers)
    nodes = {}
    processes = Processes(run, secrets)

    def marks():
        found = {}
        for address in redis.split(","):
            node = nodes.get(address) or mailboxes.Redis(address)
            nodes[address] = None
            node.socket.settimeout(1)
            for key in list(node.keys("qim:{*}:mark")):
                node.send([("ZRANGE", key, 0, -1, "WITHSCORES")])
                found[mailboxes.partition_of(key)] = int(node.reply()[1])
            nodes[address] = node
        return found

    def snapshot(of, topic, what, ask):
        committed = {f[1]: f[2] for f in
                     admin.committed_offsets(cluster, f"{group}-{of}", topic)}
        print(json.dumps({"committed": committed, what: ask()}), file=out,
              flush=True)
        if any(at > 0 for at in committed.values()):
            unseen.discard(of)

    stop, unseen = [], {"fanout", "mailbox"}
    signal.signal(signal.SIGTERM, lambda *_: stop.append(time.monotonic()))
    with open(f"{run}/observed", "w") as out:
        while not stop or (unseen and
                           time.monotonic() < stop[0] + AFTERWARDS_S):
            for args in (
                    ("fanout", outbox, "ends",
                     lambda: admin.find_offsets(cluster, dispatch, -1)),
                    ("mailbox", dispatch, "marks", marks)):
                try:
                    snapshot(*args)
                except (admin.KafkaError, OSError, ValueError, IndexError,
                        SystemExit):
                    pass
            processes.look()
            time.sleep(PAUSE_S)
        print(json.dumps({"processes": processes.most,
                          "found": sorted(processes.found)}), file=out)


main()
