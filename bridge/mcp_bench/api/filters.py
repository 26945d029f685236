"""Which episodes are asked for, by the names of what they are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from mcp_bench.api.names import Names, several
from mcp_bench.servers.errors import UnknownNameError

if TYPE_CHECKING:
    from mcp_bench.recorder.runs.reader import StoredEpisode


class Where(TypedDict, total=False):
    """Only episodes of these: one name, or several. An episode has to fit each that is given."""

    runs: Names
    agents: Names
    models: Names
    benchmarks: Names
    splits: Names
    domains: Names
    tasks: Names


def chosen(episodes: Iterator[tuple[Path, StoredEpisode]], where: Where) -> list[tuple[Path, StoredEpisode]]:
    """Return the episodes that have the names, besides those of runs.

    Raises:
        UnknownNameError: no episode has one of them.
        TypeError: there is no such filter.
    """
    filters = Where.__annotations__
    if odd := where.keys() - filters:
        raise TypeError(f"there is no filter {', '.join(sorted(odd))}: use {', '.join(filters)}")
    given = cast("Mapping[str, Names]", where).items()
    wanted = {kind.removesuffix("s"): several(names) for kind, names in given if names and kind != "runs"}
    known: dict[str, set[str]] = {kind: set() for kind in wanted}
    found = []
    for path, episode in episodes:
        for kind, seen in known.items():
            seen.add(getattr(episode, kind) or "")
        if all(getattr(episode, kind) in names for kind, names in wanted.items()):
            found.append((path, episode))
    for kind, names in wanted.items():
        for name in names:
            if name not in known[kind]:
                raise UnknownNameError(kind, name, known[kind] - {""})
    return found
