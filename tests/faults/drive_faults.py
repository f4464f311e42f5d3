"""The faults of drive.py: each is many runs of a case (drive_cases).

all_runs() gives a list: for each run its exit code, or as text what is wrong.
Everywhere case is prepared, clean its run without fault, and every as on the
command line.
"""
import concurrent.futures
import os
import random
import tempfile

from drive_base import want
from drive_runs import one, run
from drive_streams import many


def run_all(case, clean, cases):
    if case.parallel == 1:
        return [one(case, clean, *some) for some in cases]
    with concurrent.futures.ThreadPoolExecutor(case.parallel) as pool:
        return list(pool.map(lambda some: one(case, clean, *some), cases))


def torn(case, clean, every):
    """Batches that came whole are the most there may be in the output."""
    for count in range(random.randrange(every), len(case.data), every):
        data = case.data[:count]
        yield (f"after {count} bytes", data, None, (75,),
               case.batches_in(data))


def flipped(case, clean, every):
    for bit in range(random.randrange(every), 8 * len(case.data), every):
        data = bytearray(case.data)
        data[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(data), None, (65, 75), \
            case.batches_in(case.data[:bit // 8])


def failing(case, clean, kind, every):
    """K = 1 and on, about every EVERY-th, until none fails."""
    codes = {"malloc": (0, 71), "thread": (0, 71),
             "call": (0, 66, 69, 71, 74, 75)}[kind]
    results, last, number = [], False, 1
    with tempfile.TemporaryDirectory() as folder:
        while not last:
            cases, logs = [], []
            for _ in range(case.parallel):
                logs.append(f"{folder}/{number}")
                cases.append((f"{kind} {number}", case.data,
                              f"fail={kind}:{number} log={logs[-1]}", codes,
                              case.batches_in(case.data)))
                number += random.randint(1, 2 * every - 1)
            for log, result in zip(logs, run_all(case, clean, cases)):
                last |= not os.path.exists(log)
                if not isinstance(result, int) and os.path.exists(log):
                    result += " (" + open(log).read().strip() + ")"
                results.append(result)
    want(len(results) > 1, "nothing has failed")
    return results


def few_files(case, clean):
    """Of 3 the dynamic linker gets none."""
    most = case.batches_in(case.data)
    return [one(case, clean, f"{files} files", case.data, None,
                (0, 69, 71, 75), most, files=files)
            for files in range(4, 13, 2)]


def silent(case, clean):
    with open("/dev/full", "wb") as full:
        return [one(case, clean, "/dev/full", case.data, None, (0,),
                    case.batches_in(case.data), err=full)]


def rough(case, clean):
    most = case.batches_in(case.data)
    return [one(case, clean, words, case.data, words, (0,), most, slowly=True)
            for words in ("short", "storm=100", "short storm=100")]


def stopped(case):
    case.data = many(case.kind)
    case.learn()
    case.prepare()
    clean = run(case.command, case.data)
    want(clean.code == 0 and len(clean.out) > 100000, clean.err, len(clean.out))
    return [one(case, clean, f"stopped {words}", case.data, words, (0,),
                case.batches_in(case.data), stop=True)
            for words in (None, "storm=100")]


def all_runs(fault, case, clean, every):
    if fault in ("malloc", "call", "thread"):
        return failing(case, clean, fault, every)
    if fault == "files":
        return few_files(case, clean)
    if fault == "silent":
        return silent(case, clean)
    if fault == "stopped":
        return stopped(case)
    if fault == "rough":
        return rough(case, clean)
    cases = {"torn": torn, "flipped": flipped}[fault](case, clean, every)
    return run_all(case, clean, list(cases))
