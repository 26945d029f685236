"""What changed between two sets of texts: a unified diff of each file, for a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal

MOST_LINES = 2_000
"""Of a file that is compared: an agent can write one that would take minutes."""

Side = Literal["added", "removed", "same", "place"]


@dataclass(frozen=True, slots=True)
class Change:
    """A file that was added, removed or edited."""

    path: str
    what: Literal["added", "removed", "edited"]
    lines: list[tuple[Side, str]]

    @property
    def added(self) -> int:
        return sum(side == "added" for side, _ in self.lines)

    @property
    def removed(self) -> int:
        return sum(side == "removed" for side, _ in self.lines)


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return a change for each path whose text is not the same."""
    return [
        Change(
            path,
            "added" if path not in before else "removed" if path not in after else "edited",
            _lines(before.get(path, ""), after.get(path, "")),
        )
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _lines(before: str, after: str) -> list[tuple[Side, str]]:
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        return [("place", f"More than {MOST_LINES} lines: not compared.")]
    drawn = list(unified_diff(old, new, lineterm=""))[2:]  # without the names of files
    signs: dict[str, Side] = {"+": "added", "-": "removed", "@": "place"}
    return [(signs.get(line[:1], "same"), line if line.startswith("@") else line[1:]) for line in drawn]
