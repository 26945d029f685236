"""Episodes that were not solved, grouped by what went wrong. An episode can be in several groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.words import ENDS, INVALID
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import NORMAL_ENDS
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.totals import finished

KINDS = {
    "invalid": "Invalid: nothing about the agent",
    "end": "How it ended",
    "calls": "What it did",
    "objective": "Objectives that were not met",
    "guardrail": "Guardrails that broke",
    "damaged": "Damaged",
}
_ID = re.compile(r"\{.*\}|\b\w*\d[\w-]*\b|'[^']*'|\"[^\"]*\"")
_REST = re.compile(r"(?: \([^()]*…\))?: …$")
"""What an assertion's name says nothing with when its values are gone: `(no. …): …`."""


@dataclass(slots=True)
class Group:
    """Episodes with the same failure."""

    kind: str
    what: str
    episodes: list[StoredEpisode] = field(default_factory=list)


def groups(library: Library, paths: Sequence[Path]) -> list[tuple[str, list[Group]]]:
    """Return the groups by their kind, the largest first. Runs that cannot be read are left out."""
    found: dict[tuple[str, str], Group] = {}
    for path in paths:
        try:
            episodes = [one for one in library.episodes(path) if finished(one) and not one.strict]
            with RunReader(path) as reader:
                for episode in episodes:
                    for kind, what in _reasons_or_damage(reader, episode):
                        found.setdefault((kind, what), Group(kind, what)).episodes.append(episode)
        except StorageError:
            continue
    by_size = sorted(found.values(), key=lambda group: (-len(group.episodes), group.what))
    return [
        (title, own)
        for kind, title in KINDS.items()
        if (own := [group for group in by_size if group.kind == kind])
    ]


def _reasons_or_damage(reader: RunReader, episode: StoredEpisode) -> Iterable[tuple[str, str]]:
    try:
        return dict.fromkeys(_reasons(reader, episode))
    except StorageError:
        return [("damaged", "its grade cannot be read")]


def _reasons(reader: RunReader, episode: StoredEpisode) -> Iterator[tuple[str, str]]:
    if episode.invalid is not None:
        words = INVALID.get(episode.invalid)
        yield "invalid", f"{episode.invalid}: {words}" if words else episode.invalid
        return
    if episode.partial is None:
        return
    if episode.termination not in NORMAL_ENDS and episode.termination:
        yield "end", ENDS.get(episode.termination, episode.termination)
    if episode.claim:
        yield "end", f"the agent reported {episode.claim}, which was not believed"
    if not episode.calls:
        yield "calls", "it made no call"
    elif episode.failed_calls == episode.calls:
        yield "calls", "every call failed"
    elif 2 * episode.failed_calls > episode.calls:
        yield "calls", "more than half of the calls failed"
    for one in reader.assertions(episode.id):
        if not one.get("passed"):
            kind = str(one.get("kind", "objective"))
            yield kind if kind in KINDS else "objective", _general(str(one.get("name")))


def _general(name: str) -> str:
    """Return an assertion's name without ids, so that those of different tasks are in one group."""
    return _REST.sub("", _ID.sub("…", name))
