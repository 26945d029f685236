"""Which episodes are asked for, by the names of agents, models, benchmarks, splits, domains and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bench.api.names import Names, several
from mcp_bench.servers.errors import UnknownNameError

if TYPE_CHECKING:
    from mcp_bench.recorder.runs.reader import StoredEpisode


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The names that an episode must have one of, of each kind; all names where there are none."""

    agents: tuple[str, ...]
    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    splits: tuple[str, ...]
    domains: tuple[str, ...]
    tasks: tuple[str, ...]

    def chosen(self, episodes: Iterator[tuple[Path, StoredEpisode]]) -> list[tuple[Path, StoredEpisode]]:
        """Return the episodes that have the names.

        Raises:
            UnknownNameError: no episode has one of them.
        """
        wanted = {one.name.removesuffix("s"): getattr(self, one.name) for one in fields(self)}
        known: dict[str, set[str]] = {kind: set() for kind in wanted}
        found = []
        for path, episode in episodes:
            for kind, names in known.items():
                names.add(getattr(episode, kind) or "")
            if all(not names or getattr(episode, kind) in names for kind, names in wanted.items()):
                found.append((path, episode))
        for kind, names in wanted.items():
            for name in names:
                if name not in known[kind]:
                    raise UnknownNameError(kind, name, known[kind] - {""})
        return found


def filter_of(
    agents: Names, models: Names, benchmarks: Names, splits: Names, domains: Names, tasks: Names
) -> Filter:
    """Return the filter of these names: one, or several, of each kind."""
    return Filter(
        agents=several(agents),
        models=several(models),
        benchmarks=several(benchmarks),
        splits=several(splits),
        domains=several(domains),
        tasks=several(tasks),
    )
