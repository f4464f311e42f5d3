#!/usr/bin/env python3
"""prom-check FILE...: the text format 0.0.4 of Prometheus, strictly.

Prints "NAME TYPE HELP" for each metric, sorted. Several files are one scrape,
as the textfile collector makes of them: each series once, and one help and
type for a name. Exits 1 with the line that is wrong.
"""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)")
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?$")
SUFFIXES = ("_bucket", "_sum", "_count")


def refuse(file, number, why):
    sys.exit(f"{file}:{number}: {why}")


class Scrape:
    def __init__(self):
        self.metrics = {}  # name -> (type, help)
        self.series = set()

    def take_file(self, file):
        with open(file, encoding="utf-8", newline="\n") as lines:
            text = lines.read()
        if not text.endswith("\n"):
            refuse(file, "end", "no newline: not whole")
        self.done, self.name, self.help, self.buckets = set(), None, None, {}
        for number, line in enumerate(text.splitlines(), 1):
            why = self.take_line(line)
            if why:
                refuse(file, number, f"{why}: {line}")

    def take_line(self, line):
        if line.startswith("# HELP "):
            _, _, name, self.help = line.split(" ", 3)
            if name in self.done:
                return "not one group"
            self.done.add(name)
            self.name = name
            return None
        if line.startswith("# TYPE "):
            return self.take_type(*line.split(" ")[2:])
        return self.take_sample(line)

    def take_type(self, name, kind):
        known = self.metrics.setdefault(name, (kind, self.help))
        if name != self.name or known != (kind, self.help):
            return "another help or type"
        if not re.fullmatch(r"qim_[a-z0-9_]+", name):
            return "name"
        if (kind == "counter") != name.endswith("_total"):
            return "a counter ends with _total"
        if kind == "histogram" and not name.endswith("_seconds"):
            return "a histogram is of seconds"
        return None

    def take_sample(self, line):
        match = SAMPLE.fullmatch(line)
        if not match or not NUMBER.match(match[7]):
            return "not a sample"
        name, value = match[1], float(match[7])
        labels = re.findall(LABEL, match[2] or "")
        if len({key for key, _ in labels}) != len(labels):
            return "a label twice"
        if "program" not in dict(labels):
            return "no program"
        base = name
        if self.metrics.get(self.name, ("",))[0] == "histogram":
            base = re.sub(r"(_bucket|_sum|_count)$", "", name)
            if base == name:
                return "not a part of a histogram"
        if base != self.name:
            return f"not of {self.name}"
        key = (name, tuple(sorted(labels)))
        if key in self.series:
            return "twice"
        self.series.add(key)
        if name != base:
            return self.take_bucket(name[len(base):], dict(labels), value)
        return None

    def take_bucket(self, suffix, labels, value):
        bound = labels.pop("le", None)
        if (bound is None) == (suffix == "_bucket"):
            return "le"
        key = (self.name, tuple(sorted(labels.items())))
        last_bound, last = self.buckets.get(key, (-1, 0))
        if suffix == "_bucket":
            bound = float(bound)
            if bound <= last_bound or value < last:
                return "buckets don't rise"
            self.buckets[key] = (bound, value)
        elif last_bound != float("inf"):
            return "no bucket for all"
        elif suffix == "_count" and value != last:
            return "count isn't the last bucket's"
        return None


scrape = Scrape()
for argument in sys.argv[1:]:
    scrape.take_file(argument)
for name, (kind, text) in sorted(scrape.metrics.items()):
    print(name, kind, text)
