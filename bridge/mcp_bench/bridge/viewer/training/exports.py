"""A data set that `mcp-bench export` wrote: its manifest, and why each episode was kept or left out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from mcp_bench.bridge.viewer.training.folders import read_object

TOOL = "mcp-bench-kit"
KEPT = "kept"
UNKNOWN = "not written down"
MOST_ROW = 20_000_000
"""Characters of a row that is read."""


@dataclass(frozen=True, slots=True)
class Member:
    """An episode that an export looked at. `run` is empty if the manifest does not say."""

    episode: str
    run: str
    rule: str
    """`KEPT`, or the rule that left it out."""


class Export:
    """A manifest, read leniently: an older one does not say which episodes were left out."""

    def __init__(self, path: Path) -> None:
        """Read the manifest at `path`.

        Raises:
            LookupError: it is not one of an export.
        """
        self.path = path
        self.manifest = read_object(path)
        if self.manifest.get("tool") != TOOL or not isinstance(self.manifest.get("funnel"), dict):
            raise LookupError("this is not the manifest of an export, or it cannot be read")

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        found = self.manifest.get("runs")
        return found if isinstance(found, dict) else {}

    @cached_property
    def left_out(self) -> dict[str, dict[str, list[str]]] | None:
        """The episodes that were left out, by run and rule; None if that is not written down.

        They are in a file beside the manifest. Those of earlier versions are in the manifest, or nowhere.
        """
        if "left_out" not in self.manifest:
            return None
        named = self.manifest["left_out"]
        if isinstance(named, str):
            named = read_object(self.path.parent / Path(named).name) or None
        elif named is None:
            named = {}
        return named if isinstance(named, dict) else None

    @property
    def says_why(self) -> bool:
        """Whether the episodes that were left out are named."""
        return self.left_out is not None

    @property
    def words(self) -> dict[str, str]:
        """What each rule leaves out, in words."""
        found = self.manifest.get("rules")
        return {str(rule): str(words) for rule, words in found.items()} if isinstance(found, dict) else {}

    def funnel(self) -> list[tuple[str, str, int, int]]:
        """Return each rule that left something out: its name, in words, how many, and how many remained."""
        funnel = self.manifest["funnel"]
        left = int(funnel.get("rows_in", 0))
        found = []
        for rule, count in (funnel.get("dropped") or {}).items():
            left -= count
            if count:
                found.append((rule, self.words.get(rule, rule.replace("_", " ")), count, left))
        return found

    def members(self) -> list[Member]:
        """Return the episodes that were kept, then those left out, rule by rule."""
        found = [Member(episode, "", KEPT) for episode in self.manifest.get("episodes") or ()]
        for run, rules in (self.left_out or {}).items():
            for rule, episodes in rules.items():
                found += [Member(episode, run, rule) for episode in episodes]
        return found

    def choices(self) -> list[tuple[str, str]]:
        """Return what the selection asked for beyond nothing, as names and values."""
        selection = self.manifest.get("selection") or {}
        return [
            (name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else str(value))
            for name, value in selection.items()
            if value not in (None, [], False, "")
            and not (name == "similarity" and selection.get("dedupe") != "near")
            and not (name == "seed" and value == 0)
        ]

    def number_of(self, file: Path, line: int) -> int | None:
        """Return the number of a row by its file and line; None if the data has no such file."""
        for one in self.manifest.get("files") or ():
            if Path(str(one.get("name"))).name == file.name:
                return line
            line += one.get("rows", 0)
        return None

    def row(self, number: int) -> Any:
        """Return a row of the data, counted from 1.

        Raises:
            LookupError: there is no such row, or its file cannot be read here.
        """
        for file in self.manifest.get("files") or ():
            if number > file.get("rows", 0):
                number -= file.get("rows", 0)
                continue
            with (
                suppress(OSError, ValueError, EOFError),
                _lines(self.path.parent / Path(file["name"]).name) as lines,
            ):
                for line in islice(lines, number - 1, number):
                    return json.loads(line)
            raise LookupError("the row cannot be read: only JSON lines, also with gzip, are shown")
        raise LookupError("there is no such row")


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a file of JSON lines; the context is its lines."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        yield iter(lambda: file.readline(MOST_ROW), "")
