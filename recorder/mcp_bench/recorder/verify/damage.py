"""What is wrong with runs that cannot be read, in the words of `mcp-bench verify`.

The commands that read runs use it, so that no command says that there are no recordings, or how to resume a
run, where `verify` says that something is damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS
from mcp_bench.recorder.store import keys
from mcp_bench.recorder.store.keys import Key, read_key
from mcp_bench.recorder.verify.verify import Verdict, verify

SMALL = 2 * 4096
"""Bytes of a database that may have no tables: two pages."""
_log = logging.getLogger(__name__)


class EmptyRunError(StorageError):
    """A run has no rows, since its writer was killed at the very start. Nothing is lost."""


class DamagedRunError(StorageError):
    """A run has lost rows, or they were changed."""


def readable(runs: Sequence[str] = (), *, tags: Sequence[str] = ()) -> tuple[list[Path], list[StorageError]]:
    """Return the folders of the named runs, or of all, oldest first; and what is wrong with those left out.

    Args:
        runs: ids, or unique prefixes of ids.
        tags: only runs that have all of these tags.

    Left out are runs without rows. That a database is damaged further inside shows when it is read.

    Raises:
        UnknownNameError: one of `runs` does not exist; the message lists near matches.
        StorageError: the home cannot be read.
    """
    paths, problems = [], []
    for path in run_paths(runs, tags=tags):
        found = nothing_in(path)
        if found is not None:
            problems.append(found)
        elif (path / RECORDINGS).exists():  # else it is beginning at this moment
            paths.append(path)
    return paths, problems


def undamaged(runs: Sequence[str] = (), *, tags: Sequence[str] = ()) -> list[Path]:
    """Return the folders of the named runs, or of all, oldest first. Empty ones are left out with a message.

    Args:
        runs: ids, or unique prefixes of ids.
        tags: only runs that have all of these tags.

    Raises:
        StorageError: one of them is damaged.
    """
    paths, problems = readable(runs, tags=tags)
    for problem in problems:
        if not isinstance(problem, EmptyRunError):
            raise problem
        _log.warning("left out: %s", problem)
    return paths


def nothing_in(path: Path) -> StorageError | None:
    """Return what is wrong with a run if it has no rows; None if it has some, or is being recorded."""
    try:
        if (path / RECORDINGS).stat().st_size > SMALL:
            return None
    except OSError:
        pass  # missing, or not readable
    if is_being_written(path):
        return None
    try:
        with RunReader(path) as reader:
            if reader.summary() is not None:
                return None
    except StorageError:
        pass
    return described(verify(path, _key_of(path)))


def why_not_resumed(path: Path, *, rows: bool) -> str | None:
    """Return why a run cannot be resumed, or None if nothing of it stands against that.

    Args:
        path: the folder of the run.
        rows: whether to check every row. Otherwise `record --resume` finds what was changed.
    """
    if is_being_written(path):
        return "it is being recorded"
    if rows:
        verdict = verify(path, _key_of(path))
        if verdict.state not in ("verified", "open"):
            return f"{in_words(verdict)}. See `mcp-bench verify {path.name}`"
    if not (path / GRADES).exists():
        return f"{GRADES} is missing: put it back"
    return None


def size(path: Path) -> int:
    """Return the bytes of a run's databases."""
    return sum(file.stat().st_size for name in (RECORDINGS, GRADES) if (file := path / name).exists())


def described(verdict: Verdict) -> StorageError:
    """Return the error for a run that has no rows."""
    if verdict.state == "unreadable":
        return StorageError(verdict.detail)
    delete = f"`mcp-bench delete {verdict.path.name}`"
    if verdict.state == "open":
        return EmptyRunError(f"{verdict.path.name}: {verdict.detail}. Delete it with {delete}")
    return DamagedRunError(
        f"{verdict.path.name} is damaged: {in_words(verdict)}. Restore its folder from a copy, or delete it "
        f"with {delete}"
    )


def in_words(verdict: Verdict) -> str:
    """Return the first thing that is wrong."""
    if verdict.detail or not verdict.findings:
        return verdict.detail or verdict.state
    found = verdict.findings[0]
    return f"{found.place.table} {found.place.key} {found.change}{': ' * bool(found.detail)}{found.detail}"


def _key_of(path: Path) -> Key | None:
    """Return the key of the home that has a run. Reading makes none."""
    file = path.absolute().parent.parent / keys.NAME
    return read_key(file) if file.is_file() else None
