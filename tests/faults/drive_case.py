"""What the cases of drive.py have in common: a program that can be run."""
import re

from drive_streams import batches, frames

CONNECT_MS = "20000"


class Case:
    """A program, what it reads, and what must be after each run."""
    input_fd = 0          # where it reads it
    is_stream = True      # what it writes
    parallel = 1          # runs at once: those of a broker wait mostly

    def __init__(self):
        self.data = self.input()

    def input(self):
        return b""

    def learn(self):
        """What a run without fault leaves, with these data."""

    def prepare(self):
        """Before each run."""

    @property
    def command(self):
        return [self.name]

    def batches_in(self, data):
        """How many have come whole."""
        return len(batches(frames(data)))

    def same(self, frame):
        """What of a frame is the same in each run."""
        return frame

    def same_text(self, code, text):
        """What of an output that isn't a stream is the same."""
        return text

    def said(self, text):
        """What it has said of itself on stderr."""
        return text

    def errors(self, text):
        """The lines that say what the exit code is for."""
        return re.findall(rf"^{self.name}: error: .*$", text, re.M)

    def check(self, code, found, most):
        """After each run: found are its frames, or its bytes, most is how
        many batches it was given."""
