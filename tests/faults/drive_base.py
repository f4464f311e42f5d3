"""What all parts of drive.py use: what must hold, and programs that help."""
import subprocess


class Wrong(Exception):
    """What isn't as it must be."""


def want(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


def tool(*command, data=b""):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE,
                          check=True).stdout
