"""What each part of a harness is worth: which tasks are solved with it and not without it, or vice versa."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcp_bench.bridge.harness.folder import Harness
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.comparison import compare

WITHOUT, WITH = "without", "with"


def parts_of(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the parts that can be left out, with their files: tips and other files, skills as a whole."""
    parts: dict[str, list[str]] = {}
    for path in sorted(files):
        first, _, rest = path.partition("/")
        name = (
            first if first == "recall" else f"skills/{rest.partition('/')[0]}" if first == "skills" else path
        )
        parts.setdefault(name, []).append(path)
    return parts


def left_out(files: Mapping[str, str], part: str) -> dict[str, str]:
    """Return a harness's files without a part."""
    gone = set(parts_of(files)[part])
    return {path: text for path, text in files.items() if path not in gone}


def difference(whole: Harness, other: Harness) -> str | None:
    """Return the only part that `whole` has and `other` lacks; None if they differ otherwise."""
    for part in parts_of(whole.files):
        if left_out(whole.files, part) == other.files:
            return part
    return None


@dataclass(frozen=True)
class Worth:
    """What a part is worth on tasks that were tried with it and without it.

    `row` is a row of `compare`, from without to with it.
    """

    part: str
    whole: str
    row: Mapping[str, Any]

    @property
    def helped(self) -> list[str]:
        return [one["task"] for one in self.row["flips"]["fail_to_pass"]]

    @property
    def hurt(self) -> list[str]:
        return [one["task"] for one in self.row["flips"]["pass_to_fail"]]


def worths(recorded: Sequence[tuple[Harness, Sequence[StoredEpisode]]]) -> list[Worth]:
    """Return the worth of each part whose absence was recorded, too.

    Args:
        recorded: harnesses of different versions, each with all episodes that had it.
    """
    found = []
    for whole, having in recorded:
        for other, lacking in recorded:
            if (part := difference(whole, other)) is not None:
                sides = [
                    *(replace(one, run=WITH) for one in having),
                    *(replace(one, run=WITHOUT) for one in lacking),
                ]
                rows = compare(sides, f"run={WITHOUT}", f"run={WITH}", by=())["rows"]
                found.append(Worth(part, str(whole), rows[0]))
    return sorted(found, key=lambda one: (len(one.hurt) - len(one.helped), one.part))
