"""What changed between two sets of texts: a unified diff of each file, for a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal

MOST_LINES = 2_000
"""Of a file that is compared: an agent can write one that would take minutes."""

UNENDED = "No line feed at the end of the file"
"""Below such a line, as `git diff` says it."""

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
    old, new = _split(before), _split(after)
    if max(len(old), len(new)) > MOST_LINES:
        return [("place", f"More than {MOST_LINES} lines: not compared.")]
    signs: dict[str, Side] = {"+": "added", "-": "removed", " ": "same"}
    found: list[tuple[Side, str]] = []
    for line in list(unified_diff(old, new))[2:]:  # without the names of files
        if line.startswith("@"):
            found.append(("place", line.rstrip()))
            continue
        found.append((signs[line[0]], line[1:].removesuffix("\n")))
        if not line.endswith("\n"):
            found.append(("place", UNENDED))
    return found


def _split(text: str) -> list[str]:
    """Return the lines of a text with their line feeds, so that those of two texts differ if these do."""
    # pages write out other characters that end lines
    return [line for line in re.split(r"(?<=\n)", text) if line]
