"""Files of other tools' trajectories into the store, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcp_bench.recorder.importers import Importer, Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError
from mcp_bench.recorder.importers.store import ImportedRuns, known_episodes
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.registry import load, registered

ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a row of another shape than expected may raise."""


@dataclass(frozen=True)
class BadRow:
    """`where` is empty where the whole file is meant."""

    file: str
    where: str
    reason: str


@dataclass
class Outcome:
    format: str
    imported: int = 0
    known: int = 0
    """Rows that the store had."""
    bad: list[BadRow] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Defaults:
    """What is said of rows on the command line; a row's own word on these gives way to it."""

    benchmark: str | None = None
    agent: str | None = None
    split: str | None = None

    def apply(self, attempt: Attempt) -> Attempt:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return attempt.model_copy(update=given) if given else attempt


def import_paths(paths: Sequence[Path], form: str | None, defaults: Defaults) -> Outcome:
    """Import files, and those in folders that the format reads. Rows that make no sense are left out, and
    told of; all others are in the store when this returns, and none if it raises.

    Raises:
        WrongUseError: a path is not there, a folder has no such file, or the format is not given and
            cannot be told.
        UnknownNameError: there is no such format.
        StorageError: the store cannot be written.
    """
    for path in paths:
        if not path.exists():
            raise WrongUseError(f"{path} is not there")
    importer = _importer(form) if form is not None else guess(paths)
    outcome = Outcome(importer.name)
    with ImportedRuns(importer.name, known_episodes()) as runs:
        for path in _files(paths, importer):
            for row in _rows(importer, path, outcome):
                _add(row, path, runs, outcome, defaults)
        runs.commit()
        outcome.runs = runs.runs
    return outcome


def guess(paths: Sequence[Path]) -> Importer:
    """Return the importer that knows a file for its own: the first file that is known for sure.

    Raises:
        WrongUseError: none does, or more than one.
    """
    importers = [_importer(name) for name in registered("importer")]
    candidates: list[tuple[Path, Importer]] = []
    for path in paths:
        if path.is_dir():
            candidates += [(found, importer) for importer in importers for found in files_in(path, importer)]
        else:
            candidates += [(path, importer) for importer in importers]
    if not candidates:
        raise WrongUseError("there is nothing to import: no file of a known kind")
    for file, pairs in itertools.groupby(sorted(candidates, key=lambda one: one[0]), key=lambda one: one[0]):
        sure = [importer for _, importer in pairs if importer.recognises(file)]
        if len(sure) == 1:
            return sure[0]
        if sure:
            both = " and ".join(importer.name for importer in sure)
            raise WrongUseError(f"{file} may be of {both}: say which with --format")
    known = ", ".join(sorted(registered("importer")))
    raise WrongUseError(f"the format of {candidates[0][0]} is not plain: give --format, one of {known}")


def _importer(name: str) -> Importer:
    importer: Importer = load("importer", name)()
    return importer


def _files(paths: Sequence[Path], importer: Importer) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = files_in(path, importer)
        if not found:
            patterns = ", ".join(importer.patterns)
            raise WrongUseError(f"{path} has no file of {importer.name} ({patterns}): name the files")
        yield from found


def files_in(folder: Path, importer: Importer) -> list[Path]:
    """Return the files of a folder, and of those in it, that the importer reads."""
    found = {path for pattern in importer.patterns for path in folder.rglob(pattern) if path.is_file()}
    return sorted(found)


def _rows(importer: Importer, path: Path, outcome: Outcome) -> Iterator[Row]:
    try:
        yield from importer.rows(path)
    except OSError as error:
        outcome.bad.append(BadRow(str(path), "", error.strerror or str(error)))
    except RowError as error:
        outcome.bad.append(BadRow(str(path), "", str(error)))


def _add(row: Row, path: Path, runs: ImportedRuns, outcome: Outcome, defaults: Defaults) -> None:
    try:
        attempts = [defaults.apply(attempt) for attempt in row.attempts()]
        for attempt in attempts:
            attempt.digest()  # what is nested too deeply to be written down must not stop a row halfway
    except BenchError:
        raise
    except ODD as error:
        outcome.bad.append(BadRow(str(path), row.where, reason_of(error)))
        return
    for attempt in attempts:
        if runs.add(attempt, {"file": path.name, "row": row.where}):
            outcome.imported += 1
        else:
            outcome.known += 1


def reason_of(error: Exception) -> str:
    """Say why a row cannot be read, which raised one of `ODD`."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}"
    if isinstance(error, RowError):
        return str(error)
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    return f"of another shape than expected: {type(error).__name__}: {error}"
