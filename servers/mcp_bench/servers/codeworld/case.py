"""What a family of codeworld makes of a seed: files, a prompt, checks and a solution."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ANSWER = "/work/answer.txt"
SHOWN = 200
"""Characters of an output that a grade shows."""
COUNTED = """import contextlib, io, sys

def answer(data):
    sys.stdout.buffer.write(len(data).to_bytes(8, "little") + data)
    sys.stdout.buffer.flush()

answer(b"")
sys.stdin.buffer.read(8)
printed = io.StringIO()
with contextlib.redirect_stdout(printed), open("/check/run.py") as program:
    exec(program.read(), {"__name__": "__main__"})
answer(printed.getvalue().encode())
"""
"""Runs a check's program where the sandbox counts what all its processes use, see `Sandbox.ask`."""


@dataclass(frozen=True)
class Check:
    """One thing that must hold in the end.

    The command runs in a fresh sandbox over the files that the agent left, and what it prints is compared on
    the trusted side: nothing in the sandbox knows what is expected.
    """

    name: str
    command: str
    expected: str
    """What it prints, without white space at both ends."""
    guards: bool = False
    """Whether it holds at the start, and must still hold."""
    seconds: float = 20.0
    processor_seconds: float = 0.0
    """What all processes of the command may use together, however busy the machine is. It is then a program
    that answers one question with its output, see `Sandbox.start`. 0: no limit."""
    files: Mapping[str, str] | None = None
    """Files for the command, by name, in /check."""
    judge: Callable[[str], str] | None = None
    """In place of `expected`, where many outputs are right: returns what is wrong with one, or nothing."""

    def fault(self, printed: str) -> str:
        """Return what is wrong with what the command printed, or nothing."""
        if self.judge is not None:
            return self.judge(printed.strip())
        return "" if printed.strip() == self.expected.strip() else f"printed {printed.strip()[:SHOWN]!r}"


@dataclass(frozen=True)
class Case:
    """A task."""

    prompt: str
    files: Mapping[str, str]
    """By path below /work."""
    checks: tuple[Check, ...]
    solution: str
    """A shell script that solves the task, in /work."""
    setup: str = ""
    """A shell script that runs in /work before the agent begins."""


Make = Callable[[random.Random, int], Case]
"""Makes a task from chance and a level (1 to 3)."""


def answer_check(expected: str) -> Check:
    """Return the check of an answer that the agent writes into `answer.txt`."""
    return Check("answer.txt has the answer", f"cat {ANSWER}", expected)


def python_check(
    name: str, code: str, expected: object, *, guards: bool = False, processor_seconds: int = 0
) -> Check:
    """Return a check that runs Python code in /work and compares what it prints.

    Args:
        processor_seconds: what it may use of processors, with all that it starts, however busy the machine
            is. 0: no limit.
    """
    files = {"run.py": f"import sys\nsys.path.insert(0, '/work')\n{code}\n"}
    if processor_seconds:
        files["counted.py"] = COUNTED
        command = "python3 -s -B /check/counted.py"
    else:
        command = "cd /work && python3 -s -B /check/run.py"
    return Check(name, command, str(expected), guards, processor_seconds=processor_seconds, files=files)
