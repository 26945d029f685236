"""The conditions of report rows in words, and only what differs between the rows that are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mcp_bench.recorder.run_settings import ScoreSettings
from mcp_bench.recorder.runs.reader import StoredEpisode

CONDITIONS = ("tools_mode", "home", "isolation", "harness")
"""What attempts must have in common to be comparable: the commands group by these columns, too.

The column `harness` has the `score_settings` of an episode. The folder that is called so is one of them.
"""


def values_of(episode: StoredEpisode, columns: Sequence[str]) -> tuple[Any, ...]:
    """Return what an episode has in columns of a report, such as those in `CONDITIONS`."""
    return tuple([getattr(episode, "score_settings" if one == "harness" else one) for one in columns])


def differing_conditions(rows: Sequence[Mapping[str, Any]], *, but: Collection[str] = ()) -> list[str]:
    """Return for each row its conditions that other rows do not share, such as `tools all, drop=0.5`.

    A part that only other rows have is named too: `no drop`. All texts are empty if nothing differs.

    Args:
        rows: report rows, or anything with the fields in `CONDITIONS`.
        but: parts to leave out, such as `isolation`.
    """
    parts = [_parts(row) for row in rows]
    names = dict.fromkeys(name for found in parts for name in found if name not in but)
    differ = [name for name in names if len({found.get(name) for found in parts}) > 1]
    return [", ".join(found.get(name, f"no {name}") for name in differ) for found in parts]


def common_conditions(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the conditions that all rows share."""
    parts = [_parts(row) for row in rows]
    return ", ".join(
        words
        for name, words in (parts[0] if parts else {}).items()
        if all(found.get(name) == words for found in parts)
    )


def _parts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the conditions of a row in words, by name."""
    words = {"tools_mode": "tools", "home": "home", "isolation": "isolation"}
    found = {name: f"{word} {row[name]}" for name, word in words.items() if row.get(name)}
    settings = row.get("harness")  # `*` if a row mixes them
    return {**found, **settings.words} if isinstance(settings, ScoreSettings) else found
