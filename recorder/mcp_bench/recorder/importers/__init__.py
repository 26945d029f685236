"""Importers of other tools' trajectories.

Each entry point of the group `mcp_bench.importers` names a class whose constructor takes no arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mcp_bench.recorder.importers.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file, parsed lazily.

    `where` is its place (`line 3`). `attempts` parses it and may raise any error that malformed data
    causes.
    """

    where: str
    attempts: Callable[[], Iterable[Attempt]]


class Importer(Protocol):
    name: str
    summary: str
    """One line for listings."""
    patterns: tuple[str, ...]
    """Glob patterns of the files that it reads from a folder, as for `Path.rglob`."""

    def recognises(self, path: Path) -> bool:
        """Return whether the file is certainly in this format."""
        ...

    def rows(self, path: Path) -> Iterator[Row]:
        """Yield the rows of a file.

        Raises:
            RowError: the file is not in this format.
            OSError: the file cannot be read.
        """
        ...
