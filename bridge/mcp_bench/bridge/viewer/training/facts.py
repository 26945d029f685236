"""Read the JSON files of training, with values of the kind that a page wants.

Others may have written them, and every file can be missing, cut off, older or newer: what does not fit counts
as missing.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_TEXT = 100_000
"""Characters of a file that are shown."""


class Facts(dict[str, Any]):
    """A JSON object whose missing keys are None, as its file may be older, newer or cut off."""

    def __missing__(self, key: str) -> None:
        return None


def read_object(path: Path) -> Facts:
    """Return the JSON object in a file; an empty one if the file is missing, cut off or something else."""
    try:
        return as_object(json.loads(path.read_text("utf-8"), object_hook=Facts))
    except (OSError, ValueError, RecursionError):
        return Facts()


def read_lines(path: Path) -> list[Facts]:
    """Return the objects of a file with one in each line. Incomplete lines are left out."""
    found = []
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                if isinstance(one := json.loads(line, object_hook=Facts), Facts):
                    found.append(one)
    return found


def read_text(path: Path) -> str:
    """Return the first `MOST_TEXT` characters of a file; empty if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST_TEXT)
    except OSError:
        return ""


def number(value: object) -> float | None:
    """Return a number that can be drawn: None for another value, infinity or not-a-number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    with suppress(OverflowError):
        if math.isfinite(value):
            return float(value)
    return None


def count(value: object) -> int:
    """Return a number of things: 0 for another value."""
    return int(number(value) or 0)


def span(value: object) -> tuple[float, float] | None:
    """Return the two ends of an interval: None for another value."""
    ends = [number(end) for end in listed(value)]
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        return None
    return ends[0], ends[1]


def listed(value: object) -> list[Any]:
    """Return a list: an empty one for another value."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[Facts]:
    """Return the objects in a list: none for another value."""
    return [one for one in listed(value) if isinstance(one, Facts)]


def as_object(value: object) -> Facts:
    """Return an object: an empty one for another value."""
    return value if isinstance(value, Facts) else Facts()


def scores_in(found: Facts) -> Facts:
    """Return what was measured, with scores and intervals that can be drawn, and the run that it rests on."""
    scores = {kind: number(found[kind]) for kind in ("partial", "strict")}
    spans = {f"{kind}_ci": span(found[f"{kind}_ci"]) for kind in scores}
    return Facts({**found, **scores, **spans, "run": str(found["run"] or "")})
