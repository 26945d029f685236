"""A home: the folder of all runs, with scores, export and import."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mcp_bench.api.episodes import Call, Episode, calls_of, episode_of
from mcp_bench.api.filters import Where, chosen
from mcp_bench.api.frame import Frame
from mcp_bench.api.names import Names, several
from mcp_bench.api.runs import Run
from mcp_bench.api.scores import Comparison, Score, comparison, score
from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.errors import StorageError
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.home import home as default_home
from mcp_bench.servers.home import use_home

if TYPE_CHECKING:
    from mcp_bench.recorder.importers.run import Outcome
    from mcp_bench.recorder.runs.reader import StoredEpisode
    from mcp_bench.recorder.verify.verify import Verdict

GROUPS = ("agent", "model", "benchmark", "split")


class UnreadableRunWarning(UserWarning):
    """A run cannot be read and was left out: its database is damaged, or from a later version."""


@dataclass(frozen=True)
class Manifest:
    """What `Home.export` wrote."""

    data: Path
    """The file of the rows; the first part of several."""
    format: str
    rows: int
    sha256: str
    funnel: Mapping[str, Any]
    """`rows_in`, `dropped` by each rule, and `rows_out`."""
    episodes: Sequence[str]
    """Ids."""
    unchecked: Mapping[str, str]
    """By the name of a benchmark: why its rows could not be compared with held-out tasks."""
    document: Mapping[str, Any]
    """The whole manifest, which is in the file `<name>.manifest.json`, too."""


class Home:
    """The folder in which runs are stored. Reading works while they are being recorded."""

    def __init__(self, path: Path) -> None:
        """Use the folder `path`, which need not exist yet."""
        self.path = path

    def __repr__(self) -> str:
        return f"<Home {self.path}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def runs(self, tags: Names = ()) -> list[Run]:
        """Return the runs that can be read, oldest first. A warning names each of the others.

        Args:
            tags: Only runs with all of these tags, see `mcp-bench annotate`.

        Raises:
            UnknownNameError: no run has one of the tags.
        """
        return [Run(path) for path, _ in self._read((), several(tags))]

    def run(self, run: str) -> Run:
        """Return a run by its id.

        Raises:
            UnknownNameError: there is none; the message lists near matches.
        """
        from mcp_bench.recorder.runs.find import run_paths

        with use_home(self.path):
            (path,) = run_paths([run])
        return Run(path)

    def episode(self, episode: str) -> Episode:
        """Return an episode by its id or the beginning of it, also an attempt that was superseded.

        Raises:
            UnknownNameError: there is none; the message lists near matches.
            WrongUseError: there are several.
        """
        from mcp_bench.recorder.runs.find import find_episode
        from mcp_bench.recorder.runs.reader import RunReader

        with use_home(self.path):
            path, found = find_episode(episode)
        with RunReader(path) as reader:
            return episode_of(reader.episode(found), path)

    def episodes(self, **where: Unpack[Where]) -> Frame[Episode]:
        """Return the last attempt at every planned episode, oldest first, as rows for pandas and polars.

        Args:
            where: Only episodes of these `runs`, `agents`, `models`, `benchmarks`, `splits`, `domains` or
                `tasks`: one name, or several.

        Raises:
            UnknownNameError: no episode has one of the names; the message lists near matches.
        """
        return Frame(Episode, [episode_of(stored, path) for path, stored in self._chosen(where)])

    def calls(self, **where: Unpack[Where]) -> Frame[Call]:
        """Return the tool calls of the episodes that `episodes` returns."""
        from mcp_bench.recorder.runs.reader import RunReader

        found = self.episodes(**where)
        by_run: dict[Path, list[Episode]] = {}
        for episode in found:
            by_run.setdefault(episode._path, []).append(episode)
        calls: list[Call] = []
        for path, episodes in by_run.items():
            with RunReader(path) as reader:
                calls += [call for episode in episodes for call in calls_of(episode, reader)]
        return Frame(Call, calls)

    def scores(self, by: Names = GROUPS, **where: Unpack[Where]) -> Frame[Score]:
        """Return the scores of `mcp-bench report`, one row for each group.

        Args:
            by: Fields to group by: agent, model, benchmark, split, domain. Episodes that were recorded under
                different conditions (tools, home, isolation, limits) are never in one group.
            where: As for `episodes`.
        """
        from mcp_bench.recorder.scores.conditions import CONDITIONS
        from mcp_bench.recorder.scores.scores import groups, summarise
        from mcp_bench.recorder.verify.accept import with_accepted

        names = groups(",".join(several(by)))
        found = [stored for _, stored in self._chosen(where)]
        with use_home(self.path):
            rows = with_accepted(summarise(found, [*names, *CONDITIONS]))
        return Frame(Score, [score(row) for row in rows])

    def compare(self, a: str, b: str, *, by: Names = (), runs: Names = ()) -> Comparison:
        """Compare two agents, models or runs on their common tasks: `mcp-bench report --compare`.

        Args:
            a: Name of a run, agent or model, or a list such as `agent=codex,model=gpt-x`
                or `agent=codex,effort=high`, an option of the agent.
            b: The other side, likewise. Differences are B minus A.
            by: Fields to group by: benchmark, split, domain.
            runs: Only of these runs.

        Raises:
            UnknownNameError: a side has no episode.
            WrongUseError: a side's name is ambiguous, or it mixes conditions.
        """
        from mcp_bench.recorder.scores.comparison import FACTS, compare_alike

        names = several(by)
        for name in names:
            if name not in FACTS:
                raise UnknownNameError("group", name, FACTS)
        stored = (episode for _, episode in self._stored(several(runs)))
        return comparison(compare_alike(stored, a, b, names), names)

    def export(
        self,
        out: str | Path,
        selection: Selection | None = None,
        *,
        format: str | None = None,
        pairs: bool = False,
        margin: float | None = None,
        steps: bool = False,
        shard_size: int | None = None,
        compress: str | None = None,
        card: bool = False,
        license_id: str | None = None,
        jobs: int = 1,
        force: bool = False,
        images: str | None = None,
        step_weights: Mapping[str, float] | None = None,
    ) -> Manifest:
        """Write graded episodes as training data, with a manifest beside it: `mcp-bench export`.

        Args:
            out: File to write: Parquet if the name ends in .parquet, otherwise JSON lines.
            selection: Which episodes. By default those of the split train. Its `min_partial` is by default
                0.5; with `steps` or a cohort, 0.
            format: trl (the default), openai, prime-rl, verifiers, atif, sharegpt, or a package's own.
            pairs: Write preference pairs instead; `min_partial` of the selection then applies to the better
                attempt.
            margin: With `pairs`: minimum difference between the grades of a pair. Default: 0.01.
            steps: Write one row for each call instead, labelled by a replay.
            shard_size: Write files of so many rows each.
            compress: gzip or zstd. By default the ending of `out` decides.
            card: Write a dataset card, README.md, beside it.
            license_id: License to name in the card.
            jobs: Number of processes. A script that uses several runs again in each of them, and therefore
                needs `if __name__ == "__main__":`.
            force: Overwrite existing files.
            images: For trl: what rows have of an image in a tool's result, its name in the text (`text`, the
                default), a file in images/ beside `out` (`files`) or its data (`base64`).
            step_weights: For trl: the weight, 0 to 1, of the loss of turns by the labels of their calls.

        Raises:
            NothingToExportError: no episode passed; the text has the number that each rule dropped.
            LeakError: a row is, or resembles, a held-out task. No file is written.
            WrongUseError: the file exists, or options do not go together.
            StorageError: the files cannot be written.
        """
        from mcp_bench.recorder.curation.pipeline import Curation
        from mcp_bench.recorder.export.kinds import rows_of
        from mcp_bench.recorder.export.write import Extras
        from mcp_bench.recorder.export.write import export as write

        selection, rows = rows_of(
            selection or Selection(),
            format,
            pairs=pairs,
            margin=margin,
            steps=steps,
            images=images,
            step_weights=step_weights,
        )
        extras = Extras(card=card, license_id=license_id)
        path = Path(out)
        with use_home(self.path):
            curation = Curation(selection, jobs)
            found = write(
                rows,
                path,
                curation,
                compress=compress,
                shard_size=shard_size,
                force=force,
                extras=extras,
            )
        return Manifest(
            data=path.with_name(found["data"]),
            format=found["format"],
            rows=found["rows"],
            sha256=found["sha256"],
            funnel=found["funnel"],
            episodes=tuple(found["episodes"]),
            unchecked=dict(curation.guard.unchecked),
            document=found,
        )

    def import_(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        format: str | None = None,
        benchmark: str | None = None,
        agent: str | None = None,
        split: str | None = None,
    ) -> Outcome:
        """Import trajectories of other tools, with the grades that those gave: `mcp-bench import`.

        Rows that cannot be read are left out: the result has them with the reasons.

        Args:
            paths: Files and folders.
            format: Their format. By default it is detected.
            benchmark: Benchmark of the episodes. By default as in the rows.
            agent: Agent of the episodes. By default as in the rows.
            split: Split of the episodes. By default as in the rows, otherwise `imported`.
        """
        from mcp_bench.recorder.importers.run import Defaults, import_paths

        named = [paths] if isinstance(paths, str | Path) else paths
        defaults = Defaults(benchmark=benchmark, agent=agent, split=split)
        with use_home(self.path):
            return import_paths([Path(path) for path in named], format, defaults)

    def verify(self, runs: Names = (), *, key: Path | None = None) -> list[Verdict]:
        """Check that recordings have not been changed: `mcp-bench verify`.

        Args:
            runs: Ids of runs. By default all, and those that are missing.
            key: File of the key that they were recorded with, if they come from another home.
        """
        from mcp_bench.recorder.verify.home import verify_home

        with use_home(self.path):
            return list(verify_home(several(runs), key))

    def merge(self, out: str | Path, runs: Names = ()) -> Counter[str]:
        """Combine runs, or all, in one new SQLite file: `mcp-bench merge`. Return its rows by table.

        The file contains grades, so only you can read it (mode 0600).
        """
        from mcp_bench.recorder.runs.find import run_paths
        from mcp_bench.recorder.runs.merge import merge_runs

        with use_home(self.path):
            return merge_runs(run_paths(several(runs)), Path(out), lambda run: None)

    def delete_run(self, run: str) -> None:
        """Delete a run: its recordings, grades and logs. The home's ledger keeps that it was deleted.

        Raises:
            UnknownNameError: there is none.
            RunLockedError: it is being recorded.
        """
        from mcp_bench.recorder.runs.run_folder import remove_run

        with use_home(self.path):
            remove_run(self.run(run).path)

    def _chosen(self, where: Where) -> list[tuple[Path, StoredEpisode]]:
        return chosen(self._stored(several(where.get("runs", ()))), where)

    def _stored(self, runs: Sequence[str]) -> Iterator[tuple[Path, StoredEpisode]]:
        for path, episodes in self._read(runs):
            yield from ((path, episode) for episode in episodes)

    def _read(
        self, runs: Sequence[str], tags: Sequence[str] = ()
    ) -> Iterator[tuple[Path, list[StoredEpisode]]]:
        """Yield the folders and episodes of runs; leave out, with a warning, those that cannot be read."""
        from mcp_bench.recorder.runs.find import run_paths
        from mcp_bench.recorder.runs.reader import RunReader

        with use_home(self.path):
            paths = run_paths(runs, tags=tags)
        for path in paths:
            try:
                with RunReader(path) as reader:
                    episodes = list(reader.episodes())
            except StorageError as error:
                warnings.warn(f"left out: {error}", UnreadableRunWarning, stacklevel=3)
                continue
            yield path, episodes


def open_home(path: str | Path | None = None) -> Home:
    """Return the home at `path`; by default `$MCP_BENCH_HOME`, else your user data directory."""
    return Home(default_home() if path is None else Path(path).expanduser().absolute())
