"""The home's runs and episodes, kept in memory until a run's files change."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.annotations import NAME as ANNOTATIONS
from mcp_bench.recorder.runs.find import check_no_copy, find_episode, run_paths
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.runs.run_folder import GRADES, PARTS, RECORDINGS, left_parts
from mcp_bench.recorder.runs.run_summary import RunSummary
from mcp_bench.recorder.store.episode_rows import Outcome, Running
from mcp_bench.recorder.verify.damage import nothing_in
from mcp_bench.servers.errors import UnknownNameError

MOST_KEPT = 50_000
"""Episodes that stay in memory, about 2 kB each."""
_FILES = (RECORDINGS, f"{RECORDINGS}-wal", GRADES, f"{GRADES}-wal", ANNOTATIONS)
Signature = tuple[object, ...]
YOUNG_NS = 50_000_000
"""A file that was just written can change without another time or size: file times tick every few ms."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run for a list. `summary` is None if it cannot be read; `problem` says why."""

    id: str
    """The name of its folder is another one if that was renamed."""
    summary: RunSummary | None = None
    problem: str = ""
    invalid: int = 0
    graded: int = 0
    partial: float | None = None
    strict: float | None = None
    cost: float = 0.0
    written: bool = False
    """Whether a process has it open for writing."""

    @property
    def active(self) -> bool:
        """Whether more of its plan is being recorded."""
        return self.written and self.summary is not None and self.summary.done < self.summary.planned

    @property
    def live(self) -> bool:
        """Whether a process adds to it. An interactive run has no plan, and goes on as long as one does."""
        return self.active or (self.written and self.summary is not None and not self.summary.planned)

    @property
    def cut_off(self) -> bool:
        """Whether attempts without an end stay so, until it is resumed."""
        return not self.written

    @property
    def complete(self) -> bool:
        return self.summary is not None and self.summary.done >= self.summary.planned > 0


def signature(path: Path) -> Signature:
    """Return sizes and times of a run's files, and who writes it.

    It changes when something is stored, also in a part, and when a process ends that has left something to be
    taken in. While a file is young, no two are equal.
    """
    found: list[object] = [is_being_written(path), *map(signature, _parts(path))]
    for name in _FILES:
        try:
            stat = (path / name).stat()
        except OSError:
            found.append(None)
        else:
            young = 0 <= time.time_ns() - stat.st_mtime_ns < YOUNG_NS
            found.append((stat.st_mtime_ns, stat.st_size, time.monotonic_ns() if young else 0))
    return tuple(found)


def _parts(path: Path) -> list[Path]:
    return left_parts(path) if (path / PARTS).is_dir() else []


def written(path: Path) -> list[Path]:
    """Return the folder of a run, and its parts that are being written: they have attempts that go on."""
    return [path, *filter(is_being_written, _parts(path))]


class Library:
    """Reads runs for the pages. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[Path, tuple[Signature, Run]] = {}
        self._episodes: OrderedDict[Path, tuple[Signature, list[StoredEpisode]]] = OrderedDict()

    def paths(self) -> list[Path]:
        """Return the folders of all runs, newest first."""
        return run_paths()[::-1]

    def path(self, run: str) -> Path:
        """Return the folder of the run with exactly this id; a folder may have been renamed.

        Raises:
            KeyError: there is none.
        """
        paths = self.paths()
        for path in paths:
            if path.name == run:
                return path
        for path in paths:  # its episodes keep the run's first name
            known = self._runs.get(path)  # as old as it may be: its id does not change
            summary = (self.run(path) if known is None else known[1]).summary
            if summary is not None and summary.id == run:
                return path
        raise KeyError(run)

    def run(self, path: Path) -> Run:
        """Return a run as it is now. One that cannot be read, or is a copy of one beside it, is no error."""
        now = signature(path)
        with self._lock:
            known = self._runs.get(path)
        if known is not None and known[0] == now and not known[1].active:
            return known[1]
        found = _read(path)
        with self._lock:
            self._runs[path] = (now, found)
        return found

    def episodes(self, path: Path) -> list[StoredEpisode]:
        """Return the last attempts of a run. Do not change them.

        Raises:
            StorageError: the run cannot be read.
        """
        now = signature(path)
        with self._lock:
            known = self._episodes.get(path)
            if known is not None and known[0] == now:
                self._episodes.move_to_end(path)
                return known[1]
        with RunReader(path) as reader:
            found = list(reader.episodes())
        with self._lock:
            self._episodes[path] = (now, found)
            kept = sum(len(one) for _, one in self._episodes.values())
            while kept > MOST_KEPT and len(self._episodes) > 1:
                _, (_, dropped) = self._episodes.popitem(last=False)
                kept -= len(dropped)
        return found

    def all_episodes(self, paths: Sequence[Path]) -> Iterator[StoredEpisode]:
        """Yield the episodes of the runs that can be read, and are no copies."""
        for path in paths:
            with suppress(StorageError):
                if self.run(path).summary is not None:
                    yield from self.episodes(path)

    def outcomes(self, paths: Sequence[Path]) -> Iterator[Outcome]:
        """Yield what became of the episodes of the runs that can be read. Nothing of it is kept."""
        for path in paths:
            with suppress(StorageError), RunReader(path) as reader:
                yield from reader.outcomes()

    def running(self, runs: Sequence[Run]) -> list[Running]:
        """Return the attempts that go on in those of `runs` that are being recorded, longest first."""
        found: list[Running] = []
        for run in runs:
            with suppress(StorageError, KeyError):
                if run.live:
                    for folder in written(self.path(run.id)):
                        with RunReader(folder) as reader:
                            found += reader.running()
        return sorted(found, key=lambda one: one.started_us)

    def cut_off(self, episodes: Iterable[StoredEpisode]) -> set[str]:
        """Return the runs of these episodes that nobody records any more."""
        runs = {one.run for one in episodes}
        return {path.name for path in self.paths() if path.name in runs and self.run(path).cut_off}

    def find(self, episode: str) -> tuple[str, str]:
        """Return the run and the id of an episode by a prefix of its id, also of one that goes on in a part.

        Raises:
            BenchError: there is none, or there are several.
        """
        try:
            path, found = find_episode(episode)
        except (UnknownNameError, StorageError):
            for path in self.paths():
                for part in written(path)[1:]:
                    with suppress(UnknownNameError, StorageError):
                        return path.name, find_episode(episode, [part])[1]
            raise
        return path.name, found


def run_of(library: Library, request: Request) -> Path:
    """Return the folder of the run that a request names.

    Raises:
        HTTPException: there is no such run.
    """
    try:
        return library.path(request.path_params["run"])
    except KeyError:
        raise HTTPException(404, "There is no such run.") from None


@contextmanager
def opened_episode(path: Path, episode: str) -> Iterator[RunReader]:
    """Open a run, or its part in which an episode goes on.

    Raises:
        HTTPException: the run has no such episode.
    """
    for folder in written(path):
        with RunReader(folder) as reader:
            if episode in reader.episode_ids():
                yield reader
                return
    raise HTTPException(404, "There is no such episode in this run.")


def _read(path: Path) -> Run:
    try:
        with RunReader(path) as reader:
            summary = reader.summary()
            if summary is None:
                problem = nothing_in(path) or "It is beginning: it has no episodes yet."
                return Run(path.name, problem=str(problem))
            check_no_copy(path, summary.id)
            invalid, graded, partial, strict = reader.outcome()
            cost = reader.cost()
    except StorageError as error:
        return Run(path.name, problem=str(error))
    return Run(summary.id, summary, "", invalid, graded, partial, strict, cost, is_being_written(path))
