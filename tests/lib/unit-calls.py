#!/usr/bin/env python3
"""unit-calls.py UNIT TRACE: what a trace by `strace -f` holds that the unit forbids: system calls, address families,
memory that is both written and executed.  A line each; nothing where all is allowed.
"""
import re
import subprocess
import sys

# With a list of what is allowed, systemd adds these.
ALWAYS = "@default execve rt_sigreturn sigreturn restart_syscall".split()


def groups():
    members, group = {}, None
    text = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        if line.startswith("@"):
            group = members.setdefault(line.strip(), set())
        elif not line.startswith(" "):
            group = None
        elif group is not None and line.strip() and not line.strip().startswith("#"):
            group.add(line.strip())
    return members


def resolve(words, members):
    calls = set()
    for word in words:
        calls |= resolve(members[word], members) if word.startswith("@") else {word}
    return calls


def main():
    members, families = groups(), set()
    calls = resolve(ALWAYS, members)
    for line in open(sys.argv[1]):
        name, _, value = line.strip().partition("=")
        if name == "SystemCallFilter" and value.startswith("~"):
            calls -= resolve(value[1:].split(), members)
        elif name == "SystemCallFilter":
            calls |= resolve(value.split(), members)
        elif name == "RestrictAddressFamilies":
            families |= set(value.split())
    found, seen = set(), 0
    for line in open(sys.argv[2], errors="replace"):
        call = re.match(r"\d+ +([a-z0-9_]+)\((.*)", line)
        if not call:
            continue
        seen += 1
        name, arguments = call.groups()
        if name not in calls:
            found.add(f"call {name}")
        family = re.match(r"AF_\w+", arguments) if name == "socket" else None
        # glibc asks for the host's addresses, and takes a no.
        if family and family[0] not in families | {"AF_NETLINK"}:
            found.add(f"family {family[0]}")
        if "PROT_EXEC" in arguments and (name == "mprotect" or "PROT_WRITE" in arguments):
            found.add(f"memory {name}")
    print(f"{seen} calls", file=sys.stderr)
    print("\n".join(sorted(found)), end="")
    return 0 if seen else 1


sys.exit(main())
