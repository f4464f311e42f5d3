"""One run of a program for drive.py, with a fault, and what must hold of it.

What goes wrong is a Wrong; one() gives it as text instead, so that the other
runs go on.  LD_PRELOAD of faulty.so is FAULTY_SO of the environment.
"""
import collections
import os
import signal
import subprocess
import tempfile
import threading
import time

from drive_base import Wrong, want
from drive_case import CONNECT_MS
from drive_streams import batches, frames

HANGS_S = 60
HURRIED_MS = "1500"     # for what can't connect: too few descriptors
READER_SLEEPS_S = 0.5
FEED_PIECES = 8
FEED_PAUSE_S = 0.005
SO = os.environ.get("FAULTY_SO", "")


Run = collections.namedtuple("Run", "code out err")


def feed(file, data):
    """In pieces that are waited for, so that signals come into the waiting."""
    step = len(data) // FEED_PIECES + 1
    try:
        for at in range(0, len(data), step):
            time.sleep(FEED_PAUSE_S)
            file.write(data[at:at + step])
            file.flush()
        file.close()
    except BrokenPipeError:
        pass


def run(command, data, faulty=None, err=subprocess.PIPE, files=None,
        stop=False, slowly=False, input_fd=0):
    env = dict(os.environ)
    if faulty is not None:
        env |= {"LD_PRELOAD": SO, "FAULTY": faulty}
    if files is not None:
        command = ["prlimit", f"--nofile={files}", *command]
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE if slowly else file, env=env,
            stderr=err, stdout=subprocess.PIPE, close_fds=input_fd == 0,
            preexec_fn=(lambda: os.dup2(0, input_fd)) if input_fd else None)
        if slowly:
            threading.Thread(target=feed, args=(process.stdin, data)).start()
            process.stdin = None  # it is the thread's
        try:
            if stop:
                time.sleep(READER_SLEEPS_S)
                want(process.poll() is None, "it hasn't waited for its reader")
            out, text = process.communicate(timeout=HANGS_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            raise Wrong(f"no end within {HANGS_S} s") from None
    return Run(process.returncode, out, (text or b"").decode())


def check_run(case, result, clean, codes):
    code, said = result.code, case.said(result.err)
    errors = case.errors(said)
    want(code in codes, "exit", code, said)
    want(len(errors) == (code != 0), "exit", code, "with", errors)
    want(all(line.startswith(case.name + ": ")
             for line in said.splitlines()), said)
    if not case.is_stream:
        out = case.same_text(code, result.out)
        want(clean.out.startswith(out), "output", out)
        want(code != 0 or clean.out == result.out, "output", result.out)
        return result.out
    found = list(map(case.same, frames(result.out)))
    whole = list(map(case.same, frames(clean.out)))
    want(found == whole[:len(found)], "frames", found, "instead of", whole)
    want((len(found) == len(whole)) >= (code == 0), "0 without an end")
    want(code in (0, 74) or len(found) < len(whole), "an end with", code)
    return found


def hurried(command):
    return [HURRIED_MS if word == CONNECT_MS else word for word in command]


def one(case, clean, label, data, faulty, codes, most, **more):
    """A run; its exit code, or what is wrong.  Most is how many batches it
    gets whole."""
    try:
        case.prepare()
        command = hurried(case.command) if "files" in more else case.command
        result = run(command, data, faulty, input_fd=case.input_fd, **more)
        found = check_run(case, result, clean, codes)
        if case.is_stream:
            want(len(batches(found)) <= most, len(batches(found)),
                 "batches of", most)
        case.check(result.code, found, most)
        return result.code
    except Wrong as wrong:
        return f"{label}: {wrong}"
