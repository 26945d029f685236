"""What a family of codeworld makes of a seed: files, a prompt, checks and a solution."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ANSWER = "/work/answer.txt"
SHOWN = 200
"""Characters of an output that a grade shows."""
LIMITED = """import ctypes, os, resource, signal, subprocess, sys, tempfile
most = int(sys.argv[1])
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what outlives its parent counts, too
printed = tempfile.TemporaryFile()  # a pipe would end with the last of its processes
subprocess.run([sys.executable, "-B", "/check/run.py"], stdout=printed,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)))
while True:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        for child in file.read().split():
            os.kill(int(child), signal.SIGKILL)
    try:
        os.wait()
    except ChildProcessError:
        break
used = resource.getrusage(resource.RUSAGE_CHILDREN)
if used.ru_utime + used.ru_stime > most:
    sys.exit(f"it used {used.ru_utime + used.ru_stime:.1f} s of processors, and {most} are allowed")
printed.seek(0)
sys.stdout.buffer.write(printed.read())
"""
"""Runs a check's program. A limit of one process does not bind what several of them do together."""


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
    run = "cd /work && python3 -B /check/run.py"
    files = {"run.py": f"import sys\nsys.path.insert(0, '/work')\n{code}\n"}
    if processor_seconds:  # who ends the program that counts, prints nothing
        run = f'cd /work && said=$(python3 -B /check/limited.py {processor_seconds}) && echo "$said"'
        files["limited.py"] = LIMITED
    return Check(
        name,
        run,
        str(expected),
        guards,
        max(20.0, 10.0 * processor_seconds),
        files,
    )
