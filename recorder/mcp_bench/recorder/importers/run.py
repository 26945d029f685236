"""Import files of other tools' trajectories into the store, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcp_bench.recorder.frames.jsonrpc import clean
from mcp_bench.recorder.importers import Importer, Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError
from mcp_bench.recorder.importers.json_rows import fault, first
from mcp_bench.recorder.importers.store import ImportedRuns
from mcp_bench.recorder.paths import is_there
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.registry import load, registered

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions raised by parsing a malformed row."""
_NO_MEMORY = "it does not fit into the memory of this machine"
_STEP = {"step", "label", "objectives", "met", "broken"}
"""Keys of the rows of `export --steps`."""


@dataclass(frozen=True)
class BadRow:
    """A row that was left out, or a whole file if `where` is empty."""

    file: str
    where: str
    reason: str


@dataclass
class Outcome:
    format: str
    imported: int = 0
    known: int = 0
    """Number of rows that were in the store already."""
    bad: list[BadRow] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Defaults:
    """Values from the command line. They override the values in the rows.

    Raises:
        WrongUseError: one is not UTF-8, so it cannot be stored.
    """

    benchmark: str | None = None
    agent: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and value != clean(value):
                raise WrongUseError(f"--{name} is not UTF-8")

    def apply(self, attempt: Attempt) -> Attempt:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return attempt.model_copy(update=given) if given else attempt


def import_paths(paths: Sequence[Path], form: str | None, defaults: Defaults) -> Outcome:
    """Import files, and the files in folders that match the format's patterns.

    Malformed rows are left out and reported. All other rows are in the store when this returns; if it
    raises, none are.

    Args:
        paths: files and folders.
        form: name of the format; None detects it.
        defaults: values that override those in the rows.

    Raises:
        WrongUseError: a path does not exist or cannot be seen, a folder has no matching file, or the format
            cannot be detected.
        UnknownNameError: the format is unknown.
        StorageError: the store cannot be written.
    """
    for path in paths:
        if not is_there(path):
            raise WrongUseError(f"{path} does not exist")
    importer = _importer(form) if form is not None else guess(paths)
    outcome = Outcome(importer.name)
    with ImportedRuns(importer.name) as runs:
        for path in _files(paths, importer):
            for row in _rows(importer, path, outcome):
                _add(row, path, runs, outcome, defaults)
        runs.commit()
        outcome.runs = runs.runs
    return outcome


def guess(paths: Sequence[Path]) -> Importer:
    """Return the importer of the first file whose format is certain.

    Raises:
        WrongUseError: no importer recognises a file, or more than one does.
    """
    importers = [_importer(name) for name in registered("importer")]
    candidates: list[tuple[Path, Importer]] = []
    for path in paths:
        if path.is_dir():
            candidates += [(found, importer) for importer in importers for found in files_in(path, importer)]
        else:
            candidates += [(path, importer) for importer in importers]
    if not candidates:
        raise WrongUseError("nothing to import: no file in a known format")
    for file, pairs in itertools.groupby(sorted(candidates, key=lambda one: one[0]), key=lambda one: one[0]):
        sure = [importer for _, importer in pairs if importer.recognises(file)]
        if len(sure) == 1:
            return sure[0]
        if sure:
            both = " and ".join(importer.name for importer in sure)
            raise WrongUseError(f"{file} could be {both}: choose one with --format")
    known = ", ".join(sorted(registered("importer")))
    file = candidates[0][0]
    why = f" ({reason})" if (reason := fault(file)) else ""
    raise WrongUseError(f"cannot detect the format of {file}{why}: use --format with one of {known}")


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
            raise WrongUseError(
                f"{path} has no file of the format {importer.name} ({patterns}): name the files instead"
            )
        yield from found


def files_in(folder: Path, importer: Importer) -> list[Path]:
    """Return the files in a folder and its subfolders that match the importer's patterns."""
    found = {path for pattern in importer.patterns for path in folder.rglob(pattern) if path.is_file()}
    return sorted(found)


def _rows(importer: Importer, path: Path, outcome: Outcome) -> Iterator[Row]:
    if first(path).keys() >= _STEP:
        # they read like episodes, and each has the grade of the whole episode
        outcome.bad.append(BadRow(str(path), "", "its rows are single calls (`export --steps`), no episodes"))
        return
    try:
        yield from importer.rows(path)
    except OSError as error:
        outcome.bad.append(BadRow(str(path), "", error.strerror or str(error)))
    except RowError as error:
        outcome.bad.append(BadRow(str(path), "", str(error)))
    except MemoryError:
        outcome.bad.append(BadRow(str(path), "", _NO_MEMORY))


def _add(row: Row, path: Path, runs: ImportedRuns, outcome: Outcome, defaults: Defaults) -> None:
    try:
        attempts = [defaults.apply(attempt) for attempt in row.attempts()]
        for attempt in attempts:
            attempt.digest()  # fail on what cannot be serialised before anything of the row is stored
    except BenchError:
        raise
    except MemoryError:
        outcome.bad.append(BadRow(str(path), row.where, _NO_MEMORY))
        return
    except MALFORMED as error:
        outcome.bad.append(BadRow(str(path), row.where, reason_of(error)))
        return
    for attempt in attempts:
        if runs.add(attempt, {"file": path.name, "row": row.where}):
            outcome.imported += 1
        else:
            outcome.known += 1


def reason_of(error: Exception) -> str:
    """Return why a row cannot be parsed. `error` is one of `MALFORMED`."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}"
    if isinstance(error, RowError):
        return str(error)
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing"
    return f"malformed: {type(error).__name__}: {error}"
