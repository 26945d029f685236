"""Read files that an agent wrote: it may have cut them short, damaged them, or put a trap in their place.

Here the path is the referee's own, such as that of an agent's stdout. For files below an agent's folder see
agent_folder.py.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are skipped: no event is that large."""
TAIL_BYTES = 4000


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, and nothing else.

    Raises:
        OSError: it is missing, or it is a link, a folder, a device or a pipe.
        ValueError: the path is not a valid file name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one per line, and skip everything else in it.

    A file that is missing, or is a link, a folder, a device or a pipe, counts as empty.
    """
    try:
        opened = open_regular(path)
    except (OSError, ValueError):
        return
    with opened as file:
        yield from objects(file)


def objects(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an open file, one per line, and skip everything else in it."""
    for line in iter(lambda: file.readline(LINE_BYTES), b""):
        try:
            value = parse(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def parse(text: str | bytes) -> Any:
    """Parse JSON into values that can be written as UTF-8: lone surrogates become `?`.

    Raises:
        ValueError: it is not JSON; NaN and Infinity are not.
    """
    value = json.loads(text, parse_constant=refuse)
    whole = json.dumps(value, ensure_ascii=False)
    return value if whole.isprintable() else json.loads(whole.encode(errors="replace"))


def refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def tail(path: Path) -> str:
    """Return the last `TAIL_BYTES` bytes of a text file, or "" if it cannot be read."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""
