#!/usr/bin/env python3
"""guarantees.py: each row of docs/guarantees.md names tests that there are.

The last of four columns is `the same`, or between semicolons files under
tests/, by the beginning of their names, with a part of a test's name behind
them in backquotes.  Prints what isn't there and exits 1.
"""
import glob
import os
import re
import sys

root = os.path.join(os.path.dirname(__file__), "..")


def wrong_of(cell):
    for part in cell.split(";"):
        names, _, words = part.strip().partition("`")
        for name in names.strip().split(", "):
            found = [file for end in ("", "-*") for kind in ("bats", "c")
                     for file in glob.glob(f"{root}/{name}{end}.{kind}")]
            if len(found) != 1:
                yield f"{len(found)} files are '{name}'"
            elif words and not any(
                    re.search("@test .*" + re.escape(words.rstrip("`")), line)
                    for line in open(found[0])):
                yield f"{name} has no test '{words.rstrip('`')}'"


def main():
    rows, wrong = 0, []
    with open(f"{root}/../docs/guarantees.md") as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if len(cells) != 4 or cells[3] in ("---", "test", "the same"):
                continue
            rows += 1
            wrong += [f"{cells[0]}: {w}" for w in wrong_of(cells[3])]
    print(f"rows {rows}", *wrong, sep="\n")
    sys.exit(bool(wrong) or rows < 20)


main()
