"""Search a data set of any format for held-out tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.recorder import importers
from mcp_bench.recorder.importers import Importer
from mcp_bench.recorder.importers.attempt import IMPORTED, Attempt, RowError
from mcp_bench.recorder.importers.conversation import chat_messages
from mcp_bench.recorder.importers.facts import facts
from mcp_bench.recorder.importers.json_rows import LINE_PATTERNS, first, rows
from mcp_bench.recorder.importers.run import MALFORMED, files_in, guess, reason_of
from mcp_bench.recorder.importers.task_name import task_of_messages
from mcp_bench.recorder.leakage.check import LeakCheck
from mcp_bench.recorder.leakage.split_index import Leak, Row
from mcp_bench.recorder.paths import is_there
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load

_Reader = Callable[[Path], Iterator[importers.Row]]
_PREFERENCE = ("chosen", "rejected")


@dataclass(frozen=True, slots=True)
class Found:
    file: str
    where: str
    row: Row
    leak: Leak

    def document(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "row": self.where,
            "id": self.row.id,
            "benchmark": self.row.benchmark,
            "task": self.row.task,
            "kind": self.leak.kind,
            "split": self.leak.split,
            "held_out_benchmark": self.leak.benchmark,
            "held_out_task": self.leak.task,
            "similarity": self.leak.similarity,
        }


@dataclass
class Searched:
    """The result of a search."""

    rows: int = 0
    leaks: list[Found] = field(default_factory=list)
    unreadable: list[tuple[str, str, str]] = field(default_factory=list)
    """File, place in it and reason."""


def search(paths: Sequence[Path], form: str | None, check: LeakCheck) -> Searched:
    """Compare every row of files and folders with held-out tasks.

    Raises:
        WrongUseError: a path does not exist or cannot be seen, or its format cannot be detected.
    """
    found = Searched()
    for path in paths:
        if not is_there(path):
            raise WrongUseError(f"{path} does not exist")
    for path in paths:
        for file, read in _files(path, form):
            for where, row in _rows(file, read, found):
                if leak := check.find(row):
                    found.leaks.append(Found(str(file), where, row, leak))
    return found


def _files(path: Path, form: str | None) -> Iterator[tuple[Path, _Reader]]:
    if form is None and (pairs := _preference(path)) is not None:
        yield from ((file, _pairs) for file in pairs)
        return
    importer: Importer = guess([path]) if form is None else load("importer", form)()
    if not path.is_dir():
        yield path, importer.rows
        return
    yield from ((file, importer.rows) for file in files_in(path, importer))


def _preference(path: Path) -> list[Path] | None:
    """Return the files of a data set of preference pairs, or None if it is something else."""
    files = [path]
    if path.is_dir():
        files = sorted({file for pattern in LINE_PATTERNS for file in path.rglob(pattern)})
    return files if files and all(set(_PREFERENCE) <= first(file).keys() for file in files) else None


def _pairs(path: Path) -> Iterator[importers.Row]:
    """Yield rows of preference pairs as two attempts each."""

    def read(row: dict[str, Any]) -> Iterator[Attempt]:
        for side in _PREFERENCE:
            messages = chat_messages([*row["prompt"], *row[side]])
            yield Attempt(messages=messages, **{"task": task_of_messages(messages), **facts(row)})

    return rows(path, read)


def _rows(file: Path, read: _Reader, found: Searched) -> Iterator[tuple[str, Row]]:
    try:
        for row in read(file):
            found.rows += 1
            try:
                attempts = list(row.attempts())
            except MALFORMED as error:
                found.unreadable.append((str(file), row.where, reason_of(error)))
                continue
            yield from ((row.where, _row(attempt)) for attempt in attempts)
    except OSError as error:
        found.unreadable.append((str(file), "", error.strerror or str(error)))
    except RowError as error:
        found.unreadable.append((str(file), "", str(error)))


def _row(attempt: Attempt) -> Row:
    return Row(
        benchmark=attempt.benchmark or IMPORTED,
        task=attempt.task,
        split=attempt.split or IMPORTED,
        messages=attempt.messages,
        id=attempt.id or "",
    )
