#!/usr/bin/env python3
"""drive.py: a program run again and again, each time with another fault.

    drive.py torn PROGRAM [EVERY]         its input ends after N bytes, for each N
    drive.py flipped PROGRAM [EVERY]      a bit of its input is another, for each
    drive.py malloc PROGRAM [EVERY]       the K-th allocation fails, for each K
    drive.py call PROGRAM [EVERY]         the K-th system call fails, for each K
    drive.py thread PROGRAM               K - 1 threads are all it gets
    drive.py files PROGRAM                K descriptors are all it gets
    drive.py rough PROGRAM                one byte a call, and a storm of signals
    drive.py silent PROGRAM               stderr takes nothing
    drive.py stopped PROGRAM              the reader of a long output sleeps

EVERY: of the cases one in so many, from a random one on.  BROKERS is a mock broker with the topics o
and d, of one partition each, and REDIS host:port of an empty server of one's
own, where the program needs it.  LD_PRELOAD of faulty.so is FAULTY_SO.

Of each run: the exit code is one of those the fault may have, with one line of
error (none with 0); the output is that of a run without fault, times excepted,
or where the exit isn't 0 a beginning of it without the end; each receipt is of
a batch that came whole and is where it says; and what was begun is finished by
the next run.  Prints how many runs ended how.

Its parts: the programs are in drive_cases, with drive_mailboxes and drive_case,
what they read in drive_streams and work on in drive_stores; the faults are in
drive_faults, what must hold of a run in drive_runs.
"""
import collections
import os
import resource
import sys

from drive_base import Wrong, want
from drive_cases import CASES
from drive_faults import all_runs
from drive_runs import run

MEMORY_MOST_KB = 64 * 1024


def tell(case, fault, results):
    counts = collections.Counter(r for r in results if isinstance(r, int))
    ends = ", ".join(f"{code} x {count}"
                     for code, count in sorted(counts.items()))
    print(f"{fault} {sys.argv[2]}: {sum(counts.values())} runs: {ends}")
    bad = [r for r in results if not isinstance(r, int)]
    for text in bad[:5]:
        print(f"wrong: {text}")
    if "QIM_FAULTS_TALLY" in os.environ:
        with open(os.environ["QIM_FAULTS_TALLY"], "a") as tally:
            tally.write(f"{len(results)} 0 0 0\n")
    return not bad and counts


def main():
    fault, case = sys.argv[1], CASES[sys.argv[2]]()
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    case.prepare()
    clean = run(case.command, case.data, input_fd=case.input_fd)
    want(clean.code == 0, "without fault:", clean)
    results = all_runs(fault, case, clean, every)
    memory_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    want(memory_kb < MEMORY_MOST_KB, "memory:", memory_kb, "kB")
    sys.exit(0 if tell(case, fault, results) else 1)


if __name__ == "__main__":
    try:
        main()
    except Wrong as is_wrong:
        sys.exit(f"wrong: {is_wrong}")
