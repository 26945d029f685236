"""Reading what an agent left: files that it may have cut short, spoiled, or put there as a trap."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are passed over: no event has that size."""

ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading an event of another shape than expected may raise."""


def plain_file(path: Path) -> BinaryIO:
    """Open a file that may be a trap.

    Raises:
        OSError: it is missing, or is a link, a folder, a device or a pipe.
        ValueError: its name cannot be one.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one per line; everything else in it is passed over.

    What is missing, or is a link, a folder, a device or a pipe, is as good as empty.
    """
    try:
        opened = plain_file(path)
    except (OSError, ValueError):
        return
    with opened as file:
        for line in iter(lambda: file.readline(LINE_BYTES), b""):
            try:
                value = parse(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def parse(text: str | bytes) -> Any:
    """Parse JSON so that all of it can be written as UTF-8 again: halves of surrogate pairs become `?`.

    Raises:
        ValueError: it is no JSON; NaN and Infinity are none.
    """
    value = json.loads(text, parse_constant=refuse)
    whole = json.dumps(value, ensure_ascii=False)
    return value if whole.isprintable() else json.loads(whole.encode(errors="replace"))


def refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def tail(path: Path, size: int = 4000) -> str:
    """Return the last `size` bytes of a text file, as far as they can be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode(errors="replace").strip()
    except OSError:
        return ""
