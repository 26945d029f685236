"""Remove a command's arguments from `/proc/PID/cmdline`, which every process of the machine can read.

They name tasks, folders and URLs with tokens, and agents run while the command does. The kernel shows the
memory between `arg_start` and `arg_end` (proc_pid_stat(5)), to which this process can write. Command lines of
the programs that started this one, such as a shell, are not ours to change.
"""

from __future__ import annotations

import sys
from contextlib import suppress

ARG_START = 48
"""Number of the field in /proc/self/stat, counted from 1."""


def hide_arguments() -> None:
    """Keep only the program and the name of its command. Call it before `harden`, which closes the memory.

    Nothing changes where the kernel does not allow it.
    """
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        start, end = (int(fields[number - 3]) for number in (ARG_START, ARG_START + 1))
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            shown = memory.read(end - start)
            kept = len(shown) - hidden_bytes(shown)
            memory.seek(start + kept)
            memory.write(bytes(end - start - kept))


def hidden_bytes(shown: bytes) -> int:
    """Return how many bytes at the end belong to arguments that follow the command's name."""
    words = shown.removesuffix(b"\0").split(b"\0")
    ours = len(sys.argv) - 1
    if len(words) <= ours:  # not the words that this process was started with: it is a fork
        return 0
    rest = words[len(words) - ours :] if ours else []
    named = 1 if rest and not rest[0].startswith(b"-") else 0
    return sum(len(word) + 1 for word in rest[named:])
