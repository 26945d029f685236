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
from typing import Any, BinaryIO, cast

from mcp_bench.bridge.viewer.training.facts import as_object, count, listed, number, objects, read_object
from mcp_bench.recorder.files.lines import bounded_lines

TOOL = "mcp-bench-kit"
KEPT = "kept"
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
        return {run: as_object(facts) for run, facts in as_object(self.manifest["runs"]).items()}

    @property
    def episodes(self) -> list[str]:
        """The episodes that were kept."""
        return [str(one) for one in listed(self.manifest["episodes"])]

    @property
    def rows(self) -> int:
        return count(self.manifest["rows"])

    @property
    def looked_at(self) -> int:
        """Of how many episodes some were kept; 0 if that is not written down."""
        return count(self.manifest["funnel"]["rows_in"])

    @property
    def dropped(self) -> int | None:
        """How many episodes were left out; None if that is not written down."""
        looked_at, kept = (number(self.manifest["funnel"][name]) for name in ("rows_in", "rows_out"))
        return None if looked_at is None or kept is None else int(looked_at - kept)

    @cached_property
    def left_out(self) -> dict[str, Any] | None:
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
        return {rule: str(words) for rule, words in as_object(self.manifest["rules"]).items()}

    def funnel(self) -> list[tuple[str, str, int, int]]:
        """Return each rule that left something out: its name, in words, how many, and how many remained."""
        left = self.looked_at
        found = []
        for rule, value in as_object(self.manifest["funnel"]["dropped"]).items():
            dropped = count(value)
            left -= dropped
            if dropped:
                found.append((rule, self.words.get(rule, rule.replace("_", " ")), dropped, left))
        return found

    def members(self) -> list[Member]:
        """Return the episodes that were kept, then those left out, rule by rule."""
        found = [Member(episode, "", KEPT) for episode in self.episodes]
        for run, rules in (self.left_out or {}).items():
            for rule, episodes in as_object(rules).items():
                found += [Member(str(episode), run, rule) for episode in listed(episodes)]
        return found

    def choices(self) -> list[tuple[str, str]]:
        """Return what the selection asked for beyond nothing, as names and values."""
        selection = as_object(self.manifest["selection"])
        return [
            (name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else str(value))
            for name, value in selection.items()
            if value not in (None, [], False, "")
            and not (name == "similarity" and selection.get("dedupe") != "near")
            and not (name == "seed" and value == 0)
        ]

    def number_of(self, file: Path, line: int) -> int | None:
        """Return the number of a row by its file and line; None if the data has no such file."""
        for one in objects(self.manifest["files"]):
            if Path(str(one["name"])).name == file.name:
                return line
            line += count(one["rows"])
        return None

    def row(self, number: int) -> Any:
        """Return a row of the data, counted from 1.

        Raises:
            LookupError: there is no such row, or its file cannot be read here.
        """
        for file in objects(self.manifest["files"]):
            if number > count(file["rows"]):
                number -= count(file["rows"])
                continue
            with (
                suppress(OSError, ValueError, EOFError, RecursionError),
                _lines(self.path.parent / Path(str(file["name"])).name) as lines,
            ):
                for line in islice(lines, number - 1, number):
                    return json.loads(line)
            raise LookupError("the row cannot be read: only JSON lines, also with gzip, are shown")
        raise LookupError("there is no such row")


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[bytes]]:
    """Open a file of JSON lines; the context is its lines, of one that is too long the beginning."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield bounded_lines(cast(BinaryIO, file), MOST_ROW)
