"""figures.py WORK BROKERS: CPU time with figures over that without, in pairs,
and what they cost in a second in which nothing else happens.

WORK has the streams `records` and `plan`.
"""
import os
import resource
import statistics
import subprocess
import sys
import time

PAIRS = 7
IDLE_S = 10


def cpu(command, stdin):
    """Seconds of CPU of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(stdin, "rb") as data:
        subprocess.run(command, stdin=data, stdout=subprocess.DEVNULL,
                       check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime +
            after.ru_stime - before.ru_stime)


def compare(name, command, more, stdin):
    """A B B A A B ...: a drift of the machine falls on both."""
    pairs = []
    cpu(command, stdin)
    for number in range(PAIRS):
        if number % 2:
            with_it = cpu(command + more, stdin)
            without = cpu(command, stdin)
        else:
            without = cpu(command, stdin)
            with_it = cpu(command + more, stdin)
        pairs.append((without, with_it))
    ratios = sorted(b / a for a, b in pairs)
    print(f"{name:34} {statistics.median(a for a, _ in pairs):6.3f} s  "
          f"ratio {statistics.median(ratios):.3f}  "
          f"({ratios[PAIRS // 4]:.3f} to {ratios[-1 - PAIRS // 4]:.3f})",
          flush=True)


def spent_ms(pid):
    """What all threads of a process have run, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
            total += int(stat.read().split()[0])
    return total / 1e6


def idle_ms(command, stdin):
    """Of a second in which nothing comes, after some records have."""
    with open(stdin, "rb") as data:
        begin = data.read(1 << 20)
    process = subprocess.Popen(command, stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    process.stdin.write(begin)
    process.stdin.flush()
    time.sleep(3)
    before = spent_ms(process.pid)
    time.sleep(IDLE_S)
    spent = spent_ms(process.pid) - before
    process.kill()
    process.wait()
    return spent / IDLE_S


def main():
    work, brokers = sys.argv[1:]
    show = ["--stats", os.path.join(work, "stats"), "--prom", work]
    produce = ["dispatch-produce", "-b", brokers, "-t", "dispatch"]
    records, plan = (os.path.join(work, name) for name in ("records", "plan"))
    print("CPU time without, and with over without: median of "
          f"{PAIRS} pairs, and the middle half")
    compare("fanout-plan, twice without", ["fanout-plan"], [], records)
    compare("fanout-plan", ["fanout-plan"], show, records)
    compare("dispatch-produce, twice without", produce, [], plan)
    compare("dispatch-produce", produce, show, plan)
    print("ms of CPU in an idle second, without and with")
    for command, stdin in ((["fanout-plan"], records), (produce, plan)):
        print(f"{command[0]:34} {idle_ms(command, stdin):6.2f} "
              f"{idle_ms(command + show, stdin):6.2f}", flush=True)


main()
