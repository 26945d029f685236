"""The lines of files that can be from anybody: one of them can be longer than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def bounded_lines(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the lines of a file; of one with more than `most` bytes, so many from its beginning."""
    while line := file.readline(most):
        yield line
        while len(line) == most and not line.endswith(b"\n"):
            line = file.readline(most)
