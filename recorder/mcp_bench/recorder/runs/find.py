"""Find runs and episodes by their names and tags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.annotations import known_annotations
from mcp_bench.recorder.runs.lock import LOCK
from mcp_bench.recorder.runs.names import run_id
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RECORDINGS
from mcp_bench.servers.errors import UnknownNameError, WrongUseError

_NEAR_MATCHES_AMONG = 1000
"""An unknown id is compared with this many of the newest episodes, since comparing is slow."""


def run_paths(runs: Sequence[str] = (), *, tags: Sequence[str] = ()) -> list[Path]:
    """Return the folders of the named runs, or of all, oldest first.

    A folder whose databases are gone is one of them: it still has the lock of its writer.

    Args:
        runs: ids, or unique prefixes of ids.
        tags: only runs that have all of these tags.

    Raises:
        UnknownNameError: a run does not exist, or no run has one of the tags; the message lists near matches.
        WrongUseError: several runs begin with one of `runs`, or none has all of the tags.
        StorageError: the home is not a folder, or cannot be read.
    """
    found = {path.name: path for path in _folders(runs_dir()) if _has(path, RECORDINGS) or _has(path, LOCK)}
    named = {run_id(name, found) for name in runs}
    paths = [found[name] for name in sorted(named or found)]
    return _tagged(paths, tags) if tags else paths


def check_no_copy(path: Path, run: str) -> None:
    """Check that a folder is no copy of a run that is beside it: its episodes would count twice.

    Args:
        path: the folder.
        run: the id that is stored in it.

    Raises:
        StorageError: it is one.
    """
    if path.name != run and (path.parent / run).is_dir():
        raise StorageError(f"{path} is a copy of the run {run} beside it: move it to another place")


def _folders(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if not path.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(
            f"cannot read {root}: {error.strerror}. Recordings are stored in $MCP_BENCH_HOME "
            f"({root.parent}); set it to the folder that has them, or to a new one"
        ) from error


def _has(folder: Path, name: str) -> bool:
    try:
        (folder / name).stat()
    except PermissionError:
        return True  # whoever opens it says why it cannot be read
    except OSError:
        return False
    return True


def _tagged(paths: Sequence[Path], tags: Sequence[str]) -> list[Path]:
    have = {path: known_annotations(path).tags for path in paths}
    known = {tag for own in have.values() for tag in own}
    for tag in tags:
        if tag not in known:
            raise UnknownNameError("run tag", tag, known)
    chosen = [path for path in paths if set(tags) <= set(have[path])]
    if not chosen:
        raise WrongUseError(f"no run has all of the tags {', '.join(tags)}")
    return chosen


def find_episode(prefix: str, paths: Sequence[Path] | None = None) -> tuple[Path, str]:
    """Return the run folder and the full id of the episode whose id starts with `prefix`.

    Runs that cannot be read are skipped, and so are copies of a run that is beside them. Any text can be
    looked for: it is not taken for a path.

    Args:
        prefix: an id, or the beginning of one.
        paths: folders of the runs to search. Default: all.

    Raises:
        UnknownNameError: there is none; the message lists near matches.
        WrongUseError: there are several.
    """
    known: list[str] = []
    found: list[tuple[Path, str]] = []
    unreadable: list[str] = []
    for path in run_paths() if paths is None else paths:
        try:
            with RunReader(path) as reader:
                ids = reader.episode_ids()
        except StorageError:
            unreadable.append(path.name)
            continue
        known += ids
        found += [(path, episode) for episode in ids if episode.startswith(prefix)]
    found = [match for match in found if match[1] == prefix] or found
    if len({episode for _, episode in found}) < len(found):
        copies = {path for path in dict(found) if _is_copy(path)}
        found = [match for match in found if match[0] not in copies]
    if len(found) > 1:
        some = ", ".join([*(episode for _, episode in found[:5]), *(["..."] if found[5:] else [])])
        raise WrongUseError(f"{prefix!r} matches {len(found)} episodes ({some}): give a longer prefix")
    if not found:
        if unreadable:
            raise StorageError(
                f"no episode {prefix!r} in the runs that can be read; {unreadable[0]} cannot be"
            )
        raise UnknownNameError("episode", prefix, known[-_NEAR_MATCHES_AMONG:])
    return found[0]


def _is_copy(path: Path) -> bool:
    with RunReader(path) as reader:
        run = reader.info().id
    try:
        check_no_copy(path, run)
    except StorageError:
        return True
    return False
