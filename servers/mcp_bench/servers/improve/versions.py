"""The versions of a target that were tried in one attempt, and what is known of each."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.improve.estimate import Estimate

Files = Mapping[str, str]


@dataclass
class Version:
    """Files that were run at least once. Version 0 is the baseline."""

    number: int
    files: Files
    note: str
    novelty: float
    """1: nothing like it was tried before; 0: the same program was."""
    samples: dict[str, list[float]] = field(default_factory=dict)
    """What was measured while searching, for this version and, on the same items, for the baseline."""
    metric: Estimate | None = None
    gain: Estimate | None = None
    crash: str = ""
    """Why its last run gave no metric: the class of the crash, and the lines that help."""

    @property
    def crash_class(self) -> str:
        return self.crash.partition("\n")[0]

    def stored(self) -> dict[str, JSON]:
        """Return what the sealed state keeps of it. Its files are in the recorded calls."""
        samples: dict[str, JSON] = {name: list(values) for name, values in self.samples.items()}
        return {
            "number": self.number,
            "digest": digest(self.files),
            "note": self.note,
            "novelty": self.novelty,
            "samples": samples,
            "crash": self.crash,
        }

    def words(self) -> str:
        """Return the version in one line."""
        result = self.crash_class if self.metric is None else f"{self.metric.value:.5g}"
        return f"version {self.number}: {result or 'not run'}{f' ({self.note})' if self.note else ''}"


class Versions:
    """All versions of an attempt, in order."""

    def __init__(self, baseline: Files) -> None:
        self.all = [Version(0, dict(baseline), "the baseline", 1.0)]

    def find(self, files: Files) -> Version | None:
        """Return the version with these files."""
        wanted = digest(files)
        return next((version for version in self.all if digest(version.files) == wanted), None)

    def add(self, files: Files, note: str) -> Version:
        """Return the version with these files; make it if there is none."""
        if (known := self.find(files)) is not None:
            known.note = note or known.note
            return known
        novelty = min(1 - similarity(files, version.files) for version in self.all)
        self.all.append(Version(len(self.all), dict(files), note, novelty))
        return self.all[-1]

    def best(self) -> Version | None:
        """Return the version with the greatest gain while searching, at the worse end of its interval."""
        measured = [(version.gain.low, version) for version in self.all if version.gain is not None]
        return max(measured, key=lambda pair: pair[0])[1] if measured else None


def digest(files: Files) -> str:
    """Return a hash of names and contents."""
    parts = (f"{len(name)} {name} {len(text)} {text}" for name, text in sorted(files.items()))
    return sha256("\n".join(parts).encode()).hexdigest()


def similarity(one: Files, other: Files) -> float:
    """Return which part of their lines two versions share, from 0 to 1, in any order.

    Comments and layout of Python do not count.
    """
    ratios = [_shared(plain(one[name]), plain(other.get(name, ""))) for name in one]
    return sum(ratios) / len(ratios)


def _shared(one: Counter[str], other: Counter[str]) -> float:
    """Return the overlap of two multisets: its time is linear, whatever an agent writes."""
    whole = one.total() + other.total()
    return 2 * (one & other).total() / whole if whole else 1.0


@lru_cache(maxsize=128)
def plain(text: str) -> Counter[str]:
    """Return the lines of a program without comments and layout, or its own lines if it is no Python."""
    try:
        return Counter(ast.unparse(ast.parse(text)).splitlines())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Counter(text.splitlines())
