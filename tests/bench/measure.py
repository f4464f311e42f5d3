"""measure.py: run processes joined by pipes; what time and CPU each took."""
import os
import subprocess
import time


class Failed(Exception):
    pass


def cpu_of(pid):
    """Seconds of CPU that a process has used so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(commands, out, err):
    processes = []
    for number, command in enumerate(commands):
        last = number == len(commands) - 1
        processes.append(subprocess.Popen(
            command, stdin=processes[-1].stdout if processes else None,
            stdout=out if last else subprocess.PIPE, stderr=err))
        if number > 0:
            processes[-2].stdout.close()
    return processes


def pipeline(commands, out=None, err=None):
    """Runs them to the end: (seconds, [(program, user, system), ...])."""
    begin = time.monotonic()
    usage, failed = [], []
    for process in start(commands, out, err):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            failed.append(f"{process.args[0]}: exit {process.returncode}")
        usage.append((process.args[0], used.ru_utime, used.ru_stime))
    if failed:
        raise Failed(", ".join(failed))
    return time.monotonic() - begin, usage
